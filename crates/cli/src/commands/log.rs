//! `rollstore log`: the log frame by frame, and what is written to it from now on.

use std::path::Path;
use std::time::Duration;

use rollstore::RolloutId;
use rollstore::inspect::{self, Finding, LogFrame, LogItem};

use super::frame;
use crate::args::{LogArgs, Span};
use crate::exit::{Failure, Outcome, Verdict};
use crate::findings;
use crate::output::Output;
use crate::text;

/// How long nothing is looked for after the end was reached.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &LogArgs, out: &mut Output) -> Outcome<Verdict> {
    let mut log = inspect::log(&args.store)?;
    if let Some(segment) = args.segment {
        let segments = log.segments()?;
        if !segments.contains(&segment) {
            let listed: Vec<String> = segments.iter().map(ToString::to_string).collect();
            let (store, listed) = (text::path(&args.store), listed.join(", "));
            return Err(Failure::could_not_look(format!("segment {segment} is not in {store}; it has {listed}")));
        }
        log = log.of_segment(segment);
    }
    if !args.json {
        out.line(out.bold(&frame::head()))?;
    }
    let mut verdict = Verdict::Sound;
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        match log.next() {
            Some(item) => match item? {
                LogItem::Frame(frame) if args.id.is_none_or(|span| names(&frame, span)) => {
                    if args.json {
                        out.json(&frame::as_json(&frame))?;
                    } else {
                        out.line(frame::row(&frame))?;
                    }
                    left -= 1;
                }
                LogItem::Damage(finding) => {
                    print_damage(&args.store, &finding, args.json, out)?;
                    verdict = Verdict::Damaged;
                }
                _ => {}
            },
            None if args.follow => out.wait(PAUSE)?,
            None => break,
        }
    }
    Ok(verdict)
}

fn names(frame: &LogFrame, span: Span) -> bool {
    frame.rollouts().into_iter().map(RolloutId::get).any(|id| span.contains(id))
}

/// A damaged place, where it stands among the frames.
pub(super) fn print_damage(store: &Path, finding: &Finding, as_json: bool, out: &mut Output) -> Outcome {
    if as_json {
        return out.json(&findings::Damaged::new(store, finding));
    }
    let Finding { damage, rollouts } = finding;
    let (file, expected, found) =
        (findings::within(store, &damage.file), text::escape(&damage.expected), text::escape(&damage.found));
    let of = if rollouts.is_empty() { String::new() } else { format!("{}: ", findings::listed(rollouts)) };
    out.line(format_args!(" damaged {file} at byte {}: {of}expected {expected}, found {found}", damage.offset))
}
