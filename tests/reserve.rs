//! A disk that is full to the last byte: the store still closes, opens, retires and compacts, and then writes on (D12).
//!
//! Method: a simulated disk of so many bytes as the files take, and then of every size between what they take before a call
//! and behind it. The store keeps a file in reserve.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::disk::{Access, Disk};
use rollstore::{CompactBudget, ErrorKind, Reason, RolloutStore};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, options, rollout, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

const RESERVE_BYTES: u64 = 96 << 10;

fn open(disk: &SimDisk) -> Result<RolloutStore> {
    options(Arc::new(disk.clone())).flush_in_turn().reserve_bytes(RESERVE_BYTES).open(DIR)
}

fn used_bytes(disk: &SimDisk) -> u64 {
    let len = |name: &std::ffi::OsString| {
        let file = disk.open(&std::path::Path::new(DIR).join(name), Access::Read).unwrap();
        file.len().unwrap()
    };
    disk.list(DIR.as_ref()).unwrap().iter().map(len).sum()
}

fn has_reserve(disk: &SimDisk) -> bool {
    disk.list(DIR.as_ref()).unwrap().iter().any(|name| name == "RESERVE")
}

/// A store of several segments, the oldest of which is half dead, with its reserve.
fn begin(disk: &SimDisk) -> RolloutStore {
    let store = open(disk).unwrap();
    for id in 0..10 {
        store.insert(rollout_of(id, 0, 0, 3_000)).unwrap();
    }
    store.retire(&ids([0]), Reason::Trained).unwrap();
    assert!(has_reserve(disk), "it was written beside the first segments");
    store
}

#[test]
fn d12_a_store_on_a_full_disk_closes_opens_retires_and_compacts() {
    let disk = SimDisk::new();
    let store = begin(&disk);
    disk.set_capacity(Some(used_bytes(&disk)));
    let full = store.insert(rollout_of(20, 0, 0, 30_000)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    let store = open(&disk).unwrap();
    assert_same(&StoreState::of(&store).unwrap(), &state, "closed and opened on a full disk");
    store.retire(&ids(1..8), Reason::Trained).unwrap();
    let compacted = store.compact(CompactBudget::all()).unwrap();
    assert!(compacted.freed_bytes > 100 << 10, "{compacted:?}");
    assert!(has_reserve(&disk), "for the next full disk");
    for id in 20..23 {
        store.insert(rollout_of(id, 0, 0, 3_000)).unwrap();
    }
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn d12_a_store_of_one_rollout_has_its_reserve_too() {
    let disk = SimDisk::new();
    let store = options(Arc::new(disk.clone())).reserve_bytes(RESERVE_BYTES).open(DIR).unwrap();
    store.insert(rollout_of(1, 0, 0, 3_000)).unwrap();
    disk.set_capacity(Some(used_bytes(&disk)));
    let full = store.insert(rollout_of(2, 0, 0, 30_000)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    drop(store);
    let store = open(&disk).unwrap();
    store.retire(&ids([1]), Reason::Trained).unwrap();
    store.compact(CompactBudget::all()).unwrap();
    store.close().unwrap();
}

#[test]
fn the_reserve_is_made_anew_once_there_is_space() {
    let disk = SimDisk::new();
    let store = begin(&disk);
    disk.set_capacity(Some(used_bytes(&disk)));
    store.close().unwrap();
    assert!(!has_reserve(&disk), "the close took it");
    disk.set_capacity(Some(used_bytes(&disk) + RESERVE_BYTES));
    let store = open(&disk).unwrap();
    store.insert(rollout(20, 0, 0)).unwrap();
    assert!(!has_reserve(&disk), "there is no space for it beside a new segment, and nothing fails for that");
    disk.set_capacity(None);
    for id in 21..24 {
        store.insert(rollout_of(id, 0, 0, 7_000)).unwrap();
    }
    assert!(has_reserve(&disk));
}

#[test]
fn an_insert_never_takes_the_reserve() {
    let disk = SimDisk::new();
    let store = begin(&disk);
    disk.set_capacity(Some(used_bytes(&disk)));
    for id in 20..25 {
        let full = store.insert(rollout_of(id, 0, 0, 30_000)).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Full, "{full}: there is no space for a segment, and nothing stopped");
    }
    assert!(has_reserve(&disk));
}

/// Does `act` on disks of every size between what it finds and what it leaves, and then all that frees space.
fn fill_up(act: fn(&RolloutStore) -> Result) -> u64 {
    const STEP_BYTES: u64 = 1 << 10;
    let disk = SimDisk::new();
    let store = begin(&disk);
    let before = StoreState::of(&store).unwrap();
    let least = used_bytes(&disk);
    act(&store).unwrap();
    let after = StoreState::of(&store).unwrap();
    let most = used_bytes(&disk).max(least) + RESERVE_BYTES;
    drop(store);
    let mut failed = 0;
    let mut capacity = least;
    while capacity <= most {
        let when = format!("a disk of {capacity} bytes, {} above what is there", capacity - least);
        let fail = |error: rollstore::Error| -> RolloutStore { panic!("{when}: {error}") };
        let disk = SimDisk::new();
        let store = begin(&disk);
        disk.set_capacity(Some(capacity));
        let done = act(&store);
        if let Err(error) = &done {
            failed += 1;
            assert_eq!(error.kind(), ErrorKind::Full, "{when}: {error}");
        }
        let shown = StoreState::of(&store).unwrap();
        assert_same(&shown, if done.is_ok() { &after } else { &before }, format_args!("{when}, still open"));
        if let Err(error) = store.close() {
            assert!([ErrorKind::Full, ErrorKind::Poisoned].contains(&error.kind()), "{when}: closing: {error}");
            assert!(done.is_err(), "{when}: a sound store does not close: {error}");
        }
        let store = open(&disk).unwrap_or_else(fail);
        let found = StoreState::of(&store).unwrap();
        assert!(found == after || (found == before && done.is_err()), "{when}: {}", found.diff(&before));
        store.retire_created_before(1, Reason::Evicted).unwrap_or_else(|error| panic!("{when}: retiring: {error}"));
        store.compact(CompactBudget::all()).unwrap_or_else(|error| panic!("{when}: compacting: {error}"));
        store.insert(rollout(50, 0, 0)).unwrap_or_else(|error| panic!("{when}: writing on: {error}"));
        store.close().unwrap_or_else(|error| panic!("{when}: closing again: {error}"));
        capacity += STEP_BYTES;
    }
    failed
}

#[test]
fn d12_full_at_any_byte_of_an_append() {
    assert!(fill_up(|store| store.insert(rollout_of(20, 0, 0, 1_000)).map(drop)) > 0);
}

#[test]
fn d12_full_at_any_byte_of_a_seal() {
    assert!(fill_up(|store| store.insert(rollout_of(20, 0, 0, 7_000)).map(drop)) > 10);
}

#[test]
fn d12_full_at_any_byte_of_a_retirement() {
    fill_up(|store| store.retire(&ids(1..4), Reason::Trained).map(drop));
}

#[test]
fn d12_full_at_any_byte_of_a_compaction() {
    fill_up(|store| store.compact(CompactBudget::all()).map(drop));
}

#[test]
fn d12_full_at_any_byte_of_a_checkpoint() {
    fill_up(|store| store.checkpoint("/saved").map(drop));
}
