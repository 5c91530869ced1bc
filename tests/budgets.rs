//! A budget of tokens or time ends a recompute where it is used up, and never starves a huge rollout.
//!
//! Method: rollouts of known token counts; the closure counts what it is asked for, and for time it is the closure that
//! uses it up.

use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use rollstore::disk::sim::SimDisk;
use rollstore::{Budget, NewRollout, Plan, Results, RolloutStore};
use rollstore_testkit::store::{open_in_turn, rollout};

/// A store of stale rollouts with these completion lengths and no prompt, oldest first.
fn stale(lengths: &[usize]) -> (tempfile::TempDir, RolloutStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).open(dir.path().join("rollouts")).unwrap();
    let mut batch = store.batch();
    for (id, len) in (0..).zip(lengths) {
        batch.insert(NewRollout::new(id, 0).old_logps(vec![-1.0; *len], 0)).unwrap();
    }
    batch.commit().unwrap();
    store.advance_ref_version(1, None).unwrap();
    (dir, store)
}

fn compute(work: &Plan) -> Results {
    work.rollouts().map(|rollout| (rollout.id(), vec![-0.5; rollout.token_count() as usize])).collect()
}

#[test]
fn a_budget_of_tokens_ends_before_the_first_rollout_that_does_not_fit() {
    let (_dir, store) = stale(&[40, 60, 10, 5_000, 30]);
    let mut rounds = Vec::new();
    while store.count_stale() > 0 {
        let mut tokens = Vec::new();
        let done = store.recompute(1, Budget::tokens(100), |work| {
            tokens.extend(work.rollouts().map(rollstore::Rollout::token_count));
            Ok::<_, Infallible>(compute(work))
        });
        assert_eq!(done.unwrap().computed, tokens.len() as u64);
        rounds.push(tokens);
    }
    assert_eq!(rounds, [vec![40, 60], vec![10], vec![5_000], vec![30]], "the huge one has a round of its own");
}

#[test]
fn a_budget_of_time_is_checked_between_micro_batches() {
    let (_dir, store) = stale(&[1; 300]);
    let budget = Budget::time(Duration::from_millis(1));
    let done = store.recompute(1, budget, |work| {
        thread::sleep(Duration::from_millis(2));
        Ok::<_, Infallible>(compute(work))
    });
    let done = done.unwrap();
    assert_eq!(done.micro_batches, 1, "the first is always run, no other began after the time");
    assert!((1..300).contains(&done.computed), "{done:?}");
    assert_eq!(store.count_stale(), 300 - done.computed, "what was computed is committed");

    let all = store.recompute(1, Budget::time(Duration::from_hours(1)), |work| Ok::<_, Infallible>(compute(work)));
    assert_eq!(all.unwrap().computed, 300 - done.computed);
}

#[test]
fn a_budget_of_time_opens_no_more_than_the_micro_batch_that_it_hands_out() {
    // A simulated disk reads where others map: a view that is opened is seen as reads of its segment.
    let disk = SimDisk::new();
    let store = open_in_turn(&disk).unwrap();
    let mut batch = store.batch();
    (0..1_000).for_each(|id| batch.insert(rollout(id, 0, 0)).unwrap());
    batch.commit().unwrap();
    store.abandon();
    let disk = disk.kill();
    let store = open_in_turn(&disk).unwrap();
    for budget in [Budget::time(Duration::from_nanos(1)), Budget::time(Duration::from_hours(1)), Budget::unlimited()] {
        disk.clear_trace();
        let mut reads = Vec::new();
        let ran = store.recompute(100, budget, |_: &Plan| {
            reads.push(disk.counts().reads);
            Err::<Results, _>("enough")
        });
        assert!(ran.is_err());
        let one_view = {
            disk.clear_trace();
            store.get(999.into()).unwrap();
            disk.counts().reads
        };
        assert!(one_view > 0 && reads[0] <= 64 * one_view, "{budget:?}: {reads:?} reads, {one_view} for one view");
    }
}
