//! A Buffered store loses a suffix of its commits to a power cut, none that it called durable, and none to a kill (D1 to D3).
//!
//! Method: the crash sweep, which knows of each acknowledged state whether the store called it durable: after a power cut
//! any state from the last durable one on may be found, whole; after a kill the last acknowledged one or the one under way.

use rollstore::{CompactBudget, Reason, Rewind, RolloutStore};
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::store::{ids, recompute_all, rollout, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

fn insert(store: &RolloutStore, first: u64, count: u64, step: u64) -> Result {
    let version = store.ref_version();
    let mut batch = store.batch();
    for id in first..first + count {
        batch.insert(rollout(id, step, version))?;
    }
    batch.cursor(format!("behind {}", first + count).as_bytes());
    batch.commit().map(drop)
}

#[test]
fn d3_a_power_cut_leaves_a_prefix_that_is_not_older_than_the_last_sync() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open_buffered()?;
        for round in 0..8 {
            insert(&store, round * 4, 4, round)?;
            run.acknowledge(&store)?;
            if round % 3 == 2 {
                store.sync()?;
                run.look_what_is_durable(&store);
            }
        }
        Ok(())
    };
    let swept = Sweep::of(&workload).goes_on_every(4).run();
    assert!(swept.older > 0 && swept.lost > 0 && swept.kept > 0, "{swept:?}");
}

#[test]
fn d2_every_kind_of_mutation_is_whole_or_lost_with_all_behind_it() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open_buffered()?;
        insert(&store, 0, 8, 0)?;
        run.acknowledge(&store)?;
        store.advance_ref_version(1, Some(10))?;
        run.acknowledge(&store)?;
        store.retire(&ids([0, 5]), Reason::Trained)?;
        run.acknowledge(&store)?;
        store.replace(rollout(3, 1, 1))?;
        run.acknowledge(&store)?;
        store.sync()?;
        run.look_what_is_durable(&store);
        store.insert(rollout(5, 1, 1))?;
        run.acknowledge(&store)?;
        recompute_all(&store, 1)?;
        run.acknowledge(&store)?;
        store.retire_created_before(1, Reason::Evicted)?;
        run.acknowledge(&store)?;
        store.rewind(0, Rewind::Drop)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).goes_on_every(4).run();
    assert!(swept.older > 0 && swept.lost > 0 && swept.kept > 0, "{swept:?}");
}

#[test]
fn d7_seals_flushes_and_compactions_write_nothing_that_the_log_does_not_hold_yet() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open_buffered()?;
        for id in 0..6 {
            store.insert(rollout_of(id, 0, 0, 3_000))?;
            run.acknowledge(&store)?;
        }
        store.retire(&ids([0, 2, 3]), Reason::Trained)?;
        run.acknowledge(&store)?;
        store.flush_index()?;
        store.insert(rollout(10, 0, 0))?;
        run.acknowledge(&store)?;
        store.retire(&ids([1]), Reason::Trained)?;
        run.acknowledge(&store)?;
        store.compact(CompactBudget::all())?;
        run.look_what_is_durable(&store);
        store.insert(rollout(11, 0, 0))?;
        run.acknowledge(&store)?;
        store.close()?;
        let store = run.open_buffered()?;
        store.insert(rollout(12, 0, 0))?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).goes_on_every(8).every(2).run();
    assert!(swept.points > 20 && swept.older > 0, "{swept:?}");
}

#[test]
fn d8_a_checkpoint_holds_all_that_was_committed_before_it_and_is_durable() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open_buffered()?;
        insert(&store, 0, 4, 0)?;
        run.acknowledge(&store)?;
        insert(&store, 4, 4, 0)?;
        run.acknowledge(&store)?;
        run.save(&store, "saved")?;
        run.look_what_is_durable(&store);
        insert(&store, 8, 4, 0)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).saving("saved", None).run();
    assert!(swept.points > 20, "{swept:?}");
}

#[test]
fn f16_crashes_within_the_recovery_of_a_buffered_store_change_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open_buffered()?;
        for round in 0..4 {
            insert(&store, round * 4, 4, 0)?;
            run.acknowledge(&store)?;
        }
        store.sync()?;
        run.look_what_is_durable(&store);
        insert(&store, 16, 4, 0)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).goes_on_every(4).every(6).within_recovery(2).run();
    assert!(swept.within_recovery > 100, "{swept:?}");
}
