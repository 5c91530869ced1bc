//! A sweep hands out what its query takes, in its order, within its budget, and each rollout once a pass.
//!
//! Method: rollouts whose born step, version and place in the log give three different orders; the closure writes down what
//! it is given.

use std::convert::Infallible;
use std::time::Duration;

use rollstore::{Budget, ErrorKind, Order, Plan, Query, Results, RolloutStore, Sweep, Swept, limits};
use rollstore_testkit::scratch::{Scratch, assert_says, bare, ids, model, with_old};

/// Rollouts 0 to 5, inserted in this order of ids: 3 1 5 0 2 4. Born steps fall with the id, versions are 1 for odd ids.
fn store(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open_with(|options| options.window(8));
    store.advance_ref_version(100, None).unwrap();
    for id in [3, 1, 5, 0, 2, 4] {
        store.insert(with_old(id, 100 - id, -1.0, id % 2).group(id / 2)).unwrap();
    }
    store
}

/// Runs a sweep, and returns the micro-batches that it handed out too.
fn handed_out(sweep: &Sweep<'_>, step: u64, budget: Budget) -> (Swept, Vec<Vec<u64>>) {
    let mut batches = Vec::new();
    let swept = sweep.run(step, budget, |work: &Plan| {
        batches.push(work.ids().map(rollstore::RolloutId::get).collect());
        model(-0.5)(work)
    });
    (swept.unwrap(), batches)
}

#[test]
fn each_order_hands_out_as_it_says() {
    for (order, expected) in [
        (Order::OldestBornFirst, [5, 4, 3, 2, 1, 0]),
        (Order::StalestFirst, [0, 2, 4, 1, 3, 5]),
        (Order::LogOrder, [3, 1, 5, 0, 2, 4]),
    ] {
        let scratch = Scratch::new();
        let store = store(&scratch);
        let sweep = store.sweep("all", Query::All).order(order).micro_batch(4);
        let (swept, batches) = handed_out(&sweep, 100, Budget::unlimited());
        assert_eq!(batches, [&expected[..4], &expected[4..]], "{order:?}");
        assert_eq!((swept.computed, swept.micro_batches, swept.finished), (6, 2, true), "{order:?}");
    }
}

#[test]
fn each_query_takes_what_the_scan_of_its_name_lists() {
    for (query, expected) in [
        (Query::NeedsRecompute, vec![5, 4, 2, 0]),
        (Query::Stale, vec![4, 2, 0]),
        (Query::OutOfWindow, vec![5, 4]),
        (Query::CreatedBefore(97), vec![5, 4]),
        (Query::All, vec![5, 4, 3, 2, 1, 0]),
    ] {
        let scratch = Scratch::new();
        let store = store(&scratch);
        // Born at 95 and 96: out of window from 104 and 105 on.
        let (step, sweep) = (105, store.sweep("some", query));
        assert_eq!(sweep.left(step).unwrap(), expected.len() as u64, "{query:?}");
        let (swept, batches) = handed_out(&sweep, step, Budget::unlimited());
        assert_eq!((batches.concat(), swept.finished), (expected, true), "{query:?}");
        assert_eq!(sweep.left(step).unwrap(), 0, "{query:?}");
        let stores = !matches!(query, Query::NeedsRecompute | Query::Stale | Query::OutOfWindow);
        assert_eq!(store.sweeps().len(), usize::from(stores), "{query:?}: its own results are the progress");
    }
}

#[test]
fn only_complete_groups_are_taken() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    store.insert(bare(9, 90)).unwrap();
    store.retire(&ids([4]), rollstore::Reason::Other).unwrap();
    let (swept, batches) = handed_out(&store.sweep("groups", Query::All).complete_groups(2), 100, Budget::unlimited());
    assert_eq!((batches.concat(), swept.finished), (vec![3, 2, 1, 0], true), "5 lost 4, and 9 has no group");
}

#[test]
fn no_budget_is_exceeded_and_calls_go_on_where_the_one_before_ended() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("all", Query::All).micro_batch(2);
    // Each rollout has three tokens. The trainer moves on between the calls, and so does what is fresh.
    let (swept, batches) = handed_out(&sweep, 100, Budget::rollouts(3));
    assert_eq!((batches, swept.finished), (vec![vec![5, 4], vec![3]], false));
    assert_eq!(handed_out(&sweep, 101, Budget::tokens(7)).1, [[2, 1]]);
    let (swept, batches) = handed_out(&sweep, 102, Budget::rollouts(1));
    assert_eq!((batches, swept.finished), (vec![vec![0]], true), "the last one ends the pass");
    assert_eq!(handed_out(&sweep, 102, Budget::rollouts(0)).1.len(), 0);
}

#[test]
fn a_budget_of_time_is_looked_at_between_micro_batches() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("due", Query::Stale).micro_batch(1);
    let swept = sweep.run(100, Budget::time(Duration::from_nanos(1)), model(-0.5)).unwrap();
    assert_eq!((swept.micro_batches, swept.finished), (1, false), "the first one is handed out, whatever the clock");
    let swept = sweep.run(100, Budget::time(Duration::from_hours(1)), model(-0.5)).unwrap();
    assert_eq!((swept.micro_batches, swept.finished), (2, true));
}

#[test]
fn a_pass_takes_what_was_there_when_it_began_and_no_one_computed_since() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("all", Query::All);
    assert_eq!(handed_out(&sweep, 100, Budget::rollouts(1)).1, [[5]]);
    store.insert(with_old(6, 90, -1.0, 1)).unwrap();
    store.replace(with_old(3, 90, -1.0, 1)).unwrap();
    store.retire(&ids([2]), rollstore::Reason::Other).unwrap();
    store.get_or_compute(&ids([4]), 105, model(-0.25)).unwrap();
    let (swept, batches) = handed_out(&sweep, 105, Budget::unlimited());
    assert_eq!((batches.concat(), swept.finished), (vec![1, 0], true));
}

#[test]
fn a_finished_pass_rests_at_its_step_and_version_and_begins_anew_at_others() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let sweep = store.sweep("all", Query::All);
    let computed = |step| handed_out(&sweep, step, Budget::unlimited()).0.computed;
    assert_eq!((computed(100), computed(100)), (6, 0));
    assert_eq!((computed(101), computed(101)), (6, 0), "another step");
    store.advance_ref_version(101, None).unwrap();
    assert_eq!((computed(101), computed(101)), (6, 0), "another version");
    assert!(store.forget_sweep("all").unwrap() && !store.forget_sweep("all").unwrap());
    assert_eq!(computed(101), 6, "forgotten");
    store.rewind(100, rollstore::Rewind::Keep).unwrap();
    assert!(store.sweeps().is_empty(), "what it computed is of an abandoned version");
    assert_eq!(computed(101), 6);
}

#[test]
fn a_rewind_from_within_the_closure_ends_the_pass() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let swept = store.sweep("all", Query::All).micro_batch(2).run(100, Budget::unlimited(), |work| {
        store.rewind(100, rollstore::Rewind::Keep)?;
        Ok::<_, rollstore::Error>(model(-0.5)(work).unwrap())
    });
    let swept = swept.unwrap();
    assert_eq!((swept.computed, swept.dropped, swept.finished), (0, 2, false));
    assert!(store.sweeps().is_empty());
}

#[test]
fn kl_reference_logps_are_swept_by_their_own_clock() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let due = store.sweep("kl due", Query::NeedsRecompute).kl_ref();
    assert_eq!(handed_out(&due, 100, Budget::rollouts(2)).1, [[5, 4]]);
    store.advance_kl_ref_version(None).unwrap();
    assert_eq!(handed_out(&due, 100, Budget::unlimited()).0.computed, 6, "all are of an older version, or missing");
    assert_eq!(store.get(5.into()).unwrap().unwrap().kl_ref_logps().unwrap(), [-0.5; 3]);
    assert!(store.sweeps().is_empty());

    let all = store.sweep("kl all", Query::All).kl_ref();
    assert_eq!(handed_out(&all, 100, Budget::rollouts(4)).0.computed, 4);
    assert_eq!(handed_out(&all, 100, Budget::unlimited()).0.computed, 2);
    let refused = store.sweep("kl stale", Query::Stale).kl_ref().run(100, Budget::unlimited(), model(-0.5));
    assert_says(&refused.unwrap_err(), ErrorKind::Invalid, &["Stale", "old_logps", "NeedsRecompute"]);
}

#[test]
fn a_name_is_limited_and_one_sweep_of_a_name_runs_at_a_time() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let run = |name: &str| store.sweep(name, Query::All).run(100, Budget::rollouts(1), model(-0.5));
    assert_says(&run("").unwrap_err(), ErrorKind::Invalid, &["0 bytes"]);
    assert_says(&run(&"n".repeat(limits::NAME_BYTES_MAX + 1)).unwrap_err(), ErrorKind::Invalid, &["1025", "1024"]);
    run(&"n".repeat(limits::NAME_BYTES_MAX)).unwrap();
    let outer = store.sweep("a", Query::All).run(100, Budget::rollouts(1), |work| {
        assert_says(&run("a").unwrap_err(), ErrorKind::Invalid, &["\"a\" is running"]);
        run("b").unwrap();
        model(-0.5)(work)
    });
    assert_eq!(outer.unwrap().dropped, 1, "the sweep within came first");
    let none = store.sweep("a", Query::All).micro_batch(0).run(100, Budget::unlimited(), model(-0.5));
    assert_says(&none.unwrap_err(), ErrorKind::Invalid, &["micro-batch of 0"]);
}

#[test]
fn the_oldest_finished_sweep_makes_room_and_too_many_under_way_are_refused() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for id in 0..2 * limits::SWEEPS_MAX as u64 {
        store.insert(with_old(id, 100, -1.0, 0)).unwrap();
    }
    let run = |name: &str, budget| store.sweep(name, Query::All).run(100, budget, model(-0.5));
    assert!(run("finished", Budget::unlimited()).unwrap().finished);
    for number in 1..=limits::SWEEPS_MAX {
        run(&format!("under way {number}"), Budget::rollouts(1)).unwrap();
    }
    assert!(store.sweeps().iter().all(|sweep| !sweep.finished));
    let refused = run("one more", Budget::rollouts(1)).unwrap_err();
    assert_says(&refused, ErrorKind::Invalid, &["256 sweeps", "forget_sweep"]);
    store.forget_sweep("under way 7").unwrap();
    run("one more", Budget::rollouts(1)).unwrap();
    let stored: Vec<_> = store.sweeps();
    store.close().unwrap();
    assert_eq!(scratch.open().sweeps(), stored, "they come back");
}

#[test]
fn results_of_others_than_were_asked_for_are_refused() {
    let scratch = Scratch::new();
    let store = store(&scratch);
    let other = |_: &Plan| Ok::<_, Infallible>([(77.into(), vec![-0.5; 3])].into_iter().collect::<Results>());
    let refused = store.sweep("all", Query::All).run(100, Budget::unlimited(), other).unwrap_err();
    assert_says(&refused, ErrorKind::Invalid, &["rollout 77", "not part of the plan"]);
}
