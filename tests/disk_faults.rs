//! A disk that fails or fills up: the writer stops, nothing acknowledged is lost, writing resumes (D11, D12; F9, F10).
//!
//! Method: a simulated disk fails one operation at a time of a workload, then the store is reopened on the same page
//! cache, written to, and cut off from power.

use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{ErrorKind, RolloutStore, limits};
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, open, options, rollout};

/// The segment that a new store writes to. Faults are aimed at it by name: the index thread runs beside it.
const SEGMENT: &str = "seg-00000001.log";

/// Commits batches until one fails; returns how many were acknowledged, with the error.
fn write(store: &RolloutStore, first: u64, batches: u64) -> (u64, Option<rollstore::Error>) {
    for done in 0..batches {
        let mut batch = store.batch();
        let id = (first + done) * 8;
        for id in id..id + 8 {
            if let Err(error) = batch.insert(rollout(id, 0, 0)) {
                return (done, Some(error));
            }
        }
        batch.cursor(&(first + done + 1).to_le_bytes());
        if let Err(error) = batch.commit() {
            return (done, Some(error));
        }
    }
    (batches, None)
}

/// The number of whole batches in the store; panics over half a one or a hole.
fn batches(store: &RolloutStore, when: &str) -> u64 {
    let state = StoreState::of(store).unwrap_or_else(|error| panic!("{when}: {error}"));
    let count = state.len as u64 / 8;
    let ids: Vec<u64> = state.rollouts.keys().map(|id| id.get()).collect();
    assert_eq!(ids, (0..count * 8).collect::<Vec<_>>(), "{when}: whole batches without a hole");
    let cursor = state.cursor.map_or(0, |cursor| u64::from_le_bytes(cursor[..].try_into().unwrap()));
    assert_eq!(cursor, count, "{when}: the cursor of the last batch");
    count
}

#[test]
fn f09_a_sync_that_fails_once_poisons_the_writer_and_leaves_no_hole() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    assert_eq!(write(&store, 0, 3).0, 3);
    let syncs = disk.trace().iter().filter(|op| op.kind == OpKind::SyncData).count();
    // The write of the next batch passes, its sync fails, and from then on the disk says Ok again.
    disk.fail_next(OpKind::SyncData, SEGMENT, Fault::Eio);
    let (done, error) = write(&store, 3, 1);
    let error = error.expect("the sync failed");
    assert_eq!((done, error.kind()), (0, ErrorKind::Poisoned), "{error}");
    let failed: Vec<_> = disk.trace().into_iter().filter(|op| !op.ok && op.kind == OpKind::SyncData).collect();
    assert_eq!(failed.len(), 1, "it was the sync that failed");

    // Reads go on, writes are refused with the first cause, no sync is tried again.
    assert_eq!(batches(&store, "poisoned"), 3);
    let again = write(&store, 3, 1).1.expect("poisoned for good");
    assert_eq!(again.kind(), ErrorKind::Poisoned);
    assert!(again.to_string().contains("reopen"), "{again}");
    let tried = disk.trace().iter().filter(|op| op.kind == OpKind::SyncData && op.path.ends_with(SEGMENT)).count();
    assert!(tried <= syncs + 1, "no retry");
    drop(store);

    // The next process finds the failed batch in the page cache, and it is not on the disk.
    let disk = disk.kill();
    let store = open(&disk).unwrap();
    let found = batches(&store, "reopened on the same page cache");
    assert!(found == 3 || found == 4, "{found}: all or nothing");
    assert_eq!(write(&store, found, 2).0, 2, "writing goes on");
    store.abandon();
    for style in ImageStyle::ALL {
        let disk = disk.crash(CrashImage { seed: 7, style });
        let store = open(&disk).unwrap_or_else(|error| panic!("{style:?}: {error}"));
        assert_eq!(batches(&store, &format!("{style:?}")), found + 2, "what was served before the cut is kept");
    }
}

#[test]
fn d12_attempts_on_a_full_disk_leave_no_files_behind() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let names = || disk.list(DIR.as_ref()).unwrap();
    let before = names();
    disk.fail_from(disk.operation_count(), Fault::ShortWrite);
    for _ in 0..3 {
        assert!(store.advance_ref_version(0, None).is_err());
    }
    assert_eq!(names(), before);
    disk.heal();
    store.advance_ref_version(0, None).unwrap();
}

#[test]
fn d9_a_reservation_that_met_a_full_disk_is_made_again() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.advance_ref_version(0, None).unwrap();
    store.checkpoint("/saved").unwrap();
    // Versions are reserved 256 at a time, and the next one is the last of the first reservation.
    while store.ref_version() < 254 {
        store.advance_ref_version(0, None).unwrap();
    }
    disk.fail_from(disk.operation_count(), Fault::Enospc);
    let error = store.advance_ref_version(0, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(disk.trace().iter().any(|op| !op.ok && op.path.ends_with("MANIFEST.tmp")), "the reservation failed");
    disk.heal();
    for _ in 0..20 {
        store.advance_ref_version(0, None).unwrap();
    }
    let issued = store.ref_version();
    store.abandon();
    RolloutStore::options().disk(Arc::new(disk.clone())).restore("/saved", DIR).unwrap();
    let next = open(&disk).unwrap().advance_ref_version(0, None).unwrap();
    assert!(next > issued, "version {next} was issued twice, the last one was {issued}");
}

/// Fails each disk-changing operation of a workload in one way; then reopens, and writes on, twice.
fn sweep(fault: Fault, lasting: bool) {
    let whole = SimDisk::new();
    let store = open(&whole).unwrap();
    assert_eq!(write(&store, 0, 40).0, 40);
    store.close().unwrap();
    let trace = whole.trace();
    let mut failures = 0;
    for op in changing(&trace).step_by(2) {
        let when = format!("{fault:?} at {op:?}");
        let disk = SimDisk::new();
        if lasting {
            disk.fail_from(op.number, fault);
        } else {
            disk.fail_at(op.number, fault);
        }
        let mut acknowledged = 0;
        if let Ok(store) = open(&disk) {
            let (done, error) = write(&store, 0, 40);
            acknowledged = done;
            if let Some(error) = error {
                failures += 1;
                let kinds = [ErrorKind::Full, ErrorKind::Io, ErrorKind::Poisoned];
                assert!(kinds.contains(&error.kind()), "{when}: {error}");
                assert_eq!(batches(&store, &format!("{when}, still open")), done, "reads go on");
            }
        }
        // Space returns, the disk answers again: a new process goes on.
        disk.heal();
        let mut disk = disk.kill();
        for round in 0..2 {
            let store = open(&disk).unwrap_or_else(|error| panic!("{when}, round {round}: {error}"));
            let found = batches(&store, &when);
            assert!(found == acknowledged || found == acknowledged + 1, "{when}: {found} of {acknowledged}");
            let (done, error) = write(&store, found, 3);
            assert_eq!(done, 3, "{when}, round {round}: {error:?}");
            acknowledged = found + 3;
            store.abandon();
            disk = disk.crash(CrashImage { seed: op.number, style: ImageStyle::ALL[(round * 3) % 7] });
        }
        let store = open(&disk).unwrap_or_else(|error| panic!("{when}, at last: {error}"));
        assert_eq!(batches(&store, &when), acknowledged, "later batches survive: {when}");
    }
    assert!(failures > 10, "{failures} commits failed by {fault:?}");
}

#[test]
fn f10_eio_once() {
    sweep(Fault::Eio, false);
}

#[test]
fn f10_a_short_write_once() {
    let whole = SimDisk::new();
    let store = open(&whole).unwrap();
    write(&store, 0, 3);
    whole.fail_next(OpKind::Write, SEGMENT, Fault::ShortWrite);
    let (done, error) = write(&store, 3, 1);
    assert_eq!((done, error.expect("half a write").kind()), (0, ErrorKind::Poisoned));
    drop(store);
    let disk = whole.kill();
    let store = open(&disk).unwrap();
    assert_eq!(batches(&store, "after a short write"), 3);
    assert_eq!(write(&store, 3, 3).0, 3);
    store.abandon();
    let store = open(&disk.crash(CrashImage { seed: 1, style: ImageStyle::NothingUnsynced })).unwrap();
    assert_eq!(batches(&store, "after the power cut"), 6);
}

#[test]
fn f10_no_space_once() {
    sweep(Fault::Enospc, false);
}

#[test]
fn f10_no_space_until_it_returns() {
    sweep(Fault::Enospc, true);
}

#[test]
fn d12_a_full_disk_fails_the_batch_and_writing_resumes_when_space_returns() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(200 << 10));
    let store = open(&disk).unwrap();
    let (done, error) = write(&store, 0, 1000);
    let error = error.expect("it is full");
    assert!(done > 5, "{done}");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let state = StoreState::of(&store).unwrap();
    assert_eq!(batches(&store, "full"), done);

    disk.set_capacity(None);
    // Without a reopen where the writer was not poisoned; with one where it was.
    let is_stopped = store.set_cursor(&done.to_le_bytes()).is_err_and(|error| error.kind() == ErrorKind::Poisoned);
    let store = if is_stopped {
        drop(store);
        open(&disk).unwrap()
    } else {
        store
    };
    assert_same(&StoreState::of(&store).unwrap(), &state, "space returned");
    assert_eq!(write(&store, done, 5).0, 5);
    store.close().unwrap();
    assert_eq!(batches(&open(&disk).unwrap(), "closed and opened again"), done + 5);
    let names = rollstore::disk::Disk::list(&disk, DIR.as_ref()).unwrap();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}: no half object is left");
}

#[test]
fn d09_versions_that_a_full_disk_kept_from_being_reserved_are_not_given_out() {
    let begin = || {
        let disk = SimDisk::new();
        let store = options(Arc::new(disk.clone())).segment_bytes(limits::SEGMENT_BYTES_DEFAULT).open(DIR).unwrap();
        store.checkpoint("/saved").unwrap();
        store.advance_ref_version(1, None).unwrap();
        (disk, store)
    };
    // The advance that reserves is the one that writes a manifest.
    let (disk, store) = begin();
    let names = || {
        let names = rollstore::disk::Disk::list(&disk, DIR.as_ref()).unwrap();
        names.into_iter().filter(|name| name.to_string_lossy().starts_with("MANIFEST")).max()
    };
    let (before, mut advances) = (names(), 0);
    while names() == before {
        store.advance_ref_version(1, None).unwrap();
        advances += 1;
    }
    store.abandon();

    let (disk, store) = begin();
    for _ in 1..advances {
        store.advance_ref_version(1, None).unwrap();
    }
    disk.set_capacity(Some(0));
    assert_eq!(store.advance_ref_version(1, None).unwrap_err().kind(), ErrorKind::Full);
    disk.set_capacity(None);
    for _ in 0..8 {
        store.advance_ref_version(1, None).unwrap();
    }
    let abandoned = store.ref_version();
    store.abandon();
    options(Arc::new(disk.clone())).restore("/saved", DIR).unwrap();
    let next = open(&disk).unwrap().advance_ref_version(1, None).unwrap();
    assert!(next > abandoned, "version {next} of at most {abandoned} is used twice");
}
