//! `rollstore group`: the rollouts of one prompt, and whether all of them are there.

use rollstore::{ErrorKind, Rollout, RolloutId, RolloutStore};
use serde_json::json;

use super::row::{Row, RowJson, Shape};
use super::{Step, open};
use crate::args::GroupArgs;
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::findings;
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &GroupArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store, args.at.window)?;
    let at = Step::of(&store, args.at.step)?;
    let ids = store.group(args.group);
    let partials = partials(&store, args.group)?;
    if ids.is_empty() && partials.is_empty() {
        let (group, store) = (args.group, text::path(&args.store));
        return Err(Failure::could_not_look(format!("no rollout of group {group} is live in {store}")));
    }
    let live = ids.len() as u64;
    let complete = args.size.map(|size| live >= size);
    let mut verdict = if complete == Some(false) { Verdict::Different } else { Verdict::Sound };
    let mut rollouts = Vec::new();
    for id in ids {
        match store.get(id) {
            Ok(rollout) => rollouts.extend(rollout),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                note(&format!("rollout {id}: {error}"));
                verdict = Verdict::Damaged;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let is_fresh = |rollout: &&Rollout| super::row::flags(&rollout.staleness(at.step)) == "fresh";
    let fresh = rollouts.iter().filter(is_fresh).count() as u64;
    if args.json {
        let rows: Vec<RowJson<'_>> = rollouts.iter().map(|rollout| RowJson::new(&store, rollout, at.step)).collect();
        out.json(&json!({
            "group": args.group.to_string(), "size": args.size, "complete": complete, "live": live, "fresh": fresh,
            "partials": findings::ids(&partials), "rollouts": rows,
        }))?;
        return Ok(verdict);
    }
    out.line(format_args!(" {}", at.words(&store, args.at.window)))?;
    let of = args.size.map_or_else(String::new, |size| format!(" of {size}"));
    let told = complete.map_or("", |complete| if complete { ": complete" } else { ": incomplete" });
    out.line(format_args!(" group {}: {live}{of} rollouts live, {fresh} fresh{told}", args.group))?;
    if !partials.is_empty() {
        out.line(format_args!(" still being generated: {}", findings::listed(&partials)))?;
    }
    out.line("")?;
    let shape = Shape::new(&[]);
    out.line(out.bold(&shape.head()))?;
    rollouts.iter().try_for_each(|rollout| out.line(shape.line(&Row::new(rollout, at.step))))?;
    Ok(verdict)
}

/// The rollouts of the group that are still being generated.
fn partials(store: &RolloutStore, group: u64) -> Outcome<Vec<RolloutId>> {
    let mut ids = Vec::new();
    for open in store.partials() {
        if store.partial(open.id)?.is_some_and(|partial| partial.group == Some(group)) {
            ids.push(open.id);
        }
    }
    Ok(ids)
}
