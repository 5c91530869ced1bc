//! Checkpoints in object storage: `checkpoint` to a URL, `restore` from one, `checkpoints` and `verify` of those under one.
//!
//! May touch `rollstore_objects`. Knows nothing of services.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use rollstore_objects::{Checkpoint, Finding, Options, Retained, Verification, is_url};
use serde_json::{Value, json};

use crate::args::{CheckpointArgs, CheckpointsArgs, RestoreArgs, VerifyArgs};
use crate::exit::{Outcome, Verdict, note};
use crate::formats::Meter;
use crate::output::Output;
use crate::text;
use crate::upkeep::{contents, open};

/// The URL that an argument is; `None` for a path.
pub(crate) fn url(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|text| is_url(text))
}

pub(crate) fn checkpoint(args: &CheckpointArgs, url: &str, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store)?;
    let sent = rollstore_objects::checkpoint(&store, url, args.keep, &with_meter("sending"))?;
    let contents = contents(&store);
    store.close()?;
    out.line(out.bold(&format!(" {} {}", text::escape(url), sent.number)))?;
    out.line(format_args!(" saved      {contents}"))?;
    let (segments, bytes) = (text::counted(sent.sent_segments, "segment"), text::bytes(sent.sent_bytes));
    let there = text::counted(sent.segments - sent.sent_segments, "segment");
    out.line(format_args!(" sent       {segments}, {bytes}; {there} there already"))?;
    match sent.retention {
        None => Ok(Verdict::Sound),
        Some(Ok(Retained { checkpoints, deleted_checkpoints, deleted_bytes, .. })) => {
            let ended = text::counted(deleted_checkpoints, "checkpoint");
            let kept = text::counted(checkpoints, "checkpoint");
            out.line(format_args!(" keeps      {kept}; {ended} ended, {} given back", text::bytes(deleted_bytes)))?;
            Ok(Verdict::Sound)
        }
        Some(Err(error)) => {
            note(&format!("the checkpoint is saved, older ones were not ended: {error}"));
            Ok(Verdict::Damaged)
        }
    }
}

pub(crate) fn restore(args: &RestoreArgs, url: &str) -> Outcome {
    rollstore_objects::restore(url, &args.dir, args.number, &with_meter("fetching"))?;
    Ok(())
}

pub(crate) fn list(args: &CheckpointsArgs, out: &mut Output) -> Outcome<Verdict> {
    let checkpoints = rollstore_objects::list(&args.url, &Options::default())?;
    if args.json {
        checkpoints.iter().try_for_each(|checkpoint| out.json(&as_json(checkpoint)))?;
        return Ok(Verdict::Sound);
    }
    if checkpoints.is_empty() {
        out.line(" there is no checkpoint")?;
        return Ok(Verdict::Sound);
    }
    let head = format!(" {:>10} {:>12} {:>9} {:>11} {:>11}", "checkpoint", "step", "segments", "size", "new");
    out.line(out.bold(&head))?;
    checkpoints.iter().try_for_each(|checkpoint| {
        let Checkpoint { number, segments, bytes, new_bytes, .. } = checkpoint;
        let step = checkpoint.step.map_or_else(|| "-".to_owned(), |step| step.to_string());
        let (size, new) = (text::bytes(*bytes), text::bytes(*new_bytes));
        out.line(format_args!(" {number:>10} {step:>12} {segments:>9} {size:>11} {new:>11}"))
    })?;
    Ok(Verdict::Sound)
}

pub(crate) fn verify(args: &VerifyArgs, url: &str, out: &mut Output) -> Outcome<Verdict> {
    let seen = rollstore_objects::verify(url, &with_meter("reading"))?;
    let verdict = if seen.is_sound() { Verdict::Sound } else { Verdict::Damaged };
    if args.json {
        out.json(&verification_as_json(&seen))?;
        return Ok(verdict);
    }
    out.line(out.bold(&format!(" {}", text::escape(url))))?;
    let Verification { checkpoints, segments, bytes, findings } = &seen;
    let (checkpoints, segments) = (text::counted(*checkpoints, "checkpoint"), text::counted(*segments, "segment"));
    out.line(format_args!(" checked    {checkpoints}, {segments}, {}", text::bytes(*bytes)))?;
    if findings.is_empty() {
        out.line(" sound      every byte is what was sent")?;
        return Ok(verdict);
    }
    for Finding { what, checkpoints, .. } in findings {
        let numbers: Vec<_> = checkpoints.iter().map(u64::to_string).collect();
        out.line(format_args!(" damaged    of checkpoint {}: {}", numbers.join(", "), text::escape(what)))?;
    }
    out.line("")?;
    out.line(" next: restore a checkpoint that is not named here, or save the store once more")?;
    Ok(verdict)
}

fn verification_as_json(seen: &Verification) -> Value {
    let findings = seen.findings.iter().map(
        |Finding { object, what, checkpoints }| json!({"object": object, "what": what, "checkpoints": checkpoints}),
    );
    json!({
        "sound": seen.is_sound(),
        "checkpoints": seen.checkpoints,
        "segments": seen.segments,
        "bytes": seen.bytes,
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn as_json(checkpoint: &Checkpoint) -> Value {
    let put_at = checkpoint.put_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "checkpoint": checkpoint.number,
        "step": checkpoint.step,
        "run": text::hex(&checkpoint.run),
        "put_at": put_at.as_secs(),
        "segments": checkpoint.segments,
        "bytes": checkpoint.bytes,
        "new_bytes": checkpoint.new_bytes,
        "annotation": checkpoint.annotation,
    })
}

/// Options whose progress is a bar; it begins with the first bytes, when their number is known.
fn with_meter(doing: &'static str) -> Options {
    let meter: Arc<OnceLock<Meter>> = Arc::default();
    Options::default().on_progress(move |progress| {
        meter.get_or_init(|| Meter::of_bytes(doing, progress.total_bytes)).set(progress.done_bytes);
    })
}
