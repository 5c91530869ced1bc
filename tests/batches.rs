//! A batch is its operations in order, all or none; what was counted and handed out is never forgotten or repeated.
//!
//! Method: batches whose operations depend on each other, a refused operation at each place, and counters and ids asked
//! again after a close, after a crash and without the index.

#![expect(clippy::float_cmp, reason = "log-probs are kept bit for bit: equal, or wrong")]

use std::collections::HashSet;
use std::fs;

use rollstore::{Budget, ErrorKind, NewRollout, Reason, RolloutId, RolloutStore, StatsCounters};
use rollstore_testkit::scratch::{Scratch, bare, ids, model, outline, results, with_old};

fn counters(store: &RolloutStore) -> StatsCounters {
    store.stats().unwrap().counters
}

fn retired(store: &RolloutStore, reason: Reason) -> u64 {
    counters(store).retired.iter().filter(|(of, _)| *of == reason).map(|(_, count)| count).sum()
}

#[test]
fn each_operation_sees_the_ones_before_it() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 1)).unwrap();
    store.insert(bare(2, 1)).unwrap();
    let (first, second) = (store.plan_for(&ids([1]), 1).unwrap(), store.plan_for(&ids([2]), 1).unwrap());
    let (of_first, of_second) = (results(&first, -0.5), results(&second, -0.5));
    let mut batch = store.batch();
    batch.advance_ref_version(7, Some(70));
    batch.insert(with_old(3, 7, -1.0, 1)).unwrap(); // of the version that this batch issues
    batch.replace(with_old(3, 7, -2.0, 1)).unwrap();
    batch.apply(first, of_first).unwrap();
    batch.retire(&ids([2, 9, 2]), Reason::Trained);
    batch.apply(second, of_second).unwrap(); // too late by now
    batch.insert(with_old(2, 7, -3.0, 1)).unwrap();
    batch.cursor(b"row 1");
    batch.cursor(b"row 2");
    let committed = batch.commit().unwrap();
    assert_eq!((committed.retired, committed.ref_version), (1, 1), "9 does not live, 2 ends once");
    let applied: Vec<_> = committed.applied.iter().map(|applied| (applied.computed, applied.dropped)).collect();
    assert_eq!(applied, [(1, 0), (0, 1)]);
    assert_eq!(store.cursor().as_deref(), Some(&b"row 2"[..]));
    let logps = [1, 2, 3].map(|id| store.get(RolloutId::new(id)).unwrap().unwrap().old_logps().unwrap()[0]);
    assert_eq!(logps, [-0.5, -3.0, -2.0]);
    assert_eq!((retired(&store, Reason::Superseded), retired(&store, Reason::Trained)), (1, 1));
    assert_eq!((counters(&store).computed, counters(&store).dropped, store.clock()), (1, 1, Some(7)));
}

#[test]
fn one_refused_operation_changes_nothing_wherever_it_stands() {
    for place in 0..=5 {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 1, -1.0, 0)).unwrap();
        store.insert(bare(2, 1)).unwrap();
        store.set_cursor(b"row 7").unwrap();
        let plan = store.plan_for(&ids([2]), 1).unwrap();
        let computed = results(&plan, -0.5);
        let late = store.plan_for(&ids([1, 2]), 30).unwrap();
        let of_late = results(&late, -0.5);
        let before = (outline(&store), counters(&store));

        let mut batch = store.batch();
        let mut plans = Some(((plan, computed), (late, of_late)));
        for step in 0..=5 {
            if step == place {
                batch.replace(bare(404, 1)).unwrap(); // not live
            }
            match step {
                0 => batch.insert(bare(3, 1)).unwrap(),
                1 => batch.retire(&ids([1]), Reason::Evicted),
                2 => batch.advance_ref_version(9, Some(3)),
                3 => {
                    let ((plan, computed), (late, of_late)) = plans.take().unwrap();
                    batch.apply(plan, computed).unwrap();
                    batch.apply(late, of_late).unwrap(); // drops, which must not be counted either
                }
                4 => batch.cursor(b"row 8"),
                _ => batch.advance_kl_ref_version(None),
            }
        }
        let refused = batch.commit().unwrap_err();
        assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::NotFound, Some(404.into())));
        assert_eq!((outline(&store), counters(&store)), before, "refused at {place}");
        assert!(store.get(2.into()).unwrap().unwrap().old_logps().is_err(), "refused at {place}");
        store.close().unwrap();
        let store = scratch.open();
        assert_eq!(store.ids(), ids([1, 2]), "refused at {place}, after a reopen");
        assert_eq!((store.cursor().as_deref(), store.ref_version()), (Some(&b"row 7"[..]), 0));
    }
}

#[test]
fn an_empty_batch_and_one_that_changes_nothing_write_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.advance_ref_version(1, Some(5)).unwrap();
    let before = outline(&store);
    let committed = store.batch().commit().unwrap();
    assert_eq!((committed.retired, committed.ref_version), (0, 1));
    let mut batch = store.batch();
    batch.retire(&ids([1, 2]), Reason::Trained);
    batch.advance_ref_version(1, Some(5));
    assert_eq!(batch.commit().unwrap().retired, 0);
    assert_eq!(outline(&store), before);
}

#[test]
fn a_dropped_batch_did_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let before = outline(&store);
    let mut batch = store.batch();
    batch.insert(bare(1, 1)).unwrap();
    drop(batch);
    assert_eq!(outline(&store), before);
}

/// A life in which every counter moves; the last batch is an insert, which carries them all.
fn lively(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open();
    for id in 0..8 {
        store.insert(with_old(id, 1, -1.0, 0)).unwrap();
    }
    store.get_or_compute(&ids(0..4), 1, model(-0.5)).unwrap(); // fresh
    store.advance_ref_version(2, None).unwrap();
    let late = store.plan_for(&ids([7]), 2).unwrap();
    store.get_or_compute(&ids(0..2), 2, model(-0.5)).unwrap(); // computed
    store.retire(&ids([0, 4]), Reason::Trained).unwrap(); // 4 was never asked for
    store.retire(&ids([5]), Reason::Stale).unwrap();
    store.retire(&ids([7]), Reason::Evicted).unwrap();
    let of_late = results(&late, -0.5);
    store.apply(late, of_late).unwrap();
    store.replace(with_old(1, 2, -1.0, 1)).unwrap();
    store
}

fn assert_counted(found: &StatsCounters, why: &str) {
    let counts = (found.inserted, found.asked, found.served, found.computed, found.dropped, found.retired_unused);
    assert_eq!(counts, (9, 7, 4, 2, 1, 2), "{why}: inserted, asked, served, computed, dropped, unused");
    let by_reason: Vec<_> = found.retired.iter().filter(|(_, count)| *count > 0).copied().collect();
    let expected = [(Reason::Trained, 2), (Reason::Stale, 1), (Reason::Superseded, 1), (Reason::Evicted, 1)];
    assert_eq!(by_reason, expected, "{why}");
    assert_eq!(found.retired_total(), 5, "{why}");
}

#[test]
fn counters_survive_a_close_a_crash_and_the_loss_of_the_index() {
    let scratch = Scratch::new();
    let store = lively(&scratch);
    assert_counted(&counters(&store), "while open");
    store.abandon();
    let store = scratch.open();
    assert_counted(&counters(&store), "after a crash");
    store.close().unwrap();
    let store = scratch.open();
    assert_counted(&counters(&store), "after a close");
    store.close().unwrap();
    fs::remove_file(scratch.store_dir().join("index.redb")).unwrap();
    let store = scratch.open();
    assert_counted(&counters(&store), "without the index");
    // Rollouts that were asked for in an earlier life do not count as unused now.
    store.retire(&ids([2, 3, 6]), Reason::Other).unwrap();
    assert_eq!(counters(&store).retired_unused, 3, "6 alone was never asked for");
}

#[test]
fn counts_that_no_batch_carried_are_saved_at_close_and_lost_in_a_crash() {
    for crash in [false, true] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 1, -1.0, 0)).unwrap();
        store.get_or_compute(&ids([1]), 1, model(-0.5)).unwrap();
        assert_eq!((counters(&store).asked, counters(&store).served), (1, 1));
        if crash {
            store.abandon();
        } else {
            store.close().unwrap();
        }
        let store = scratch.open();
        let expected = u64::from(!crash);
        assert_eq!((counters(&store).asked, counters(&store).served), (expected, expected), "crash: {crash}");
    }
}

#[test]
fn a_restore_takes_the_counters_back() {
    let scratch = Scratch::new();
    let store = lively(&scratch);
    store.checkpoint(scratch.path("saved")).unwrap();
    store.retire(&ids([2]), Reason::Trained).unwrap();
    store.insert(bare(40, 2)).unwrap();
    let store = scratch.restored(store, scratch.path("saved"));
    assert_counted(&counters(&store), "after a restore");
}

#[test]
fn an_id_is_handed_out_once() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let mut seen = HashSet::new();
    let mut hand_out = |store: &RolloutStore, count: u64, why: &str| {
        let handed: Vec<_> = store.allocate_ids(count).unwrap().collect();
        assert_eq!(handed.len() as u64, count);
        for id in &handed {
            assert!(seen.insert(*id), "{id} was handed out twice, {why}");
            assert!(!id.is_keyed() && store.get(*id).unwrap().is_none(), "{id} is in use, {why}");
        }
        handed
    };
    let handed = hand_out(&store, 10, "at first");
    store.insert(bare(handed[3].get(), 1)).unwrap();
    let behind = handed[9].get() + 5;
    store.insert(bare(behind, 1)).unwrap();
    hand_out(&store, 20, "after an insert of a higher id within the reserve");
    store.retire(&ids([behind]), Reason::Trained).unwrap();
    store.abandon();
    store = scratch.open();
    hand_out(&store, 10, "after a crash");
    store.insert(bare(1 << 40, 1)).unwrap();
    assert!(hand_out(&store, 10, "after an insert far above")[0].get() > 1 << 40);
    store.retire(&ids([1 << 40]), Reason::Trained).unwrap();
    store.close().unwrap();
    store = scratch.open();
    hand_out(&store, 200_000, "more than are reserved at a time");
    store.checkpoint(scratch.path("saved")).unwrap();
    let abandoned = hand_out(&store, 100_000, "before a restore");
    let store = scratch.restored(store, scratch.path("saved"));
    let after = hand_out(&store, 10, "after a restore");
    assert!(after[0] > abandoned[99_999], "a worker may still hold ids of the abandoned future");
    assert_eq!(hand_out(&store, 0, "none"), []);
}

#[test]
fn keyed_ids_do_not_disturb_the_counted_ones() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(NewRollout::with_key("req-7f3a", 1)).unwrap();
    store.insert(bare(u64::MAX, 1)).unwrap();
    let handed: Vec<_> = store.allocate_ids(3).unwrap().collect();
    assert_eq!(handed, ids([0, 1, 2]));
    assert_eq!(store.get(RolloutId::from_key("req-7f3a")).unwrap().unwrap().key(), Some("req-7f3a"));
    let refused = store.allocate_ids(1 << 63).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(store.allocate_ids(1).unwrap().next(), Some(3.into()), "a refusal uses none up");
}

#[test]
fn ids_are_reserved_many_at_a_time_also_between_inserts() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut next = 0;
    for step in 0..10 {
        let lsn = store.stats().unwrap().last_lsn;
        let handed: Vec<_> = store.allocate_ids(4).unwrap().collect();
        assert_eq!(handed, ids(next..next + 4), "in a row");
        let wrote = store.stats().unwrap().last_lsn != lsn;
        assert_eq!(wrote, step == 0, "the first alone waits for the disk");
        for id in handed {
            store.insert(bare(id.get(), step)).unwrap();
        }
        next += 4;
    }
}

#[test]
fn an_insert_tells_its_incarnation_whatever_else_its_batch_carries() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    store.get_or_compute(&ids([1]), 1, model(-0.5)).unwrap(); // counts, which the next insert carries
    let inserted = store.insert(with_old(2, 1, -1.0, 0)).unwrap();
    assert_eq!(store.get(2.into()).unwrap().unwrap().insert_lsn(), inserted);
    store.get_or_compute(&ids([1]), 1, model(-0.5)).unwrap();
    let replaced = store.replace(with_old(2, 1, -1.0, 0)).unwrap();
    assert_eq!(store.get(2.into()).unwrap().unwrap().insert_lsn(), replaced);
}

#[test]
fn a_recompute_alone_is_no_use_in_one_batch_as_in_two() {
    for one_batch in [true, false] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 1, -1.0, 0)).unwrap();
        store.advance_ref_version(2, None).unwrap();
        let due = store.plan_due(2, Budget::unlimited()).unwrap();
        let computed = results(&due, -0.5);
        let mut batch = store.batch();
        batch.apply(due, computed).unwrap();
        if !one_batch {
            batch.commit().unwrap();
            batch = store.batch();
        }
        batch.retire(&ids([1]), Reason::Stale);
        assert_eq!(batch.commit().unwrap().retired, 1);
        assert_eq!(counters(&store).retired_unused, 1, "no one asked for it; one batch: {one_batch}");
    }
}
