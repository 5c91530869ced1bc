//! What a store counted, and whom it asked for, goes on in a store that takes its rollouts over, over every reopening.
//!
//! Method: a store with a life behind it is taken over through the public interface; what ends later is counted alike.

use rollstore::{ErrorKind, NewRollout, Past, Reason, RolloutStore, limits};
use rollstore_testkit::scratch::{assert_says, ids};

fn options() -> rollstore::Options {
    RolloutStore::options().window(8).segment_bytes(limits::SEGMENT_BYTES_MIN)
}

/// Rollouts 0 to 4 live, of which the even ones were asked for; 9 was used and ended.
fn lived(dir: &std::path::Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    for id in [0, 1, 2, 3, 4, 9] {
        store.insert(NewRollout::new(id, 0).old_logps(&[-0.5][..], 0)).unwrap();
    }
    drop(store.plan_for(&ids([0, 2, 4]), 0).unwrap());
    store.retire(&ids([9]), Reason::Evicted).unwrap();
    store
}

fn taken_over(from: &RolloutStore, dir: &std::path::Path) -> RolloutStore {
    let mut past = from.past();
    past.counters.inserted -= 5;
    let to = options().past(past).open(dir).unwrap();
    for id in ids(0..5) {
        let rollout = from.get(id).unwrap().unwrap();
        let new = NewRollout::new(id, 0).old_logps(rollout.old_logps().unwrap(), 0);
        to.insert(new.as_it_stood(0, 0).as_asked(from.was_asked(id))).unwrap();
    }
    to
}

fn asked(store: &RolloutStore) -> Vec<bool> {
    ids(0..5).into_iter().map(|id| store.was_asked(id)).collect()
}

#[test]
fn counts_and_uses_go_on_and_what_ends_later_is_counted_alike() {
    let dir = tempfile::tempdir().unwrap();
    let (from_dir, to_dir) = (dir.path().join("from"), dir.path().join("to"));
    let from = lived(&from_dir);
    let mut to = taken_over(&from, &to_dir);
    assert_eq!(asked(&to), [true, false, true, false, true]);
    assert_eq!((to.past(), to.stats().unwrap().counters), (from.past(), from.stats().unwrap().counters));
    // By the log's tail, by footers, and by the index.
    for reopened in ["abandoned", "closed", "without an index"] {
        match reopened {
            "abandoned" => to.abandon(),
            _ => to.close().unwrap(),
        }
        if reopened == "without an index" {
            std::fs::remove_file(to_dir.join("index.redb")).unwrap();
        }
        to = options().open(&to_dir).unwrap();
        assert_eq!((asked(&to), to.past()), (asked(&from), from.past()), "{reopened}");
    }
    for store in [&from, &to] {
        store.retire(&ids([0, 1]), Reason::Trained).unwrap();
    }
    assert_eq!(to.stats().unwrap().counters, from.stats().unwrap().counters);
    assert_eq!(to.stats().unwrap().counters.retired_unused, 2, "9 and 1");
    assert_eq!(to.allocate_ids(1).unwrap().next(), Some(10.into()), "9 was used");
}

#[test]
fn a_store_that_exists_keeps_its_own_counts() {
    let dir = tempfile::tempdir().unwrap();
    let from = lived(dir.path());
    let past = from.past();
    from.close().unwrap();
    let error = options().past(past).open(dir.path()).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &["clocks of its own and counters"]);
}

#[test]
fn ids_that_no_store_hands_out_are_refused_and_make_none() {
    let dir = tempfile::tempdir().unwrap();
    let past = Past { next_id: u64::MAX, ..lived(&dir.path().join("from")).past() };
    let to = dir.path().join("to");
    let error = options().past(past).open(&to).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &["next_id", "2^63"]);
    assert!(options().create(false).open(&to).is_err_and(|error| error.kind() == ErrorKind::NotFound));
}
