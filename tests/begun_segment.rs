//! A segment that was being written to when its process was killed is read from where the index ends, and nothing is lost by
//! that: the state there, the retirements in front, the way back without the index (D1, D3, D7).
//!
//! Method: one large segment whose index is flushed in the middle; bytes that the next open reads; the full state, compared
//! again after a second kill, and once the index is gone.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::SimDisk;
use rollstore::{CompactBudget, Options, Reason, Rewind, RolloutStore, limits};
use rollstore_testkit::bytes;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, append, ids, options, partial, recompute_all, rollout, rollout_of};

/// Tokens of a record that takes about 64 KB.
const LARGE: usize = 8_000;

fn one_segment(disk: &SimDisk) -> Options {
    options(Arc::new(disk.clone())).flush_in_turn().segment_bytes(1 << 30)
}

fn open(disk: &SimDisk) -> RolloutStore {
    one_segment(disk).open(DIR).unwrap()
}

fn insert_large(store: &RolloutStore, ids: std::ops::Range<u64>) {
    ids.for_each(|id| store.insert(rollout_of(id, 0, 0, LARGE)).map(drop).unwrap());
}

fn killed(disk: &SimDisk, store: RolloutStore) -> (SimDisk, StoreState) {
    let state = StoreState::of(&store).unwrap();
    store.abandon();
    (disk.kill(), state)
}

fn log_bytes(disk: &SimDisk) -> u64 {
    bytes::segments(disk, DIR).iter().map(|segment| bytes::read(disk, segment).len() as u64).sum()
}

fn assert_opens(disk: &SimDisk, expected: &StoreState, what: &str) -> RolloutStore {
    let store = open(disk);
    assert_same(&StoreState::of(&store).unwrap(), expected, what);
    store
}

#[test]
fn s08_after_a_flush_and_a_kill_an_open_reads_what_lies_behind_it_and_little_more() {
    for tail in [0, 3, 12] {
        let disk = SimDisk::new();
        let store = open(&disk);
        insert_large(&store, 0..60);
        store.flush_index().unwrap();
        let flushed = log_bytes(&disk);
        insert_large(&store, 60..60 + tail);
        let behind = log_bytes(&disk) - flushed;
        let (disk, state) = killed(&disk, store);
        let read = assert_opens(&disk, &state, "read from the middle").stats().unwrap().open_log_bytes_read;
        // Headers of two segments, read again once the log is settled, and the footer of the batch that was written again.
        let spare = 6 * 4096;
        assert!(
            (behind..=behind + spare).contains(&read),
            "{read} bytes of {behind} behind the flush, {flushed} before"
        );
    }
}

#[test]
fn s08_a_flush_comes_before_an_open_would_have_to_read_much_however_large_the_rollouts_are() {
    let disk = SimDisk::new();
    let store = one_segment(&disk).index_flush_changes(limits::INDEX_FLUSH_CHANGES_DEFAULT).open(DIR).unwrap();
    let rollout_bytes = 4 << 20;
    let count = limits::INDEX_FLUSH_BYTES / rollout_bytes + 2;
    let tokens = usize::try_from(rollout_bytes / 4).unwrap();
    for id in 0..count {
        store.insert(rollstore::NewRollout::new(id, 0).old_logps(vec![-0.5; tokens], 0)).unwrap();
    }
    store.abandon();
    let read = open(&disk.kill()).stats().unwrap().open_log_bytes_read;
    assert!(read < limits::INDEX_FLUSH_BYTES / 2, "{read} bytes read of {count} rollouts");
}

#[test]
fn d3_the_state_at_the_flush_comes_back_with_what_was_done_behind_it_after_each_kill() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let change = |store: &RolloutStore, first: u64, step: u64| {
        let mut batch = store.batch();
        (first..first + 20).for_each(|id| batch.insert(rollout(id, step, store.ref_version())).unwrap());
        batch.cursor(&step.to_le_bytes());
        batch.advance_ref_version(step, Some(first));
        batch.commit().unwrap();
        store.begin_partial(partial(first + 50, step)).unwrap();
        append(store, first + 50, 5).unwrap();
        store.retire(&ids([first, first + 3]), Reason::Trained).unwrap();
        store.retire_created_before(step, Reason::Evicted).unwrap();
        recompute_all(store, step + 20).unwrap();
        store.rewind(step, Rewind::Keep).unwrap();
    };
    change(&store, 0, 5);
    store.flush_index().unwrap();
    change(&store, 100, 6);
    let (disk, state) = killed(&disk, store);
    let store = assert_opens(&disk, &state, "killed once");
    change(&store, 200, 7);
    store.flush_index().unwrap();
    let (disk, state) = killed(&disk, store);
    let (disk, state) = killed(&disk, assert_opens(&disk, &state, "nothing behind the flush"));
    bytes::remove(&disk, &Path::new(DIR).join("index.redb"));
    assert_opens(&disk, &state, "without the index");
}

#[test]
fn d7_a_retirement_outlives_its_segment_where_its_rollout_lies_in_front_of_where_reading_began() {
    let disk = SimDisk::new();
    let store = open(&disk);
    insert_large(&store, 0..4);
    store.flush_index().unwrap();
    store.retire(&ids([3]), Reason::Trained).unwrap();
    insert_large(&store, 3..6);
    let (disk, state) = killed(&disk, store);
    let store = assert_opens(&disk, &state, "cut");
    // The retirement lies beside rollouts that all end, its victim beside some that live.
    store.retire(&ids([1]), Reason::Evicted).unwrap();
    insert_large(&store, 20..24);
    store.retire(&ids(20..24), Reason::Trained).unwrap();
    store.checkpoint("saved").unwrap();
    let segments = bytes::segments(&disk, DIR).len();
    store.compact(CompactBudget::all()).unwrap();
    assert!(bytes::segments(&disk, DIR).len() < segments, "the retirement's segment is gone");
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    disk.remove_file(&Path::new(DIR).join("index.redb")).unwrap();
    assert_opens(&disk, &state, "by the log alone");
}
