//! `rollstore history`: every frame of one rollout in the log, and what became of what it brought.

use rollstore::RolloutId;
use rollstore::inspect::{self, Fate, History, HistoryFrame, LogFrame};
use serde_json::{Value, json};

use super::frame;
use super::log::print_damage;
use crate::args::HistoryArgs;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &HistoryArgs, out: &mut Output) -> Outcome<Verdict> {
    let history = find(args)?;
    if args.json {
        history.frames.iter().try_for_each(|told| out.json(&as_json(told)))?;
    } else {
        print(&history, out)?;
    }
    history.damage.iter().try_for_each(|finding| print_damage(&args.store, finding, args.json, out))?;
    if history.frames.is_empty() && history.damage.is_empty() {
        let (named, store) = (super::rollout_named(&args.id), text::path(&args.store));
        let told = format!("the log of {store} tells nothing of {named}; compaction gives back what ended");
        return Err(Failure::could_not_look(told));
    }
    Ok(if history.damage.is_empty() { Verdict::Sound } else { Verdict::Damaged })
}

/// The rollout with this number or, where the log tells nothing of it or the text is no number, with this key.
fn find(args: &HistoryArgs) -> Outcome<History> {
    let keyed = RolloutId::from_key(&args.id);
    let id = args.id.parse().unwrap_or(keyed);
    let history = inspect::history(&args.store, id)?;
    if !history.frames.is_empty() || id == keyed {
        return Ok(history);
    }
    // A key may be made of digits.
    let by_key = inspect::history(&args.store, keyed)?;
    Ok(if by_key.frames.is_empty() { history } else { by_key })
}

fn print(history: &History, out: &mut Output) -> Outcome {
    let mut incarnations: Vec<_> = history.frames.iter().map(|told| told.incarnation).collect();
    incarnations.sort_unstable();
    incarnations.dedup();
    let (id, lives) = (history.rollout, text::counted(incarnations.len() as u64, "incarnation"));
    let frames = text::counted(history.frames.len() as u64, "frame");
    out.line(out.bold(&format!(" rollout {id}   {frames}, {lives}")))?;
    for lsn in &history.incomplete {
        out.line(format_args!(" the insert of incarnation {lsn} is not in the log: compaction gave it back"))?;
    }
    out.line("")?;
    let head = format!(
        " {:>12} {:>12} {:>7} {:>10} {:>9} {:<11} {:<34} {}",
        "lsn", "incarnation", "segment", "offset", "bytes", "kind", "became", "says"
    );
    out.line(out.bold(&head))?;
    for HistoryFrame { frame, incarnation, fate } in &history.frames {
        let LogFrame { segment, offset, bytes, lsn, kind, .. } = frame;
        let (became, says) = (fate_words(*fate), frame::words(&frame.said));
        out.line(format_args!(
            " {lsn:>12} {incarnation:>12} {segment:>7} {offset:>10} {bytes:>9} {kind:<11} {became:<34} {says}"
        ))?;
    }
    Ok(())
}

fn fate_words(fate: Fate) -> String {
    match fate {
        Fate::Served => "served".to_owned(),
        Fate::PartlySuperseded { by } => format!("served but for {by}"),
        Fate::Superseded { by } => format!("superseded by {by}"),
        Fate::Ended { by, reason } => {
            let by = by.map_or_else(String::new, |by| format!(" by {by}"));
            format!("ended{by}{}", reason.map_or_else(String::new, |reason| format!(", {reason}")))
        }
        Fate::Moved { to } => format!("moved to segment {to}"),
        Fate::End => "the end".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn as_json(told: &HistoryFrame) -> Value {
    let (fate, by, reason, moved_to) = match told.fate {
        Fate::Served => ("served", None, None, None),
        Fate::PartlySuperseded { by } => ("partly superseded", Some(by), None, None),
        Fate::Superseded { by } => ("superseded", Some(by), None, None),
        Fate::Ended { by, reason } => ("ended", by, reason, None),
        Fate::Moved { to } => ("moved", None, None, Some(to)),
        Fate::End => ("end", None, None, None),
        _ => ("unknown", None, None, None),
    };
    let mut fields = frame::as_json(&told.frame);
    fields.insert("of".to_owned(), told.incarnation.get().into());
    fields.insert("fate".to_owned(), fate.into());
    fields.insert("by".to_owned(), json!(by.map(rollstore::Lsn::get)));
    fields.insert("reason".to_owned(), json!(reason.map(rollstore::Reason::name)));
    fields.insert("moved_to".to_owned(), json!(moved_to));
    Value::Object(fields)
}
