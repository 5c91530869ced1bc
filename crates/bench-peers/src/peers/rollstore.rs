//! rollstore itself, through its public interface.

use std::path::Path;

use rollstore::{Column, CompactBudget, ErrorKind, NewRollout, Reason, Results, RolloutId, RolloutStore, Stale};

use super::{Kind, Peer, Reader, Scope};
use crate::content::{Record, STEPS};
use crate::outcome::{Outcome, expect};

/// Steps for which values count as fresh, in every store of these benchmarks.
const WINDOW: u64 = 100;

/// Advances for which values count as fresh: of the versions inserted, all are fresh at first.
const LAG: u64 = STEPS - 1;

pub(super) const KIND: Kind = Kind {
    name: "rollstore",
    settings: "all defaults (Synced, background compaction); a batch is one commit; recompute is plan_for and apply, the \
               copy into Results is timed; deletes are retire_created_before(step) and retire(ids); reclaim is compact(all); reads are with_rows, a group of 256 a call",
    scope: Scope::All,
    one_in: 1,
    open: |dir| open(dir).map(|store| -> Box<dyn Peer> { Box::new(store) }),
};

/// An open store.
#[derive(Debug)]
struct Rollstore(RolloutStore);

fn open(dir: &Path) -> Outcome<Rollstore> {
    let store = RolloutStore::options().window(WINDOW).max_version_lag(LAG).open(dir.join("store"))?;
    // A version is issued before it can be said of a record.
    let mut batch = store.batch();
    (store.ref_version()..STEPS - 1).for_each(|_| batch.advance_ref_version(0, None));
    if !batch.is_empty() {
        batch.commit()?;
    }
    Ok(Rollstore(store))
}

impl Peer for Rollstore {
    fn insert(&mut self, records: &[Record<'_>]) -> Outcome {
        let mut batch = self.0.batch();
        for record in records {
            batch.insert(NewRollout::new(record.id, record.born_step).old_logps(record.values, record.version))?;
        }
        batch.commit()?;
        Ok(())
    }

    fn recompute(&mut self, records: &[Record<'_>]) -> Outcome {
        let Some(step) = records.first().map(|record| record.born_step) else { return Ok(()) };
        let ids: Vec<RolloutId> = records.iter().map(|record| RolloutId::new(record.id)).collect();
        // All are out of their window at that step, so that the plan is for all of them.
        let plan = self.0.plan_for(&ids, step)?;
        let results: Results = ids.iter().zip(records).map(|(id, record)| (*id, record.values.to_vec())).collect();
        let applied = self.0.apply(plan, results)?;
        expect("recomputed", &applied.computed, &(records.len() as u64))
    }

    fn before_stale(&mut self, version_below: u64) -> Outcome {
        let step = self.0.clock().unwrap_or_default();
        while self.0.ref_version() < version_below + LAG {
            self.0.advance_ref_version(step, None)?;
        }
        Ok(())
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        debug_assert_eq!(self.0.ref_version(), version_below + LAG, "before_stale comes first");
        Ok(self.0.stale().into_iter().map(RolloutId::get).collect())
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        Ok(self.0.out_of_window(born_below + WINDOW).into_iter().map(RolloutId::get).collect())
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        let ids: Vec<RolloutId> = ids.iter().copied().map(RolloutId::new).collect();
        let retired = self.0.retire(&ids, Reason::Trained)?;
        expect("retired", &retired, &(ids.len() as u64))
    }

    fn delete_created_before(&mut self, step: u64, ids: &[u64]) -> Outcome {
        let retired = self.0.retire_created_before(step, Reason::Trained)?;
        expect("retired by a line", &retired, &(ids.len() as u64))
    }

    fn reclaim(&mut self) -> Outcome {
        while !self.0.compact(CompactBudget::all())?.is_done {}
        Ok(())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(Self(self.0.clone())))
    }

    fn close(self: Box<Self>) -> Outcome {
        Ok(self.0.close()?)
    }
}

impl Reader for Rollstore {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        let rollouts: Vec<RolloutId> = ids.iter().copied().map(RolloutId::new).collect();
        let read = self.0.with_rows(&rollouts, Column::OldLogps, 0, Stale::Allow, |rows: &[&[f32]]| {
            ids.iter().zip(rows).for_each(|(id, values)| each(*id, bytemuck::cast_slice(values)));
            Ok(())
        });
        match read {
            // Some were deleted: those that are there are wanted.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                for rollout in self.0.get_many(&rollouts)?.iter().flatten() {
                    each(rollout.id().get(), bytemuck::cast_slice(rollout.old_logps()?));
                }
                Ok(())
            }
            read => Ok(read?),
        }
    }
}
