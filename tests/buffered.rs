//! A Buffered commit returns after its write and is durable later: by a thread, at the barrier, or before too much waits.
//!
//! Method: stores on a simulated disk whose operations are counted. Where the test itself says when to sync, the delay is
//! longer than it runs; where the background thread is looked at, the test goes on once the store says that it was there.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, Op, OpKind, SimDisk};
use rollstore::{Committed, Durability, ErrorKind, Lsn, Options, RolloutStore};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, open, options, rollout, rollout_of};

/// The segment that a new store writes to.
const SEGMENT: &str = "seg-00000001.log";

fn buffered(disk: &SimDisk, max_delay: Duration) -> Options {
    let options = options(Arc::new(disk.clone())).flush_in_turn().segment_bytes(1 << 20);
    options.durability(Durability::Buffered { max_delay })
}

/// A store that syncs only where it is told to or must.
fn patient(disk: &SimDisk) -> RolloutStore {
    buffered(disk, Duration::MAX).open(DIR).unwrap()
}

fn commit(store: &RolloutStore, id: u64) -> rollstore::Result<Committed> {
    let mut batch = store.batch();
    batch.insert(rollout(id, 0, 0))?;
    batch.commit()
}

fn syncs(disk: &SimDisk) -> usize {
    let is_sync = |op: &&Op| op.kind == OpKind::SyncData && op.path.ends_with(SEGMENT);
    disk.trace().iter().filter(is_sync).count()
}

fn durable_ids(disk: &SimDisk) -> Vec<u64> {
    let image = disk.as_if_crashed(CrashImage { seed: 0, style: ImageStyle::NothingUnsynced });
    let store = open(&image).unwrap();
    store.ids().iter().map(|id| id.get()).collect()
}

#[test]
fn d1_a_killed_process_loses_no_buffered_commit_and_a_power_cut_the_newest_alone() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    (0..4).for_each(|id| drop(commit(&store, id).unwrap()));
    store.sync().unwrap();
    (4..9).for_each(|id| drop(commit(&store, id).unwrap()));
    assert_eq!(store.len(), 9, "a commit is seen when it returns");
    let written = StoreState::of(&store).unwrap();
    assert_eq!(durable_ids(&disk), [0, 1, 2, 3]);
    store.abandon();
    let reopened = open(&disk.kill()).unwrap();
    assert_same(&StoreState::of(&reopened).unwrap(), &written, "killed");
}

#[test]
fn commits_share_the_syncs_that_a_barrier_asks_for() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    commit(&store, 0).unwrap();
    let before = syncs(&disk);
    (1..100).for_each(|id| drop(commit(&store, id).unwrap()));
    assert_eq!(syncs(&disk), before, "no commit syncs");
    store.sync().unwrap();
    assert_eq!(syncs(&disk), before + 1);
    store.sync().unwrap();
    assert_eq!(syncs(&disk), before + 1, "there is nothing left to sync");
}

#[test]
fn sync_returns_once_everything_before_it_is_durable() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    for round in 0..5 {
        let committed = commit(&store, round).unwrap();
        assert!(!committed.is_durable(&store));
        store.sync().unwrap();
        assert!(committed.is_durable(&store));
        assert_eq!(store.durable_lsn(), committed.lsn);
        assert_eq!(durable_ids(&disk), (0..=round).collect::<Vec<_>>());
    }
}

#[test]
fn one_commit_can_be_waited_for_and_one_that_never_was_is_refused() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    let committed = commit(&store, 0).unwrap();
    store.wait_durable(committed.lsn).unwrap();
    assert!(committed.is_durable(&store));
    let refused = store.wait_durable(Lsn::new(committed.lsn.get() + 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

#[test]
fn a_thread_makes_commits_durable_without_being_asked() {
    let disk = SimDisk::new();
    let store = buffered(&disk, Duration::from_millis(1)).open(DIR).unwrap();
    for id in 0..3 {
        let committed = commit(&store, id).unwrap();
        while !committed.is_durable(&store) {
            thread::yield_now();
        }
        assert_eq!(durable_ids(&disk), (0..=id).collect::<Vec<_>>());
    }
}

#[test]
fn commits_wait_where_too_much_is_written_and_not_durable() {
    const UNSYNCED_BYTES_MAX: u64 = 40 << 10;
    let disk = SimDisk::new();
    let store = buffered(&disk, Duration::MAX).unsynced_bytes_max(UNSYNCED_BYTES_MAX).open(DIR).unwrap();
    let mut batch_bytes = 0;
    for id in 0..40 {
        store.insert(rollout_of(id, 0, 0, 500)).unwrap();
        let trace = disk.trace();
        let log: Vec<&Op> = trace.iter().filter(|op| op.path.ends_with(SEGMENT)).collect();
        let unsynced =
            log.iter().rev().take_while(|op| op.kind != OpKind::SyncData).filter(|op| op.kind == OpKind::Write);
        let unsynced: u64 = unsynced.map(|op| op.len).sum();
        batch_bytes = batch_bytes.max(log.last().unwrap().len);
        assert!(unsynced <= UNSYNCED_BYTES_MAX + batch_bytes, "{unsynced} bytes behind commit {id}");
    }
    let syncs = syncs(&disk);
    assert!((2..=8).contains(&syncs), "{syncs} syncs for 40 commits of {batch_bytes} bytes");
}

#[test]
fn d11_a_failed_sync_before_a_commit_refuses_it_unwritten() {
    let disk = SimDisk::new();
    let store = buffered(&disk, Duration::MAX).unsynced_bytes_max(0).open(DIR).unwrap();
    commit(&store, 0).unwrap();
    disk.fail_next(OpKind::SyncData, SEGMENT, Fault::Eio);
    let writes = |disk: &SimDisk| disk.trace().iter().filter(|op| op.kind == OpKind::Write).count();
    let before = writes(&disk);
    let refused = commit(&store, 1).unwrap_err();
    assert_eq!((refused.kind(), writes(&disk)), (ErrorKind::Poisoned, before), "{refused}");
    assert_eq!(store.len(), 1);
}

#[test]
fn d11_a_failed_background_sync_stops_the_writer_and_every_later_call_tells_the_cause() {
    let disk = SimDisk::new();
    let store = buffered(&disk, Duration::from_millis(1)).open(DIR).unwrap();
    commit(&store, 0).unwrap();
    store.sync().unwrap();
    disk.fail_next(OpKind::SyncData, SEGMENT, Fault::Eio);
    let mut id = 1;
    let error = loop {
        match commit(&store, id) {
            Ok(_) => id += 1,
            Err(error) => break error,
        }
        thread::yield_now();
    };
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert!(error.to_string().contains("sync the log"), "{error}");
    assert_eq!(store.sync().unwrap_err().to_string(), error.to_string());
    assert_eq!(store.wait_durable(Lsn::new(2)).unwrap_err().to_string(), error.to_string());
    assert_eq!(store.durable_lsn(), Lsn::new(1));
    assert_eq!(store.len() as u64, id, "reads go on, and show what was acknowledged");
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Poisoned);
    // The bytes are lost on the medium; the page cache, which the next process reads, still has them. The commit that failed
    // may have been written before the sync failed.
    let found = open(&disk.kill()).unwrap().len() as u64;
    assert!(found == id || found == id + 1, "{found} instead of {id}");
}

#[test]
fn d3_the_index_on_disk_is_never_ahead_of_a_buffered_log() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    (0..3).for_each(|id| drop(commit(&store, id).unwrap()));
    store.flush_index().unwrap();
    (3..6).for_each(|id| drop(commit(&store, id).unwrap()));
    store.abandon();
    let disk = disk.crash(CrashImage { seed: 0, style: ImageStyle::NothingUnsynced });
    let reopened = open(&disk).unwrap();
    let ids: Vec<u64> = reopened.ids().iter().map(|id| id.get()).collect();
    assert_eq!(ids, [0, 1, 2], "what the index tells of is in the log");
    assert!(reopened.verify().unwrap().is_sound());
}

#[test]
fn d9_numbers_of_commits_that_the_power_took_are_not_given_again() {
    let disk = SimDisk::new();
    let store = patient(&disk);
    store.advance_ref_version(1, None).unwrap();
    // Ids are handed out once they are reserved on the medium, and all before them with that.
    let ids: Vec<_> = store.allocate_ids(3).unwrap().collect();
    assert_eq!(store.durable_lsn(), store.stats().unwrap().last_lsn);
    let lost = (store.insert(rollout(1, 1, 1)).unwrap(), store.advance_ref_version(2, None).unwrap());
    store.abandon();
    let disk = disk.crash(CrashImage { seed: 0, style: ImageStyle::NothingUnsynced });
    let store = open(&disk).unwrap();
    let again = (store.insert(rollout(1, 1, 1)).unwrap(), store.advance_ref_version(2, None).unwrap());
    assert!(again.0 > lost.0 && again.1 > lost.1, "{again:?} after {lost:?}");
    assert!(store.allocate_ids(1).unwrap().next() > ids.last().copied());
}
