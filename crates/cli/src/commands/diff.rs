//! `rollstore diff`: what differs between two stores or checkpoints.

use rollstore::inspect::{self, Changed, Differences};
use serde_json::{Value, json};

use crate::args::DiffArgs;
use crate::exit::{Failure, Outcome, Verdict};
use crate::findings;
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &DiffArgs, out: &mut Output) -> Outcome<Verdict> {
    // A store that does not open cannot be compared: that is no difference.
    let differences = inspect::diff(&args.a, &args.b).map_err(|error| Failure::could_not_look(error.to_string()))?;
    if args.json {
        as_json(args, &differences).iter().try_for_each(|line| out.json(line))?;
    } else {
        print(args, &differences, out)?;
    }
    Ok(if differences.is_empty() { Verdict::Sound } else { Verdict::Different })
}

fn print(args: &DiffArgs, differences: &Differences, out: &mut Output) -> Outcome {
    let Differences { only_in_a, only_in_b, rollouts, store, same, damage } = differences;
    out.line(out.bold(&format!(" a {}   b {}", text::path(&args.a), text::path(&args.b))))?;
    let count = |of: usize| text::count(of as u64);
    let (of_a, of_b) = (count(only_in_a.len()), count(only_in_b.len()));
    out.line(format_args!(
        " rollouts   {} the same, {} different, {of_a} only in a, {of_b} only in b",
        text::count(*same),
        count(rollouts.len())
    ))?;
    if differences.is_empty() {
        return out.line(" equal      clocks, versions, options, cursor and counters too");
    }
    store.iter().try_for_each(|changed| out.line(format_args!(" {}", words(changed))))?;
    for (name, ids) in [("a", only_in_a), ("b", only_in_b)] {
        ids.iter().try_for_each(|id| out.line(format_args!(" rollout {id}: only in {name}")))?;
    }
    for rollout in rollouts {
        for changed in &rollout.changed {
            out.line(format_args!(" rollout {}: {}", rollout.id, words(changed)))?;
        }
    }
    for finding in damage {
        let (damage, rollouts) = (&finding.damage, findings::listed(&finding.rollouts));
        let (file, expected, found) =
            (text::path(&damage.file), text::escape(&damage.expected), text::escape(&damage.found));
        let at = damage.offset;
        out.line(format_args!(" {rollouts}: {file} is damaged at byte {at}: expected {expected}, found {found}"))?;
    }
    Ok(())
}

fn words(Changed { what, a, b }: &Changed) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "none".to_owned(), |value| text::escape(value));
    format!("{} is {} in a, {} in b", text::escape(what), value(a), value(b))
}

/// The interface of `diff --json`, told in its help.
fn as_json(args: &DiffArgs, differences: &Differences) -> Vec<Value> {
    let Differences { only_in_a, only_in_b, rollouts, store, same: _, damage } = differences;
    let mut lines: Vec<Value> =
        store.iter().map(|Changed { what, a, b }| json!({ "what": what, "a": a, "b": b })).collect();
    for (name, ids) in [("a", only_in_a), ("b", only_in_b)] {
        lines.extend(ids.iter().map(|id| json!({ "only_in": name, "rollout": id.to_string() })));
    }
    for rollout in rollouts {
        let id = rollout.id.to_string();
        let changed = rollout.changed.iter();
        lines.extend(changed.map(|Changed { what, a, b }| json!({ "rollout": id, "what": what, "a": a, "b": b })));
    }
    for finding in damage {
        let store = if finding.damage.file.starts_with(&args.a) { "a" } else { "b" };
        lines.push(json!({
            "kind": "damaged", "store": store, "file": text::path(&finding.damage.file), "offset": finding.damage.offset,
            "expected": finding.damage.expected, "found": finding.damage.found, "rollouts": findings::ids(&finding.rollouts),
        }));
    }
    lines
}
