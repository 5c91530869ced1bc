//! A compaction that is stopped anywhere, beside anything: no rollout is lost, none comes back, none is there twice
//! (D1, D5, D7, F21, F22).
//!
//! Method: the power is cut at every disk operation of stores that are compacted; and compactions during which, at every
//! write and sync of a segment, rollouts that are being moved are retired, replaced, computed again or made stale.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rollstore::disk::Disk;
use rollstore::disk::sim::SimDisk;
use rollstore::{CompactBudget, Reason, RolloutStore};
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, open_in_turn, options, recompute_all, rollout_of};
use rollstore_testkit::yielding::Yielding;

type Result<T = ()> = rollstore::Result<T>;

/// Four records of so many tokens fill a segment.
const TOKENS: usize = 1_800;

fn fill(store: &RolloutStore, first: u64, count: u64, step: u64) -> Result {
    let version = store.ref_version();
    (first..first + count).try_for_each(|id| store.insert(rollout_of(id, step, version, TOKENS)).map(drop))
}

#[test]
fn f21_a_compaction_that_is_cut_at_any_operation_changes_nothing() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        fill(&store, 0, 12, 0)?;
        store.retire(&ids((0..12).filter(|id| id % 4 > 0)), Reason::Trained)?;
        store.advance_ref_version(1, None)?;
        store.advance_ref_version(2, None)?;
        recompute_all(&store, 2)?;
        run.acknowledge(&store)?;
        run.cut_from_here();
        store.compact(CompactBudget::all())?;
        store.retire(&ids([0]), Reason::Stale)?;
        run.acknowledge(&store)?;
        fill(&store, 1, 1, 2)?;
        run.acknowledge(&store)?;
        store.compact(CompactBudget::all())?;
        store.close()
    };
    let swept = Sweep::of(&workload).within_recovery(1).within_every(4).goes_on_every(4).run();
    assert!(swept.points > 30 && swept.within_recovery > 100, "{swept:?}");
}

#[test]
fn f21_segments_that_are_dropped_whole_are_gone_and_nothing_else() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        fill(&store, 0, 8, 0)?;
        fill(&store, 8, 4, 5)?;
        run.acknowledge(&store)?;
        run.cut_from_here();
        store.retire_created_before(5, Reason::Evicted)?;
        run.acknowledge(&store)?;
        store.compact(CompactBudget::all())?;
        fill(&store, 0, 1, 5)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).within_recovery(1).goes_on_every(2).run();
    assert!(swept.points > 20, "{swept:?}");
}

#[test]
fn f22_a_retirement_outlives_the_segment_that_it_was_written_in() {
    for rule in [false, true] {
        let disk = SimDisk::new();
        let store = open_in_turn(&disk).unwrap();
        // The victims lie beside rollouts that live; the retirements beside rollouts that do not.
        fill(&store, 0, 8, 3).unwrap();
        store.insert(rollout_of(100, 1, 0, TOKENS)).unwrap();
        fill(&store, 8, 3, 3).unwrap();
        if rule {
            store.retire_created_before(2, Reason::Evicted).unwrap();
        } else {
            store.retire(&ids([100]), Reason::Evicted).unwrap();
        }
        fill(&store, 20, 8, 3).unwrap();
        store.retire(&ids((8..11).chain(20..28)), Reason::Trained).unwrap();
        let before = StoreState::of(&store).unwrap();
        let segments = disk.list(DIR.as_ref()).unwrap().len();
        store.compact(CompactBudget::all()).unwrap();
        assert!(disk.list(DIR.as_ref()).unwrap().len() < segments, "the retirement's segment is gone");
        store.close().unwrap();
        disk.remove_file(format!("{DIR}/index.redb").as_ref()).unwrap();
        let reopened = StoreState::of(&open_in_turn(&disk).unwrap()).unwrap();
        assert_same(&reopened, &before, format_args!("by rule: {rule}"));
    }
}

/// What happens to rollouts that are being moved.
type Act = fn(&RolloutStore) -> Result;

const ACTS: [(&str, Act); 6] = [
    ("retired", |store| store.retire(&ids([0, 4, 8]), Reason::Stale).map(drop)),
    ("retired and inserted again", |store| {
        store.retire(&ids([0, 4, 8]), Reason::Stale)?;
        store.insert(rollout_of(4, 2, store.ref_version(), TOKENS)).map(drop)
    }),
    ("retired by a line", |store| store.retire_created_before(1, Reason::Stale).map(drop)),
    ("computed again", |store| recompute_all(store, 30).map(drop)),
    ("made stale", |store| store.advance_ref_version(3, None).map(drop)),
    ("checkpointed", |store| store.checkpoint("/saved").map(drop)),
];

/// A store of segments that are half dead.
fn half_dead(store: &RolloutStore) {
    fill(store, 0, 12, 0).unwrap();
    store.retire(&ids((0..12).filter(|id| id % 4 > 0)), Reason::Trained).unwrap();
    fill(store, 20, 3, 2).unwrap();
}

#[test]
fn f21_rollouts_that_are_changed_while_they_are_moved_are_neither_lost_nor_brought_back() {
    for (what, act) in ACTS {
        let control = open_in_turn(&SimDisk::new()).unwrap();
        half_dead(&control);
        act(&control).unwrap();
        let expected = StoreState::of(&control).unwrap().without_lsns();
        let mut place = 0;
        while changed_at(place, act, &expected, what) {
            place += 1;
        }
        assert!(place > 8, "{what}: a compaction writes and syncs at {place} places");
    }
}

/// Changes rollouts at one place of a compaction; false where it has no such place.
fn changed_at(place: i64, act: Act, expected: &StoreState, what: &str) -> bool {
    let disk = SimDisk::new();
    // Counts down to the place; beyond it nothing happens any more.
    let (left, handle) = (Arc::new(AtomicI64::new(i64::MAX)), Arc::new(Mutex::new(None::<RolloutStore>)));
    let give_way = {
        let (left, handle) = (Arc::clone(&left), Arc::clone(&handle));
        move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 0
                && let Some(store) = handle.lock().unwrap().take()
            {
                act(&store).unwrap();
            }
        }
    };
    let yielding = Hooked::with(Arc::new(disk.clone()), Yielding(give_way));
    let store = options(Arc::new(yielding)).flush_in_turn().open(DIR).unwrap();
    half_dead(&store);
    *handle.lock().unwrap() = Some(store.clone());
    left.store(place, Ordering::Relaxed);
    store.compact(CompactBudget::all()).unwrap();
    let reached = handle.lock().unwrap().take().is_none();
    if reached {
        let when = format_args!("{what} at place {place}");
        assert_same(&StoreState::of(&store).unwrap().without_lsns(), expected, when);
        store.compact(CompactBudget::all()).unwrap();
        assert!(store.verify().unwrap().is_sound(), "{when}");
        store.abandon();
        let killed = disk.kill();
        for index in [true, false] {
            if !index {
                let _ = killed.remove_file(format!("{DIR}/index.redb").as_ref());
            }
            let store = open_in_turn(&killed).unwrap();
            let when = format_args!("{when}, killed and reopened, with its index: {index}");
            assert_same(&StoreState::of(&store).unwrap().without_lsns(), expected, when);
            store.close().unwrap();
        }
    }
    reached
}
