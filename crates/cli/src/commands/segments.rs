//! `rollstore segments`: what each segment holds, and how much of it is alive.

use std::ops::RangeInclusive;

use rollstore::inspect::{self, SegmentLife, SegmentReport};
use serde_json::{Value, json};

use crate::args::{SegmentOrder, SegmentsArgs};
use crate::exit::{Outcome, Verdict, note};
use crate::findings;
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &SegmentsArgs, out: &mut Output) -> Outcome<Verdict> {
    let mut found = inspect::segments(&args.store)?;
    found.segments.sort_by_key(|segment| match args.sort {
        SegmentOrder::Id => 0,
        SegmentOrder::Dead => segment.dead_bytes().unwrap_or_default(),
        SegmentOrder::Live => segment.live_bytes.unwrap_or_default(),
        SegmentOrder::Bytes => segment.bytes,
    });
    if args.reverse {
        found.segments.reverse();
    }
    let clock = found.clock;
    if args.json {
        found.segments.iter().try_for_each(|segment| out.json(&as_json(segment, clock)))?;
    } else {
        let head = format!(
            " {:>7} {:<8} {:<10} {:>8} {:>10} {:>10} {:>10} {:>13} {:>13} {:>23} {:>6}",
            "segment", "state", "holds", "frames", "size", "live", "dead", "born", "versions", "lsns", "age"
        );
        out.line(out.bold(&head))?;
        found.segments.iter().try_for_each(|segment| out.line(row(segment, clock)))?;
    }
    for finding in &found.damage {
        let (file, damage) = (findings::within(&args.store, &finding.damage.file), &finding.damage);
        let (expected, at) = (&damage.expected, damage.offset);
        note(&format!("{file} is damaged at byte {at}: expected {expected}, found {}", damage.found));
    }
    Ok(if found.damage.is_empty() { Verdict::Sound } else { Verdict::Damaged })
}

fn row(segment: &SegmentReport, clock: Option<u64>) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), text::bytes);
    let holds = if segment.is_compacted { "copies" } else { "commits" };
    let age = age(segment, clock).map_or_else(|| "-".to_owned(), text::count);
    format!(
        " {:>7} {:<8} {holds:<10} {:>8} {:>10} {:>10} {:>10} {:>13} {:>13} {:>23} {age:>6}",
        segment.id,
        state(segment),
        text::count(segment.frames),
        text::bytes(segment.bytes),
        bytes(segment.live_bytes),
        bytes(segment.dead_bytes()),
        range(segment.born_steps.as_ref()),
        range(segment.ref_versions.as_ref()),
        range(segment.lsns.as_ref()),
    )
}

fn state(segment: &SegmentReport) -> &'static str {
    match segment.state {
        SegmentLife::Written => "written",
        SegmentLife::Sealed => "sealed",
        SegmentLife::Cut => "cut",
    }
}

/// Steps of the trainer's clock since the segment was begun.
fn age(segment: &SegmentReport, clock: Option<u64>) -> Option<u64> {
    Some(clock?.saturating_sub(segment.begun_at_step?))
}

fn range(range: Option<&RangeInclusive<u64>>) -> String {
    range.map_or_else(|| "-".to_owned(), |range| format!("{}..{}", range.start(), range.end()))
}

pub(super) fn as_json(segment: &SegmentReport, clock: Option<u64>) -> Value {
    let first = |range: &Option<RangeInclusive<u64>>| range.as_ref().map(|range| *range.start());
    let last = |range: &Option<RangeInclusive<u64>>| range.as_ref().map(|range| *range.end());
    json!({
        "id": segment.id,
        "state": state(segment),
        "compacted": segment.is_compacted,
        "bytes": segment.bytes,
        "frames": segment.frames,
        "live_bytes": segment.live_bytes,
        "dead_bytes": segment.dead_bytes(),
        "first_lsn": first(&segment.lsns),
        "last_lsn": last(&segment.lsns),
        "first_born_step": first(&segment.born_steps),
        "last_born_step": last(&segment.born_steps),
        "first_ref_version": first(&segment.ref_versions),
        "last_ref_version": last(&segment.ref_versions),
        "begun_at_step": segment.begun_at_step,
        "age": age(segment, clock),
    })
}
