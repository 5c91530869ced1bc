//! `rollstore ls`: live rollouts, oldest born first or in the order that was asked for, one a line.

use rollstore::{ErrorKind, Rollout, RolloutId, RolloutStore};

use super::chosen::chosen;
use super::row::{Row, RowJson, Shape};
use super::{Step, open};
use crate::args::{LsArgs, RolloutOrder};
use crate::exit::{Outcome, Verdict, note};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &LsArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store, args.at.window)?;
    let at = Step::of(&store, args.at.step)?;
    let mut listing = Listing { store: &store, step: at.step, verdict: Verdict::Sound };
    let mut ids = chosen(&store, &args.filter, at.step);
    if let Some(order) = args.sort {
        ids = listing.sorted(ids, order)?;
    }
    if args.reverse {
        ids.reverse();
    }
    let found = ids.len();
    ids.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    let shape = Shape::new(&args.columns);
    if !args.json {
        print_head(&store, args, at, found, ids.len(), &shape, out)?;
    }
    for id in ids {
        let Some(rollout) = listing.get(id)? else { continue };
        match (args.json, args.columns.is_empty()) {
            (false, _) => out.line(shape.line(&Row::new(&rollout, at.step)))?,
            (true, true) => out.json(&RowJson::new(&store, &rollout, at.step))?,
            (true, false) => out.json(&shape.json(&Row::new(&rollout, at.step)))?,
        }
    }
    Ok(listing.verdict)
}

/// Rollouts as they are read for a list, and whether all of them could be.
struct Listing<'a> {
    store: &'a RolloutStore,
    step: u64,
    verdict: Verdict,
}

impl Listing<'_> {
    /// One rollout; `None` where it was retired while others were read, or is damaged, which is told.
    fn get(&mut self, id: RolloutId) -> Outcome<Option<Rollout>> {
        match self.store.get(id) {
            Ok(rollout) => Ok(rollout),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                note(&format!("rollout {id}: {error}"));
                self.verdict = Verdict::Damaged;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The rollouts by another order. What is damaged is told here and left out.
    fn sorted(&mut self, ids: Vec<RolloutId>, order: RolloutOrder) -> Outcome<Vec<RolloutId>> {
        let mut ranked = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(rollout) = self.get(id)? {
                ranked.push((Row::new(&rollout, self.step).rank(order), id));
            }
        }
        ranked.sort_unstable();
        Ok(ranked.into_iter().map(|(_, id)| id).collect())
    }
}

fn print_head(
    store: &RolloutStore,
    args: &LsArgs,
    at: Step,
    found: usize,
    shown: usize,
    shape: &Shape,
    out: &mut Output,
) -> Outcome {
    out.line(format_args!(" {}", at.words(store, args.at.window)))?;
    let live = store.len();
    let first = if shown < found { format!("the first {shown} of ") } else { String::new() };
    let partials = match store.partials().len() {
        0 => String::new(),
        open => format!(", {} still being generated", text::counted(open as u64, "partial rollout")),
    };
    out.line(format_args!(" {first}{found} listed, {live} live{partials}"))?;
    out.line("")?;
    out.line(out.bold(&shape.head()))
}
