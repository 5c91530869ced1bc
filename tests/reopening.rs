//! Opening a store after a crash costs what lies behind its index, not all of it; it may be killed and tried again; and
//! readers do not wait for it.
//!
//! Method: bytes of the log that an open reads, counted by the store; a simulated disk on which an open that makes the
//! index again is stopped at each of its operations.

use std::path::Path;
use std::sync::Arc;

use rollstore::RolloutStore;
use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, open_in_turn, options, rollout, rollout_of};

/// Bytes of a segment's header, which every open reads.
const SEGMENT_HEADER_BYTES: u64 = 4096;

/// A store of so many sealed segments that its index covers, and so many small rollouts in the one behind them, killed.
fn killed(segments: u64, tail: u64) -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open_in_turn(&disk).unwrap();
    for id in 0..segments {
        store.insert(rollout_of(id, 0, 0, 8_000)).unwrap();
    }
    for id in 0..tail {
        store.insert(rollout(10_000 + id, 0, 0)).unwrap();
    }
    let state = StoreState::of(&store).unwrap();
    store.abandon();
    (disk.kill(), state)
}

fn log_bytes_read(store: &RolloutStore) -> u64 {
    store.stats().unwrap().open_log_bytes_read
}

fn remove_index(disk: &SimDisk) {
    bytes::remove(disk, &Path::new(DIR).join("index.redb"));
}

#[test]
fn s08_after_a_crash_an_open_reads_the_unsealed_tail_and_no_more_than_the_headers_of_the_rest() {
    let beyond_headers = |segments, tail| {
        let (disk, state) = killed(segments, tail);
        let store = open_in_turn(&disk).unwrap();
        assert_same(&StoreState::of(&store).unwrap(), &state, format_args!("{segments} segments"));
        log_bytes_read(&store) - bytes::segments(&disk, DIR).len() as u64 * SEGMENT_HEADER_BYTES
    };
    let (small, large) = (beyond_headers(4, 40), beyond_headers(40, 40));
    assert!(large < small + 40 * SEGMENT_HEADER_BYTES, "{large} bytes of 40 segments, {small} of 4");
    assert!(large < 40 * 64_000 / 4, "{large} bytes: a small part of the log");
    let longer = beyond_headers(4, 80);
    assert!(longer > small, "{longer} bytes of a longer tail, {small} of a shorter");
}

#[test]
fn s08_an_open_that_makes_the_index_again_can_be_killed_and_the_next_one_is_no_slower() {
    let (disk, state) = killed(6, 10);
    remove_index(&disk);
    let rebuild = |disk: &SimDisk| -> rollstore::Result<u64> {
        let store = open_in_turn(disk)?;
        let read = log_bytes_read(&store);
        store.flush_index()?;
        store.close()?;
        Ok(read)
    };
    let whole = disk.kill();
    let first_read = rebuild(&whole).unwrap();
    let trace = whole.trace();
    for op in changing(&trace) {
        let stopped = disk.kill();
        stopped.fail_at(op.number, Fault::PowerCut);
        let _ = rebuild(&stopped);
        let styles = [ImageStyle::Everything, ImageStyle::TornSectors, ImageStyle::NothingUnsynced];
        let images = styles.map(|style| stopped.crash(CrashImage { seed: op.number, style }));
        for after in images.iter().chain([&stopped.kill()]) {
            let store = open_in_turn(after).unwrap_or_else(|error| panic!("stopped at {op:?}: {error}"));
            assert_same(&StoreState::of(&store).unwrap(), &state, format_args!("stopped at {op:?}"));
            let read = log_bytes_read(&store);
            // The tail may have been written again, to a segment of its own.
            let spare = 2 * SEGMENT_HEADER_BYTES;
            assert!(read <= first_read + spare, "stopped at {op:?}: {read} bytes, {first_read} the first time");
        }
    }
}

#[test]
fn s08_a_reader_is_not_blocked_by_an_open_that_is_under_way() {
    let (disk, state) = killed(3, 5);
    remove_index(&disk);
    // Whoever opens a store holds its lock from the first moment on.
    let lock = disk.lock(&Path::new(DIR).join("LOCK"), "an open under way").map_err(|_| "held").unwrap();
    let reader = options(Arc::new(disk.clone())).read_only(true).open(DIR).unwrap();
    assert_same(&StoreState::of(&reader).unwrap(), &state, "while the lock is held");
    drop(lock);
}
