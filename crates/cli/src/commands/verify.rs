//! `rollstore verify`: every byte of a store against its checksums, and what is damaged.

use std::path::Path;

use rollstore::inspect::{self, Verification};
use serde::Serialize;

use crate::args::VerifyArgs;
use crate::exit::{Outcome, Verdict};
use crate::findings::{self, FindingJson};
use crate::output::Output;
use crate::{objects, text};

pub(crate) fn run(args: &VerifyArgs, out: &mut Output) -> Outcome<Verdict> {
    if let Some(url) = objects::url(&args.store) {
        return objects::verify(args, url, out);
    }
    let verification = inspect::verify(&args.store)?;
    if args.json {
        out.json(&VerificationJson::new(&args.store, &verification))?;
    } else {
        print(&args.store, &verification, out)?;
    }
    Ok(if verification.is_sound() { Verdict::Sound } else { Verdict::Damaged })
}

fn print(store: &Path, verification: &Verification, out: &mut Output) -> Outcome {
    let kind = if verification.is_checkpoint { "   a checkpoint" } else { "" };
    out.line(format_args!("{}{kind}", out.bold(&format!(" {}", text::path(store)))))?;
    let Verification { segments, frames, bytes, in_flight_bytes, .. } = *verification;
    let (segments, frames, bytes) =
        (text::counted(segments, "segment"), text::counted(frames, "frame"), text::bytes(bytes));
    out.line(format_args!(" checked    {segments}, {frames}, {bytes}"))?;
    out.line(format_args!(" in flight  {}", in_flight(in_flight_bytes)))?;
    if verification.is_sound() {
        return out.line(" sound      every byte is what was written");
    }
    let places = verification.findings.len();
    out.line(format_args!(" damaged    {}", text::counted(u64::try_from(places).unwrap_or(u64::MAX), "place")))?;
    findings::lines(store, &verification.findings).iter().try_for_each(|line| out.line(line))?;
    out.line("")?;
    out.line(if verification.is_checkpoint {
        " next: restore another checkpoint; this one cannot be repaired, since a checkpoint never changes"
    } else if !verification.has_manifest {
        " next: restore a checkpoint; without a manifest there is nothing to repair by"
    } else {
        " next: restore a checkpoint that is sound itself, or run \"rollstore repair\", which keeps what is whole"
    })
}

fn in_flight(in_flight_bytes: u64) -> String {
    let why = "behind the last whole batch: a write under way, or cut short by a crash";
    if in_flight_bytes == 0 { "nothing".to_owned() } else { format!("{} {why}", text::bytes(in_flight_bytes)) }
}

/// A verification as JSON: the interface of `verify --json`, told in its help.
#[derive(Debug, Serialize)]
struct VerificationJson<'a> {
    sound: bool,
    checkpoint: bool,
    segments: u64,
    frames: u64,
    bytes: u64,
    in_flight_bytes: u64,
    last_lsn: u64,
    findings: Vec<FindingJson<'a>>,
}

impl<'a> VerificationJson<'a> {
    fn new(store: &Path, verification: &'a Verification) -> Self {
        Self {
            sound: verification.is_sound(),
            checkpoint: verification.is_checkpoint,
            segments: verification.segments,
            frames: verification.frames,
            bytes: verification.bytes,
            in_flight_bytes: verification.in_flight_bytes,
            last_lsn: verification.last_lsn.get(),
            findings: findings::as_json(store, &verification.findings),
        }
    }
}
