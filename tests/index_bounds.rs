//! An index file that cannot be written costs neither commits nor answers, and flushes come when they are due.
//!
//! Method: stores with a low threshold on a simulated disk, whose index fails to be made, once or for ever; the operations on
//! it are counted. What lists of changes cost in memory is held beside the code, in `src/index/changed.rs`.

use std::sync::Arc;

use rollstore::disk::sim::{Fault, OpKind, SimDisk};
use rollstore::{ErrorKind, Options, Reason, RolloutStore, limits};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, open, options, rollout};

fn flushing_at(disk: &SimDisk, entries: usize) -> Options {
    options(Arc::new(disk.clone())).flush_in_turn().segment_bytes(1 << 30).index_flush_changes(entries)
}

fn insert(store: &RolloutStore, ids: std::ops::Range<u64>) {
    for id in ids {
        store.insert(rollout(id, 0, 0)).unwrap();
    }
}

/// Attempts to make the index file, and syncs of it.
fn index_operations(disk: &SimDisk) -> (usize, usize) {
    let trace = disk.trace();
    let count = |kind| trace.iter().filter(|op| op.kind == kind && op.path.ends_with("index.redb")).count();
    (count(OpKind::Create), count(OpKind::SyncData))
}

#[test]
fn a_flush_comes_when_so_many_entries_changed() {
    let flushes = |entries: usize| {
        let disk = SimDisk::new();
        let store = flushing_at(&disk, entries).open(DIR).unwrap();
        insert(&store, 0..1);
        store.flush_index().unwrap();
        let (_, before) = index_operations(&disk);
        insert(&store, 1..200);
        index_operations(&disk).1 - before
    };
    let (few, many) = (flushes(100), flushes(10));
    assert!(few > 0 && many > 4 * few, "{few} syncs at 100 entries, {many} at 10");
}

#[test]
fn a_file_that_cannot_be_made_is_tried_ever_less_often_and_no_commit_fails() {
    let disk = SimDisk::new();
    let store = flushing_at(&disk, 10).open(DIR).unwrap();
    // Something stands under the file's name that is no file and cannot be removed as one.
    rollstore::disk::Disk::create_dir_all(&disk, &std::path::Path::new(DIR).join("index.redb")).unwrap();
    let tries = |disk: &SimDisk| {
        disk.trace().iter().filter(|op| op.kind == OpKind::RemoveFile && op.path.ends_with("index.redb")).count()
    };
    insert(&store, 0..700);
    let first = tries(&disk);
    assert!((3..=8).contains(&first), "{first} tries in 700 commits, each of 10 changes would be 70");
    insert(&store, 700..1_400);
    assert!(tries(&disk) <= first + 2, "{} tries", tries(&disk));
    assert_eq!(store.len(), 1_400);
    let state = StoreState::of(&store).unwrap();
    store.abandon();
    let disk = disk.kill();
    assert_same(&StoreState::of(&open(&disk).unwrap()).unwrap(), &state, "rebuilt from the log");
}

#[test]
fn after_a_failed_flush_the_next_one_writes_every_row() {
    let disk = SimDisk::new();
    let store = flushing_at(&disk, 1_000).open(DIR).unwrap();
    insert(&store, 0..50);
    store.flush_index().unwrap();
    store.retire(&ids(0..10), Reason::Trained).unwrap();
    insert(&store, 50..60);
    disk.fail_next(OpKind::SyncData, "index.redb", Fault::Eio);
    assert_eq!(store.flush_index().unwrap_err().kind(), ErrorKind::Io);
    store.retire(&ids(20..25), Reason::Trained).unwrap();
    insert(&store, 60..70);
    store.flush_index().unwrap();
    let state = StoreState::of(&store).unwrap();
    store.abandon();
    let disk = disk.kill();
    let store = open(&disk).unwrap();
    assert_same(&StoreState::of(&store).unwrap(), &state, "by the index that was made anew");
    let is_anew = |op: &rollstore::disk::sim::Op| op.kind == OpKind::Create && op.path.ends_with("index.redb");
    assert!(!disk.trace().iter().any(is_anew), "the index was of use");
}

#[test]
fn rows_that_take_several_pieces_are_as_of_one_moment() {
    let disk = SimDisk::new();
    let store = flushing_at(&disk, limits::INDEX_CHANGES_TRACKED_MAX / 2).open(DIR).unwrap();
    let mut batch = store.batch();
    for id in 0..20_000 {
        batch.insert(rollstore::NewRollout::new(id, id % 7)).unwrap();
    }
    batch.commit().unwrap();
    store.flush_index().unwrap();
    store.retire_created_before(3, Reason::Trained).unwrap();
    store.flush_index().unwrap();
    store.abandon();
    let disk = disk.kill();
    let store = open(&disk).unwrap();
    let expected: Vec<u64> = (0..20_000).filter(|id| id % 7 >= 3).collect();
    let mut found: Vec<u64> = store.ids().iter().map(|id| id.get()).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn options_that_bound_nothing_are_refused() {
    for entries in [0, limits::INDEX_CHANGES_TRACKED_MAX] {
        let refused = flushing_at(&SimDisk::new(), entries).open(DIR).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    options(Arc::new(SimDisk::new())).index_cache_bytes(1 << 20).open(DIR).unwrap();
}
