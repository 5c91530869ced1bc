//! Rollouts end by line, version, group and standing rule: exactly those, counted, for good.
//!
//! Method: small stores on real files, looked at before and after a reopen without the index; dry runs are compared with what
//! then happens.

use rollstore::{ErrorKind, NewRollout, Reason, Retirement, RolloutStore};
use rollstore_testkit::scratch::{Scratch, assert_says};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{ids, rollout};

/// Rollouts 0 to 39, four created at each step, four in each group.
fn filled(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open();
    for id in 0..40 {
        store.insert(rollout(id, id / 4, 0)).unwrap();
    }
    store
}

/// What the store shows is what it shows again after a reopen, with and without its index.
fn assert_stays(scratch: &Scratch, store: RolloutStore) -> RolloutStore {
    let before = StoreState::of(&store).unwrap();
    store.close().unwrap();
    let store = scratch.open();
    assert_same(&StoreState::of(&store).unwrap(), &before, "reopened");
    store.close().unwrap();
    std::fs::remove_file(scratch.store_dir().join("index.redb")).unwrap();
    let store = scratch.open();
    assert_same(&StoreState::of(&store).unwrap(), &before, "reopened without an index");
    store
}

fn retired(store: &RolloutStore, reason: Reason) -> u64 {
    let counters = store.stats().unwrap().counters;
    counters.retired.iter().find(|(of, _)| *of == reason).unwrap().1
}

#[test]
fn a_line_ends_what_was_created_below_it_and_inserted_before_it() {
    let scratch = Scratch::new();
    let store = filled(&scratch);
    assert_eq!(store.would_retire(&Retirement::CreatedBefore(3)), 12);
    assert_eq!(store.retire_created_before(3, Reason::Evicted).unwrap(), 12);
    assert_eq!(store.ids(), ids(12..40));
    // Late ones live, whether their ids are new or old.
    store.insert(rollout(100, 1, 0)).unwrap();
    store.insert(rollout(5, 2, 0)).unwrap();
    let store = assert_stays(&scratch, store);
    assert_eq!((store.len(), retired(&store, Reason::Evicted)), (30, 12));
    assert_eq!(store.retire_created_before(3, Reason::Evicted).unwrap(), 2);
    assert_eq!(assert_stays(&scratch, store).len(), 28);
}

#[test]
fn a_line_is_one_small_record_whatever_it_ends() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut batch = store.batch();
    (0..20_000).for_each(|id| batch.insert(NewRollout::new(id, id % 50)).unwrap());
    batch.commit().unwrap();
    let before = store.stats().unwrap().log_bytes;
    assert_eq!(store.retire_created_before(49, Reason::Trained).unwrap(), 19_600);
    assert!(store.stats().unwrap().log_bytes - before < 1024);
}

#[test]
fn lines_within_a_batch_see_what_comes_before_them_and_not_what_comes_behind() {
    let scratch = Scratch::new();
    let store = filled(&scratch);
    let mut batch = store.batch();
    batch.insert(rollout(100, 0, 0)).unwrap();
    batch.retire_created_before(1, Reason::Trained);
    batch.insert(rollout(101, 0, 0)).unwrap();
    batch.retire(&ids([101, 100, 0]), Reason::Other);
    batch.insert(rollout(0, 0, 0)).unwrap();
    assert_eq!(batch.commit().unwrap().retired, 6);
    assert_eq!(store.would_retire(&Retirement::CreatedBefore(1)), 1);
    let store = assert_stays(&scratch, store);
    assert_eq!((retired(&store, Reason::Trained), retired(&store, Reason::Other), store.len()), (5, 1, 37));
}

#[test]
fn lines_that_descend_are_all_kept_and_a_higher_one_takes_their_place() {
    let scratch = Scratch::new();
    let store = filled(&scratch);
    for step in [8, 6, 4, 2] {
        store.retire_created_before(step, Reason::Trained).unwrap();
        for id in 0..8 {
            store.insert(rollout(id + step * 100, id, 0)).unwrap();
        }
    }
    let store = assert_stays(&scratch, store);
    assert_eq!(store.would_retire(&Retirement::CreatedBefore(2)), 2);
    store.retire_created_before(9, Reason::Trained).unwrap();
    assert_eq!(assert_stays(&scratch, store).ids(), ids(36..40));
}

#[test]
fn versions_and_groups_end_as_of_the_call() {
    let scratch = Scratch::new();
    let store = filled(&scratch);
    let version = store.advance_ref_version(9, None).unwrap();
    for id in 40..44 {
        store.insert(rollout(id, 9, version)).unwrap();
    }
    assert_eq!(store.group(3), ids(12..16));
    assert_eq!(store.would_retire(&Retirement::Groups(vec![3, 3, 7])), 8);
    assert_eq!(store.retire_groups(&[3, 7, 3], Reason::Stale).unwrap(), 8);
    assert_eq!(store.group(3), []);
    assert_eq!(store.would_retire(&Retirement::VersionBefore(version)), 32);
    assert_eq!(store.retire_version_before(version, Reason::Stale).unwrap(), 32);
    let store = assert_stays(&scratch, store);
    assert_eq!((store.ids(), retired(&store, Reason::Stale)), (ids(40..44), 40));
    assert_eq!(store.group(10), ids(40..44));
}

#[test]
fn the_standing_rule_ends_with_each_advance_what_is_too_old() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.retire_after(3));
    for step in 0..10 {
        store.insert(rollout(step, step, store.ref_version())).unwrap();
        store.advance_ref_version(step, None).unwrap();
    }
    assert_eq!(store.ids(), ids(6..10));
    assert_eq!(retired(&assert_stays(&scratch, store), Reason::Evicted), 6);
}

#[test]
fn an_absurd_step_ends_nothing() {
    let scratch = Scratch::new();
    let store = filled(&scratch);
    store.advance_ref_version(9, None).unwrap();
    for step in [u64::MAX, 1 << 40] {
        let error = store.retire_created_before(step, Reason::Trained).unwrap_err();
        assert_says(&error, ErrorKind::Invalid, &["created step", &step.to_string()]);
    }
    assert_eq!(store.len(), 40);
}

#[test]
fn a_store_that_only_grows_says_so() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for step in 0..=100 {
        assert_eq!(store.stats().unwrap().warnings, [""; 0], "at step {step}");
        store.insert(rollout(step, step, store.ref_version())).unwrap();
        store.advance_ref_version(step, None).unwrap();
    }
    let warnings = store.stats().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("100 steps") && warning.contains("retire")), "{warnings:?}");
    store.retire(&ids([0]), Reason::Trained).unwrap();
    assert_eq!(store.stats().unwrap().warnings, [""; 0]);
}
