//! A batch is all or nothing, and an acknowledged one is for ever, whenever the power goes (D1, D2, D3).
//!
//! Method: a simulated disk loses power at every operation of a workload that changes it; every style of image of what
//! the medium kept is opened and compared with the states of a run without faults. `ROLLSTORE_TEST_SCALE` multiplies the
//! images.

use rollstore::{Reason, RolloutStore};
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::store::{DIR, ids, options, recompute_all, rollout};

type Result<T = ()> = rollstore::Result<T>;

/// Inserts `count` rollouts and the cursor in one batch.
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
fn d2_a_batch_of_512_inserts_and_its_cursor_is_all_or_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 512, 0)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).goes_on_every(8).run();
    assert!(swept.points >= 10, "{swept:?}: creating a store and its first segment takes more operations");
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}: some images keep the unsynced batch, some lose it");
}

#[test]
fn d3_batches_survive_in_the_order_of_their_commits() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        for round in 0..6 {
            insert(&store, round * 4, 4, round)?;
            run.acknowledge(&store)?;
        }
        Ok(())
    };
    let swept = Sweep::of(&workload).seeds(2).run();
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}");
}

#[test]
fn d1_every_kind_of_mutation_survives_once_acknowledged() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 8, 0)?;
        run.acknowledge(&store)?;
        store.advance_ref_version(1, Some(10))?;
        run.acknowledge(&store)?;
        store.advance_kl_ref_version(Some(3))?;
        run.acknowledge(&store)?;
        store.retire(&ids([0, 5]), Reason::Trained)?;
        run.acknowledge(&store)?;
        store.replace(rollout(3, 1, 1))?;
        run.acknowledge(&store)?;
        // A retired id once more: another incarnation.
        store.insert(rollout(5, 1, 1))?;
        run.acknowledge(&store)?;
        store.advance_ref_version(2, None)?;
        run.acknowledge(&store)?;
        recompute_all(&store, 2)?;
        run.acknowledge(&store)?;
        store.set_cursor(b"epoch 2")?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).seeds(2).run();
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}");
}

#[test]
fn d2_a_whole_trainer_step_in_one_batch_is_all_or_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 8, 0)?;
        run.acknowledge(&store)?;
        for step in 1..4 {
            let plan = store.plan_for(&ids([step + 3]), step)?;
            let mut batch = store.batch();
            batch.retire(&ids([step]), Reason::Trained);
            batch.insert(rollout(100 + step, step, step - 1))?;
            batch.replace(rollout(7, step, step - 1))?;
            let results = rollstore_testkit::store::forward(&plan)?;
            batch.apply(plan, results)?;
            batch.advance_ref_version(step, Some(step * 10));
            batch.cursor(&step.to_le_bytes());
            batch.commit()?;
            run.acknowledge(&store)?;
        }
        Ok(())
    };
    let swept = Sweep::of(&workload).seeds(2).run();
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}");
}

/// Fills several segments, closes, opens, and fills another.
fn roll(run: &mut Run) -> Result {
    let store = run.open()?;
    for round in 0..4 {
        insert(&store, round * 100, 96, round)?;
        run.acknowledge(&store)?;
    }
    store.retire(&ids(0..90), Reason::Evicted)?;
    run.acknowledge(&store)?;
    store.close()?;
    let store = run.open()?;
    insert(&store, 1000, 96, 4)?;
    run.acknowledge(&store)?;
    store.close()
}

#[test]
fn d1_rolling_over_segments_closing_and_reopening_lose_nothing() {
    let swept = Sweep::of(&roll).every(3).run();
    assert!(swept.points >= 20, "{swept:?}: several segments are made, sealed and listed");
}

#[test]
fn d1_a_crash_within_recovery_changes_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        for round in 0..3 {
            insert(&store, round * 4, 4, round)?;
            run.acknowledge(&store)?;
        }
        store.retire(&ids([1, 6]), Reason::Trained)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).every(3).within_recovery(1).run();
    assert!(swept.within_recovery > 200, "{swept:?}: a recovery that writes has several operations");
}

#[test]
fn f16_three_crashes_within_recovery_change_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 4, 0)?;
        run.acknowledge(&store)?;
        insert(&store, 4, 4, 0)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).goes_on_every(4).every(12).within_recovery(3).run();
    assert!(swept.within_recovery > 200, "{swept:?}");
}

#[test]
fn d8_a_checkpoint_does_not_disturb_the_store() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 8, 0)?;
        run.acknowledge(&store)?;
        store.checkpoint("saved/ckpt-1")?;
        store.retire(&ids([2]), Reason::Trained)?;
        run.acknowledge(&store)?;
        store.checkpoint("saved/ckpt-1")?;
        insert(&store, 8, 8, 1)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).run();
    assert!(swept.points > 30, "{swept:?}");
}

#[test]
fn d9_a_restore_is_the_old_state_or_the_checkpoints() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        insert(&store, 0, 8, 0)?;
        run.acknowledge(&store)?;
        store.checkpoint("saved")?;
        store.advance_ref_version(1, None)?;
        run.acknowledge(&store)?;
        insert(&store, 8, 8, 1)?;
        run.acknowledge(&store)?;
        store.close()?;
        options(std::sync::Arc::new(run.disk().clone())).restore("saved", DIR)?;
        run.acknowledge_closed()?;
        let store = run.open()?;
        store.advance_ref_version(1, None)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).run();
    assert!(swept.lost > 0 && swept.kept > 0, "{swept:?}");
}
