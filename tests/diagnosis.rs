//! When nothing is fresh the store says why, in numbers, and which option would change that.
//!
//! Method: stores where one bound alone, several together, or none that an option can change keep rollouts from being fresh;
//! and the dry run of other bounds against stores that are opened with them.

use rollstore::Rewind;
use rollstore_testkit::scratch::{Scratch, bare, with_old};

#[test]
fn a_window_that_leaves_nothing_is_named_with_the_one_that_would_do() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.window(2).max_version_lag(10));
    for id in 0..4 {
        store.insert(with_old(id, 100 + id / 2, -1.0, 0)).unwrap();
    }
    let diagnosis = store.diagnose(110);
    assert_eq!((diagnosis.live, diagnosis.fresh, diagnosis.out_of_window, diagnosis.stale), (4, 0, 4, 0));
    let help = diagnosis.window_help.unwrap();
    assert_eq!((help.at_least, help.fresh, help.for_all, help.all), (9, 2, 10, 4));
    assert_eq!((diagnosis.lag_help, diagnosis.skew_help), (None, None));
    // What it advises is what does it.
    store.close().unwrap();
    for (window, fresh) in [(help.at_least - 1, 0), (help.at_least, help.fresh), (help.for_all, help.all)] {
        let store = scratch.open_with(|options| options.window(window).max_version_lag(10));
        assert_eq!(store.diagnose(110).fresh, fresh, "window {window}");
        store.close().unwrap();
    }
}

#[test]
fn a_lag_that_leaves_nothing_is_named_with_the_one_that_would_do() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(0, 100, -1.0, 0)).unwrap();
    store.advance_ref_version(100, None).unwrap();
    store.insert(with_old(1, 100, -1.0, 1)).unwrap();
    store.advance_ref_version(101, None).unwrap();
    let diagnosis = store.diagnose(101);
    let help = diagnosis.lag_help.unwrap();
    assert_eq!((diagnosis.fresh, diagnosis.stale, diagnosis.abandoned), (0, 2, 0));
    assert_eq!((help.at_least, help.fresh, help.for_all, help.all), (1, 1, 2, 2));
    assert_eq!(
        diagnosis.to_string(),
        "0 of 2 rollouts are fresh at step 101; 2 stale: max_version_lag is 0, 1 would make 1 fresh, 2 all 2"
    );
}

#[test]
fn what_no_option_changes_is_not_promised() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(0, 100)).unwrap();
    store.insert(with_old(1, 100, -1.0, 0)).unwrap();
    store.advance_ref_version(101, None).unwrap();
    store.rewind(100, Rewind::Keep).unwrap();
    // Stale, since they are of an abandoned version; one of them is out of window besides, by then.
    let diagnosis = store.diagnose(109);
    assert_eq!((diagnosis.missing, diagnosis.stale, diagnosis.abandoned, diagnosis.out_of_window), (1, 2, 2, 2));
    assert_eq!((diagnosis.window_help, diagnosis.lag_help), (None, None));
    let text = diagnosis.to_string();
    assert!(text.contains("no window alone would make one fresh, it is 8"), "{text}");
    assert!(text.contains("2 of an abandoned version: compute them again"), "{text}");
    assert!(text.contains("1 without old_logps"), "{text}");
}

#[test]
fn a_step_that_is_behind_the_sampler_is_doubted() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for id in 0..3 {
        store.insert(with_old(id, 150, -1.0, 0)).unwrap();
    }
    let diagnosis = store.diagnose(100);
    assert_eq!((diagnosis.fresh, diagnosis.from_future), (0, 3));
    assert_eq!(diagnosis.skew_help.map(|help| (help.at_least, help.fresh)), Some((50, 3)));
    assert!(
        diagnosis.to_string().contains("3 from the future: is 100 the step?: step_skew is 1, 50 would"),
        "{diagnosis}"
    );
}

#[test]
fn a_healthy_and_an_empty_store_have_nothing_to_complain_of() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert_eq!(store.diagnose(5).to_string(), "0 of 0 rollouts are fresh at step 5");
    store.insert(with_old(0, 5, -1.0, 0)).unwrap();
    assert_eq!(store.diagnose(5).to_string(), "1 of 1 rollouts are fresh at step 5");
}

#[test]
fn the_dry_run_counts_what_a_store_with_these_bounds_finds_due() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for version in 0..4 {
        for id in 0..5 {
            store.insert(with_old(version * 10 + id, 100 + 2 * id + version, -1.0, version)).unwrap();
        }
        store.advance_ref_version(110, None).unwrap();
    }
    store.insert(bare(99, 100)).unwrap();
    let bounds = [(0, 0), (3, 0), (8, 2), (9, 3), (u64::MAX, 1), (u64::MAX, u64::MAX), (0, u64::MAX)];
    let said = bounds.map(|(window, lag)| store.would_recompute(112, window, lag));
    assert_eq!(store.would_recompute(112, store.window(), store.max_version_lag()), store.count_needs_recompute(112));
    store.close().unwrap();
    let found = bounds.map(|(window, lag)| {
        let store = scratch.open_with(|options| options.window(window).max_version_lag(lag));
        let due = store.count_needs_recompute(112);
        store.close().unwrap();
        due
    });
    assert_eq!(said, found);
    assert!(said.iter().any(|due| (1..21).contains(due)), "{said:?}");
}
