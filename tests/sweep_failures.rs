//! One rollout that cannot be computed keeps no other from it: it is set aside, tried again a stated number of times, and
//! reported.
//!
//! Method: six rollouts of which one is poisoned, in each way that a closure can fail.

use std::convert::Infallible;
use std::panic::{self, AssertUnwindSafe};

use rollstore::{Budget, ErrorKind, Plan, Query, Results, RolloutStore, SetAside};
use rollstore_testkit::scratch::{Scratch, assert_says, ids, model, with_old};

const POISONED: u64 = 1;

fn store(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open();
    for id in 0..6 {
        store.insert(with_old(id, 100, -1.0, 0)).unwrap();
    }
    store.advance_ref_version(100, None).unwrap();
    store
}

fn is_poisoned(work: &Plan) -> bool {
    work.ids().any(|id| id.get() == POISONED)
}

/// Computes all but the poisoned one, for which `poison` adds what it likes.
fn all_but_one(work: &Plan, poison: impl Fn(&mut Results)) -> Results {
    let mut results = Results::new();
    work.ids().filter(|id| id.get() != POISONED).for_each(|id| results.push(id, vec![-0.5; 3]));
    if is_poisoned(work) {
        poison(&mut results);
    }
    results
}

/// Each failed rollout: id, attempts, given up.
fn outline(set_aside: &[SetAside]) -> Vec<(u64, u32, bool)> {
    set_aside.iter().map(|failed| (failed.id.get(), failed.attempts, failed.given_up)).collect()
}

#[test]
fn a_rollout_that_fails_by_itself_is_given_up_and_the_others_are_computed() {
    type Poison = (&'static str, fn(&mut Results), &'static str);
    let poisons: [Poison; 4] = [
        ("left out", |_| (), "no result"),
        ("told of", |results| results.fail(POISONED.into(), "the prompt does not fit"), "does not fit"),
        ("not a number", |results| results.push(POISONED.into(), vec![f32::NAN; 3]), "NaN"),
        ("too short", |results| results.push(POISONED.into(), vec![-0.5]), "has 1 values"),
    ];
    for (what, poison, reason) in poisons {
        for query in [Query::NeedsRecompute, Query::All] {
            let scratch = Scratch::new();
            let store = store(&scratch);
            let sweep = store.sweep("some", query).micro_batch(2).retries(2);
            let mut tried = Vec::new();
            let swept = sweep.run(100, Budget::unlimited(), |work| {
                tried.extend(work.ids().map(rollstore::RolloutId::get));
                Ok::<_, Infallible>(all_but_one(work, poison))
            });
            let swept = swept.unwrap();
            assert_eq!(tried, [0, 1, 2, 3, 4, 5, 1, 1], "{what}, {query:?}: behind all others");
            assert_eq!((swept.computed, swept.failed, swept.finished), (5, 3, true), "{what}, {query:?}");
            assert_eq!(outline(&swept.set_aside), [(POISONED, 3, true)], "{what}, {query:?}");
            assert!(swept.set_aside[0].reason.contains(reason), "{what}: {}", swept.set_aside[0].reason);
            let again = sweep.run(100, Budget::unlimited(), model(-0.5)).unwrap();
            assert_eq!(
                (again.computed, outline(&again.set_aside)),
                (0, vec![(POISONED, 3, true)]),
                "{what}, {query:?}"
            );
        }
    }
}

#[test]
fn a_budget_is_spent_on_the_others_first() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("due", Query::NeedsRecompute);
    let mut tried = Vec::new();
    for _ in 0..4 {
        let swept = sweep.run(100, Budget::rollouts(2), |work| {
            tried.push(work.ids().map(rollstore::RolloutId::get).collect::<Vec<_>>());
            Ok::<_, Infallible>(all_but_one(work, |_| ()))
        });
        swept.unwrap();
    }
    assert_eq!(tried, [vec![0, 1], vec![2, 3], vec![4, 5], vec![1], vec![1]]);
}

#[test]
fn a_closure_that_fails_as_a_whole_ends_the_call_and_its_suspects_are_tried_alone_behind_the_rest() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("all", Query::All).micro_batch(3).retries(1);
    let mut tried = Vec::new();
    let mut errors = 0;
    let swept = loop {
        let ran = sweep.run(100, Budget::unlimited(), |work| {
            tried.push(work.ids().map(rollstore::RolloutId::get).collect::<Vec<_>>());
            if is_poisoned(work) { Err("out of memory") } else { Ok(all_but_one(work, |_| ())) }
        });
        match ran {
            Ok(swept) => break swept,
            Err(error) => assert_says(&error, ErrorKind::Compute, &["out of memory"]),
        }
        errors += 1;
        assert!(errors < 10, "the sweep goes on: {tried:?}");
    };
    assert_eq!(tried, [vec![0, 1, 2], vec![3, 4, 5], vec![0], vec![1], vec![2], vec![1]]);
    assert_eq!((errors, swept.finished), (3, true));
    assert_eq!(outline(&swept.set_aside), [(POISONED, 2, true)]);
    assert_eq!(store.count_stale(), 1);
}

#[test]
fn a_closure_that_panics_blocks_no_one_either() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("due", Query::NeedsRecompute).micro_batch(2);
    let panicking = |work: &Plan| {
        assert!(!is_poisoned(work), "poisoned");
        model(-0.5)(work)
    };
    let panics = || panic::catch_unwind(AssertUnwindSafe(|| sweep.run(100, Budget::unlimited(), panicking))).is_err();
    assert!(panics() && panics());
    assert_eq!(store.stale(), ids([POISONED]), "0 was a suspect and is cleared");
}

#[test]
fn a_rollout_that_fails_now_and_then_is_computed_in_a_later_pass() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let mut failures = 2;
    let swept = store.sweep("all", Query::All).retries(2).run(100, Budget::unlimited(), |work| {
        let fails = is_poisoned(work) && failures > 0;
        failures -= u32::from(fails);
        if fails { Ok(all_but_one(work, |_| ())) } else { model(-0.5)(work) }
    });
    let swept = swept.unwrap();
    assert_eq!((swept.computed, swept.failed, swept.set_aside, swept.finished), (6, 2, vec![], true));
}

#[test]
fn other_weights_and_a_reopen_try_everyone_again() {
    let scratch = Scratch::new();
    let mut store = store(&scratch);
    for again in ["first", "other weights", "reopened"] {
        let sweep = store.sweep("due", Query::NeedsRecompute).retries(0);
        let swept = sweep.run(100, Budget::unlimited(), |work| Ok::<_, Infallible>(all_but_one(work, |_| ())));
        assert_eq!(outline(&swept.unwrap().set_aside), [(POISONED, 1, true)], "{again}");
        assert_eq!(sweep.run(100, Budget::unlimited(), model(-0.5)).unwrap().computed, 0, "{again}: it is given up");
        if again == "first" {
            store.advance_ref_version(100, None).unwrap();
        } else {
            store.close().unwrap();
            store = scratch.open();
        }
    }
    let swept = store.sweep("due", Query::NeedsRecompute).run(100, Budget::unlimited(), model(-0.5)).unwrap();
    assert_eq!((swept.computed, swept.set_aside, swept.finished), (1, vec![], true));
}

#[test]
fn what_someone_else_computed_or_retired_is_forgotten() {
    for retires in [true, false] {
        let scratch = Scratch::new();
        let store = store(&scratch);
        let sweep = store.sweep("due", Query::NeedsRecompute).retries(5);
        let fails = |work: &Plan| Err::<Results, _>(format!("{} rollouts", work.len()));
        assert!(sweep.run(100, Budget::unlimited(), fails).is_err());
        if retires {
            store.retire(&ids([POISONED]), rollstore::Reason::Other).unwrap();
        } else {
            store.get_or_compute(&ids([POISONED]), 100, model(-0.5)).unwrap();
        }
        let swept = sweep.run(100, Budget::unlimited(), model(-0.5)).unwrap();
        assert_eq!((swept.computed, swept.set_aside, swept.finished), (5, vec![], true), "retires: {retires}");
    }
}

#[test]
fn a_replaced_rollout_has_a_clean_slate() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("due", Query::NeedsRecompute).retries(0);
    sweep.run(100, Budget::unlimited(), |work| Ok::<_, Infallible>(all_but_one(work, |_| ()))).unwrap();
    store.replace(with_old(POISONED, 100, -1.0, 0)).unwrap();
    let swept = sweep.run(100, Budget::unlimited(), model(-0.5)).unwrap();
    assert_eq!((swept.computed, swept.set_aside), (1, vec![]));
}
