//! The index saves reading and never decides: lost, damaged, foreign or old, the answers are the same (F18, F19).
//!
//! Method: a store with every kind of frame in several segments, closed cleanly or killed; its index file is done harm;
//! the full state is compared with the one before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::counting::CountingDisk;
use rollstore::disk::sim::SimDisk;
use rollstore::{Reason, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::settings::{random, scale, seed};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, open, options, recompute_all, rollout, rollout_of};

fn index() -> PathBuf {
    Path::new(DIR).join("index.redb")
}

/// Fills several segments with inserts, updates, retirements and replacements.
fn fill(store: &RolloutStore, first: u64, from_step: u64) {
    for step in from_step..from_step + 4 {
        let mut batch = store.batch();
        let start = first + (step - from_step) * 64;
        for id in start..start + 64 {
            batch.insert(rollout_of(id, step, store.ref_version(), 120)).unwrap();
        }
        batch.cursor(&step.to_le_bytes());
        batch.advance_ref_version(step, None);
        batch.commit().unwrap();
        store.retire(&ids((start..start + 64).step_by(5)), Reason::Trained).unwrap();
        store.replace(rollout(start + 1, step, store.ref_version())).unwrap();
        recompute_all(store, step).unwrap();
    }
}

/// A store that was closed, with its index, and what it showed.
fn closed() -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store, 0, 0);
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    assert!(bytes::segments(&disk, DIR).len() >= 4, "several segments");
    assert!(!bytes::read(&disk, &index()).is_empty(), "a closed store has an index");
    (disk.kill(), state)
}

/// The same, killed with a part of the log behind its index.
fn killed() -> (SimDisk, StoreState) {
    let (disk, _) = closed();
    let store = open(&disk).unwrap();
    fill(&store, 1000, 4);
    let state = StoreState::of(&store).unwrap();
    store.abandon();
    (disk.kill(), state)
}

/// Opens twice: once with the harm, once with what the first opening made of it.
fn assert_answers(disk: &SimDisk, expected: &StoreState, what: &str) {
    let store = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&StoreState::of(&store).unwrap(), expected, what);
    store.close().unwrap();
    let store = open(disk).unwrap();
    assert_same(&StoreState::of(&store).unwrap(), expected, format_args!("{what}, closed and opened again"));
}

fn log_bytes_read(disk: &SimDisk) -> u64 {
    let store = open(disk).unwrap();
    let read = store.stats().unwrap().open_log_bytes_read;
    store.abandon();
    read
}

#[test]
fn f19_a_missing_index_changes_no_answer() {
    for (disk, state) in [closed(), killed()] {
        bytes::remove(&disk, &index());
        assert_answers(&disk, &state, "without the index");
    }
}

#[test]
fn f19_a_truncated_index_changes_no_answer() {
    let (disk, state) = closed();
    let whole = bytes::read(&disk, &index());
    for len in [0, 1, 511, 4096, whole.len() / 2, whole.len() - 1] {
        bytes::write(&disk, &index(), &whole[..len]);
        assert_answers(&disk, &state, &format!("index cut to {len} bytes"));
    }
}

#[test]
fn f19_flipped_bytes_of_the_index_change_no_answer() {
    let (disk, state) = killed();
    let whole = bytes::read(&disk, &index());
    for round in 0..24 * scale() {
        let mut harmed = whole.clone();
        for nth in 0..=round % 4 {
            let chance = random(seed(), round * 8 + nth);
            let at = usize::try_from(chance >> 8).unwrap() % harmed.len();
            harmed[at] ^= 1 << (chance % 8);
        }
        let copy = disk.kill();
        bytes::write(&copy, &index(), &harmed);
        assert_answers(&copy, &state, &format!("round {round} of flipped bits"));
    }
}

#[test]
fn f19_another_stores_index_is_not_believed() {
    let (disk, state) = closed();
    let other = SimDisk::new();
    let store = open(&other).unwrap();
    fill(&store, 500, 0);
    store.close().unwrap();
    bytes::write(&disk, &index(), &bytes::read(&other, &index()));
    assert_answers(&disk, &state, "with another store's index");
}

#[test]
fn f19_an_older_backup_of_the_index_changes_no_answer() {
    let (disk, _) = closed();
    let backup = bytes::read(&disk, &index());
    let store = open(&disk).unwrap();
    fill(&store, 1000, 4);
    store.retire(&ids([0, 2, 1001]), Reason::Evicted).unwrap();
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    bytes::write(&disk, &index(), &backup);
    assert_answers(&disk, &state, "with an older index");
}

#[test]
fn f19_the_index_from_before_a_restore_is_not_believed() {
    let (disk, state) = closed();
    let store = open(&disk).unwrap();
    store.checkpoint("saved").unwrap();
    fill(&store, 1000, 4);
    store.close().unwrap();
    let backup = bytes::read(&disk, &index());
    options(Arc::new(disk.clone())).restore("saved", DIR).unwrap();
    bytes::write(&disk, &index(), &backup);
    assert_answers(&disk, &state, "with an index of the abandoned future");
}

#[test]
fn f18_an_index_ahead_of_the_log_is_not_believed() {
    let (disk, state) = closed();
    // Both go on from the same files; then the one that stays behind gets the other's newer index.
    let (ahead, behind) = (disk.kill(), disk.kill());
    let store = open(&ahead).unwrap();
    fill(&store, 1000, 4);
    store.close().unwrap();
    bytes::write(&behind, &index(), &bytes::read(&ahead, &index()));
    assert_answers(&behind, &state, "with an index that is ahead");
}

#[test]
fn f18_an_index_of_a_log_that_went_another_way_is_not_believed() {
    let (disk, _) = closed();
    let store = open(&disk).unwrap();
    fill(&store, 1000, 4);
    let (segments, state) = (bytes::segments(&disk, DIR), StoreState::of(&store).unwrap());
    let last = segments.last().unwrap();
    let short = bytes::read(&disk, last);
    store.insert(rollout(5000, 7, store.ref_version())).unwrap();
    store.flush_index().unwrap();
    store.abandon();
    let disk = disk.kill();
    assert_eq!(bytes::segments(&disk, DIR), segments, "the index ends in the segment that is put back");
    let len = bytes::read(&disk, last).len();
    assert!(short.len() < len, "what the index saw last is put back");
    let zeros = [&short[..], &vec![0; len - short.len()]].concat();
    for (log, what) in [(short, "the log ends before the index"), (zeros, "the log is empty where the index ends")] {
        let copy = disk.kill();
        bytes::write(&copy, last, &log);
        assert_answers(&copy, &state, what);
    }
}

#[test]
fn with_the_index_opening_reads_fewer_log_bytes() {
    let (disk, _) = closed();
    let with = log_bytes_read(&disk);
    bytes::remove(&disk, &index());
    let without = log_bytes_read(&disk);
    assert!(with < without, "{with} log bytes with the index, {without} without");
    let segments = bytes::segments(&disk, DIR).len() as u64;
    assert!(with <= segments * 4096, "{with}: after a clean close only the headers of {segments} segments are read");
}

#[test]
fn the_log_bytes_read_are_those_that_the_disk_saw() {
    let (disk, _) = closed();
    bytes::remove(&disk, &index());
    let counting = CountingDisk::new(Arc::new(disk)).without_maps();
    let store = options(Arc::new(counting.clone())).open(DIR).unwrap();
    let is_log = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seg-"));
    let seen = counting.trace();
    let read: u64 = seen.iter().filter(|op| is_log(&op.path)).map(|op| op.len).sum();
    assert_eq!(store.stats().unwrap().open_log_bytes_read, read);
    assert!(counting.counts().read_bytes >= read);
}
