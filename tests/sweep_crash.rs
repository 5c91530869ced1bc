//! A sweep that is cut anywhere: the results of a micro-batch and how far the sweep has come are there together or not at
//! all (D1, D2, D3).
//!
//! Method: the power is cut at every disk operation of sweeps that store how far they have come. The states compared hold
//! each sweep's progress.

use rollstore::{Budget, CompactBudget, Order, Query, Rewind, RolloutStore};
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::store::{forward, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

fn fill(store: &RolloutStore, ids: std::ops::Range<u64>, step: u64, tokens: usize) -> Result {
    let mut batch = store.batch();
    for id in ids {
        batch.insert(rollout_of(id, step, store.ref_version(), tokens))?;
    }
    batch.commit().map(drop)
}

/// One micro-batch of two, which is one commit.
fn go_on(store: &RolloutStore, order: Order) -> Result<bool> {
    let sweep = store.sweep("refresh", Query::All).order(order).micro_batch(2);
    Ok(sweep.run(9, Budget::rollouts(2), forward)?.finished)
}

#[test]
fn results_and_progress_of_a_micro_batch_are_there_together_or_not_at_all() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        fill(&store, 0..6, 3, 16)?;
        run.acknowledge(&store)?;
        run.cut_from_here();
        while !go_on(&store, Order::LogOrder)? {
            run.acknowledge(&store)?;
        }
        run.acknowledge(&store)?;
        store.close()?;
        // A finished one stays so, and begins anew at another version.
        let store = run.open()?;
        store.advance_ref_version(9, None)?;
        run.acknowledge(&store)?;
        go_on(&store, Order::StalestFirst)?;
        run.acknowledge(&store)?;
        store.forget_sweep("refresh")?;
        run.acknowledge(&store)?;
        go_on(&store, Order::OldestBornFirst)?;
        run.acknowledge(&store)?;
        store.rewind(5, Rewind::Keep)?;
        run.acknowledge(&store)?;
        store.close()
    };
    let swept = Sweep::of(&workload).within_recovery(1).within_every(4).run();
    assert!(swept.points > 30 && swept.kept > 20 && swept.lost > 20, "{swept:?}");
}

#[test]
fn progress_outlives_seals_compaction_and_checkpoints() {
    /// Four records of so many tokens fill a segment.
    const TOKENS: usize = 1_800;
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        fill(&store, 0..8, 3, TOKENS)?;
        go_on(&store, Order::OldestBornFirst)?;
        run.acknowledge(&store)?;
        run.cut_from_here();
        fill(&store, 8..12, 3, TOKENS)?;
        run.acknowledge(&store)?;
        go_on(&store, Order::OldestBornFirst)?;
        run.acknowledge(&store)?;
        store.compact(CompactBudget::all())?;
        run.save(&store, "/run/saved")?;
        go_on(&store, Order::OldestBornFirst)?;
        run.acknowledge(&store)?;
        store.close()
    };
    let swept = Sweep::of(&workload).saving("/run/saved", None).goes_on_every(4).run();
    assert!(swept.points > 30, "{swept:?}");
}
