//! When old logps are fresh: the window, the lag, the step skew, and who is asked for when they are not.
//!
//! Method: a table of states, each a store of one rollout of which every scan, plan and access is asked; then order,
//! labels and spans, one by one.

use rollstore::{Budget, ErrorKind, RolloutStore, ServedFrom};
use rollstore_testkit::scratch::{Scratch, bare, ids, model, results, with_old};
use rollstore_testkit::store::sorted;

/// The step that every row is asked at.
const NOW: u64 = 100;
const WINDOW: u64 = 10;

/// One state of a rollout and what the store must say of it.
#[derive(Clone, Copy)]
struct Row {
    state: &'static str,
    born: u64,
    has_logps: bool,
    lag: u64,
    advances: u64,
    says: Says,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a row of a table of yes and no")]
struct Says {
    missing: bool,
    stale: bool,
    out_of_window: bool,
    from_future: bool,
    due: bool,
    computed_on_access: bool,
}

const FRESH: Says = Says {
    missing: false,
    stale: false,
    out_of_window: false,
    from_future: false,
    due: false,
    computed_on_access: false,
};
const COMPUTED: Says = Says { computed_on_access: true, ..FRESH };
const DUE: Says = Says { due: true, ..COMPUTED };

const fn row(state: &'static str, born: u64, has_logps: bool, (lag, advances): (u64, u64), says: Says) -> Row {
    Row { state, born, has_logps, lag, advances, says }
}

const ROWS: [Row; 17] = [
    row("fresh", 95, true, (0, 0), FRESH),
    row("age == window", 90, true, (0, 0), FRESH),
    row("age == window + 1", 89, true, (0, 0), Says { out_of_window: true, ..DUE }),
    row("ahead by the skew", 101, true, (0, 0), FRESH),
    row("ahead by more than the skew", 102, true, (0, 0), Says { from_future: true, ..COMPUTED }),
    row("behind by the lag", 95, true, (2, 2), FRESH),
    row("behind by more than the lag", 95, true, (2, 3), Says { stale: true, ..DUE }),
    row("stale", 95, true, (0, 1), Says { stale: true, ..DUE }),
    row("stale and out of window", 80, true, (0, 1), Says { stale: true, out_of_window: true, ..DUE }),
    row("stale and from the future", 102, true, (0, 1), Says { stale: true, from_future: true, ..DUE }),
    row("missing only", 95, false, (0, 0), Says { missing: true, ..COMPUTED }),
    row("missing, at the edge of the window", 90, false, (0, 0), Says { missing: true, ..COMPUTED }),
    row("missing, within the lag", 95, false, (1, 1), Says { missing: true, ..COMPUTED }),
    row("missing and out of window", 89, false, (0, 0), Says { missing: true, out_of_window: true, ..DUE }),
    row("missing and stale", 95, false, (1, 2), Says { missing: true, stale: true, ..DUE }),
    row(
        "missing, stale and out of window",
        0,
        false,
        (0, 1),
        Says { missing: true, stale: true, out_of_window: true, ..DUE },
    ),
    row("missing and from the future", 102, false, (0, 0), Says { missing: true, from_future: true, ..COMPUTED }),
];

impl Row {
    fn store(&self, scratch: &Scratch) -> RolloutStore {
        let store = scratch.open_with(|options| options.window(WINDOW).max_version_lag(self.lag));
        let rollout = if self.has_logps { with_old(1, self.born, -1.0, 0) } else { bare(1, self.born) };
        store.insert(rollout).unwrap();
        for _ in 0..self.advances {
            store.advance_ref_version(NOW, None).unwrap();
        }
        store
    }

    /// What the store says, each answer got in every way that there is.
    fn asked(&self, store: &RolloutStore) -> Says {
        let state = self.state;
        let lists = |listed: Vec<_>, count: u64| {
            assert_eq!(listed.len() as u64, count, "{state}: a count is the length of its list");
            !listed.is_empty()
        };
        let view = store.get(1.into()).unwrap().unwrap();
        let flags = view.staleness(NOW);
        let stale = lists(store.stale(), store.count_stale());
        let out_of_window = lists(store.out_of_window(NOW), store.count_out_of_window(NOW));
        let missing = lists(store.missing(), store.count_missing());
        assert_eq!((flags.stale, flags.out_of_window, flags.missing), (stale, out_of_window, missing), "{state}");

        let due = lists(store.needs_recompute(NOW), store.count_needs_recompute(NOW));
        let planned = store.plan_due(NOW, Budget::unlimited()).unwrap();
        assert_eq!(planned.len(), usize::from(due), "{state}: a plan is what the dry run says");

        let on_access = store.plan_for(&ids([1]), NOW).unwrap().len() == 1;
        assert_eq!(flags.is_fresh(), !on_access, "{state}: a plan holds what is not fresh");
        let served = store.get_or_compute(&ids([1]), NOW, model(-0.25)).unwrap();
        let (source, logp) = if on_access { (ServedFrom::Computed, -0.25) } else { (ServedFrom::Stored, -1.0) };
        assert_eq!((served[0].source(), served[0].old_logps().unwrap()), (source, &[logp; 3][..]), "{state}");
        let from_future = flags.from_future;
        Says { missing, stale, out_of_window, from_future, due, computed_on_access: on_access }
    }
}

#[test]
fn each_state_is_asked_for_as_the_table_says() {
    for row in ROWS {
        let scratch = Scratch::new();
        let store = row.store(&scratch);
        assert_eq!(row.asked(&store), row.says, "{}", row.state);
        assert!(store.get(1.into()).unwrap().unwrap().staleness(NOW).is_fresh(), "{}: fresh by now", row.state);
    }
}

#[test]
fn a_recompute_under_a_budget_takes_the_due_alone() {
    for row in ROWS {
        let scratch = Scratch::new();
        let store = row.store(&scratch);
        let done = store.recompute(NOW, Budget::unlimited(), model(-0.25)).unwrap();
        assert_eq!(done.computed, u64::from(row.says.due), "{}", row.state);
        let missing = row.says.missing && !row.says.due;
        assert_eq!(store.get(1.into()).unwrap().unwrap().old_logps().is_err(), missing, "{}", row.state);
    }
}

#[test]
fn age_and_lag_are_counted_from_the_last_recompute() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.max_version_lag(9));
    store.insert(with_old(1, 10, -1.0, 0)).unwrap();
    store.advance_ref_version(12, None).unwrap();
    let staleness = |step| store.get(1.into()).unwrap().unwrap().staleness(step);
    assert_eq!((staleness(12).age, staleness(12).lag), (2, Some(1)));
    assert_eq!(staleness(9).age, 0, "ahead by the skew counts as age 0");

    let plan = store.plan_for(&ids([1]), 30).unwrap();
    let computed = results(&plan, -0.5);
    store.apply(plan, computed).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!((view.created_step(), view.born_step(), view.ref_version()), (10, 30, 1));
    assert_eq!((staleness(33).age, staleness(33).lag), (3, Some(0)));
}

#[test]
fn a_wider_skew_moves_the_edge_of_the_future() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.step_skew(3));
    store.insert(with_old(1, 103, -1.0, 0)).unwrap();
    let from_future = |step| store.get(1.into()).unwrap().unwrap().staleness(step).from_future;
    assert_eq!([99, 100, 103, 104].map(from_future), [true, false, false, false]);
}

#[test]
fn what_is_handed_out_is_ordered_oldest_born_first_then_by_id() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let born = [(9, 3), (4, 1), (7, 3), (1, 9), (2, 1), (8, 2)];
    for (id, step) in born {
        store.insert(with_old(id, step, -1.0, 0)).unwrap();
    }
    store.insert(bare(5, 2)).unwrap();
    store.insert(bare(3, 2)).unwrap();
    store.advance_ref_version(NOW, None).unwrap();
    let order = ids([2, 4, 3, 5, 8, 7, 9, 1]);
    assert_eq!(store.ids(), order);
    assert_eq!(store.missing(), ids([3, 5]));
    for scanned in [store.stale(), store.needs_recompute(NOW), store.out_of_window(NOW)] {
        assert_eq!(sorted(scanned), ids([1, 2, 3, 4, 5, 7, 8, 9]));
    }
    assert_eq!(store.plan_due(NOW, Budget::unlimited()).unwrap().ids().collect::<Vec<_>>(), order);
    assert_eq!(store.plan_due(NOW, Budget::rollouts(3)).unwrap().ids().collect::<Vec<_>>(), order[..3]);
    // A rollout that was computed moves to the end, by its new born step.
    store.recompute(NOW, Budget::rollouts(1), model(-0.5)).unwrap();
    assert_eq!(store.ids(), ids([4, 3, 5, 8, 7, 9, 1, 2]));
}

#[test]
fn max_version_lag_counts_advances() {
    for lag in [0, 1, 3] {
        let scratch = Scratch::new();
        let store = scratch.open_with(|options| options.max_version_lag(lag));
        store.insert(with_old(1, NOW, -1.0, 0)).unwrap();
        let mut stale = Vec::new();
        for _ in 0..5 {
            stale.push(store.count_stale());
            store.advance_ref_version(NOW, None).unwrap();
        }
        let expected: Vec<u64> = (0..5).map(|advances| u64::from(advances > lag)).collect();
        assert_eq!(stale, expected, "lag {lag}");
        store.close().unwrap();
        assert_eq!(scratch.open().count_stale(), 1, "lag {lag}: after a reopen, with the lag last used");
    }
}

#[test]
fn labels_only_grow_and_the_current_one_again_changes_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert_eq!(store.advance_ref_version(1, Some(5)).unwrap(), 1);
    let before = store.stats().unwrap().last_lsn;
    assert_eq!(store.advance_ref_version(1, Some(5)).unwrap(), 1);
    assert_eq!(store.stats().unwrap().last_lsn, before, "nothing is written");

    assert_eq!(store.advance_ref_version(2, Some(9)).unwrap(), 2, "gaps are fine");
    assert_eq!(store.advance_ref_version(3, Some(100)).unwrap(), 3);
    for older in [5, 9, 99] {
        let refused = store.advance_ref_version(3, Some(older)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains(&format!("label {older} is not above label 100")), "{refused}");
    }
    assert_eq!(store.advance_ref_version(4, None).unwrap(), 4);
    let refused = store.advance_ref_version(4, Some(100)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "100 is no longer the current one");

    let named = |store: &RolloutStore| [5, 9, 100, 7].map(|label| store.ref_version_of(label));
    assert_eq!(named(&store), [Some(1), Some(2), Some(3), None]);
    store.close().unwrap();
    let store = scratch.open();
    assert_eq!((store.ref_version(), named(&store)), (4, [Some(1), Some(2), Some(3), None]));
}

#[test]
fn of_spans_the_oldest_version_counts() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.max_version_lag(1));
    store.advance_ref_version(1, None).unwrap();
    store.advance_ref_version(2, None).unwrap();
    store.insert(bare(1, 2).old_logps_spans(vec![-1.0; 3], &[(2, 1), (1, 2)])).unwrap();
    store.insert(bare(2, 2).old_logps_spans(vec![-1.0; 3], &[(2, 1), (0, 1), (1, 1)])).unwrap();
    let versions = ids([1, 2]).into_iter().map(|id| store.get(id).unwrap().unwrap().ref_version());
    assert_eq!(versions.collect::<Vec<_>>(), [1, 0]);
    assert_eq!(store.stale(), ids([2]));
}

#[test]
fn a_span_of_an_abandoned_version_makes_the_rollout_stale() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.max_version_lag(1_000));
    store.checkpoint(scratch.path("saved")).unwrap();
    let abandoned = store.advance_ref_version(1, None).unwrap();
    let store = scratch.restored(store, scratch.path("saved"));
    store.insert(bare(1, 1).old_logps_spans(vec![-1.0; 3], &[(0, 2), (abandoned, 1)])).unwrap();
    store.insert(with_old(2, 1, -1.0, 0)).unwrap();
    assert_eq!(store.stale(), ids([1]), "stale at any lag, while version 0 is fresh again");
    assert_eq!(store.get(1.into()).unwrap().unwrap().staleness(1).lag, None);
}

#[test]
fn a_version_that_was_never_issued_is_refused() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.advance_ref_version(1, None).unwrap();
    for rollout in [
        with_old(1, 1, -1.0, 2),
        bare(1, 1).old_logps_spans(vec![-1.0; 3], &[(1, 2), (7, 1)]),
        bare(1, 1).kl_ref_logps(vec![-1.0; 3], 1),
    ] {
        let refused = store.insert(rollout).unwrap_err();
        assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::Invalid, Some(1.into())));
        assert!(refused.to_string().contains("never issued"), "{refused}");
    }
    let plan = store.plan_for(&[], 1).unwrap().made_with(9);
    assert_eq!(store.apply(plan, rollstore::Results::new()).unwrap().computed, 0);
    store.insert(bare(1, 1)).unwrap();
    let plan = store.plan_for(&ids([1]), 1).unwrap();
    let computed = results(&plan, -0.5);
    let refused = store.apply(plan.made_with(2), computed).unwrap_err();
    assert!(refused.to_string().contains("never issued"), "{refused}");
    assert_eq!(store.missing(), ids([1]));
}
