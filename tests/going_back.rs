//! A restore or a rewind is whole or has not happened, wherever the power goes; no number is used twice, and nothing of
//! before looks fresh (D9, F25).
//!
//! Method: a simulated disk loses power at every operation of going back, so that files, generations and an index of the
//! abandoned future stay behind; every image is written to again, and what it gives is compared with what was given
//! before.

use std::sync::Arc;

use rollstore::{Reason, Rewind, RolloutStore};
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::store::{DIR, ids, options, rollout, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

const SAVED: &str = "/saved";

/// A checkpoint, and a future behind it: another segment, versions, a retirement, an index that knows of them.
fn with_future(run: &mut Run) -> Result<RolloutStore> {
    let store = run.open()?;
    store.advance_ref_version(1, Some(10))?;
    run.acknowledge(&store)?;
    store.insert(rollout(1, 1, 1))?;
    run.acknowledge(&store)?;
    run.save(&store, SAVED)?;
    store.advance_ref_version(2, Some(20))?;
    run.acknowledge(&store)?;
    store.advance_kl_ref_version(Some(1))?;
    run.acknowledge(&store)?;
    store.insert(rollout_of(2, 2, 2, 8_000))?;
    run.acknowledge(&store)?;
    store.insert(rollout_of(3, 2, 2, 8_000))?;
    run.acknowledge(&store)?;
    store.retire(&ids([1]), Reason::Trained)?;
    run.acknowledge(&store)?;
    store.flush_index()?;
    Ok(store)
}

#[test]
fn f25_a_restore_crashed_at_each_step_is_the_old_epoch_or_the_new_and_uses_no_number_twice() {
    let workload = |run: &mut Run| -> Result {
        let store = with_future(run)?;
        store.close()?;
        run.cut_from_here();
        options(Arc::new(run.disk().clone())).restore(SAVED, DIR)?;
        run.acknowledge_closed()?;
        let store = run.open()?;
        if run.learns() {
            assert_eq!((store.ids(), store.ref_version(), store.count_stale()), (ids([1]), 1, 0));
        }
        store.advance_ref_version(2, Some(21))?;
        run.acknowledge(&store)?;
        store.insert(rollout(4, 2, store.ref_version()))?;
        run.acknowledge(&store)?;
        store.close()
    };
    let swept = Sweep::of(&workload).saving(SAVED, None).seeds(2).within_recovery(1).within_every(16).run();
    assert!(swept.lost > 0 && swept.kept > 0 && swept.within_recovery > 100, "{swept:?}");
}

#[test]
fn f25_a_rewind_crashed_at_each_step_is_whole_and_leaves_nothing_fresh() {
    for later in [Rewind::Keep, Rewind::Drop] {
        let workload = |run: &mut Run| -> Result {
            let store = with_future(run)?;
            run.cut_from_here();
            store.rewind(1, later)?;
            run.acknowledge(&store)?;
            if run.learns() {
                assert_eq!(store.stale().len(), store.len(), "what is left is stale");
                assert_eq!(store.len(), if later == Rewind::Keep { 2 } else { 0 });
            }
            store.advance_ref_version(2, Some(21))?;
            run.acknowledge(&store)?;
            store.insert(rollout(4, 2, store.ref_version()))?;
            run.acknowledge(&store)?;
            store.close()
        };
        let swept = Sweep::of(&workload).saving(SAVED, None).seeds(2).within_recovery(1).within_every(16).run();
        assert!(swept.lost > 0 && swept.kept > 0 && swept.within_recovery > 100, "{later:?}: {swept:?}");
    }
}

#[test]
fn f25_a_restore_over_a_restore_that_was_cut_uses_no_number_twice() {
    let workload = |run: &mut Run| -> Result {
        with_future(run)?.close()?;
        for round in 0..2 {
            options(Arc::new(run.disk().clone())).restore(SAVED, DIR)?;
            run.acknowledge_closed()?;
            let store = run.open()?;
            store.advance_ref_version(2, None)?;
            run.acknowledge(&store)?;
            store.insert(rollout(10 + round, 2, store.ref_version()))?;
            run.acknowledge(&store)?;
            // As a crash would end it: the segment that is written to stays unsealed.
            store.abandon();
        }
        Ok(())
    };
    let swept = Sweep::of(&workload).saving(SAVED, None).run();
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}");
}
