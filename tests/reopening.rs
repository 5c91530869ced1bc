//! Opening a store after a crash costs what lies behind its index, not all of it; it may be killed and tried again; and
//! readers do not wait for it.
//!
//! Method: bytes of the log that an open reads, counted by the store; a simulated disk on which an open that makes the
//! index again is stopped at each of its operations.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore::{NewRollout, RolloutStore};
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

/// A store of so many rollouts on real files, and 512 behind its index, let go as by a kill.
fn let_go(count: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).segment_bytes(16 << 20).open(dir.path().join("rollouts")).unwrap();
    let insert = |ids: std::ops::Range<u64>| {
        let mut batch = store.batch();
        ids.for_each(|id| batch.insert(NewRollout::new(id, 0).old_logps(&[-0.5; 64][..], 0)).unwrap());
        batch.commit().unwrap();
    };
    (0..count).step_by(1_000).for_each(|first| insert(first..first + 1_000));
    store.checkpoint(dir.path().join("saved")).unwrap();
    store.flush_index().unwrap();
    insert(count..count + 512);
    store.abandon();
    dir
}

#[test]
fn s08_the_log_that_an_open_reads_grows_with_the_tail_and_not_with_the_rollouts() {
    let is_long = std::env::var_os("ROLLSTORE_SOAK").is_some();
    let counts: &[u64] = if is_long { &[10_000, 100_000, 1_000_000] } else { &[5_000, 50_000] };
    let mut reads = Vec::new();
    for count in counts {
        let dir = let_go(*count);
        let began = std::time::Instant::now();
        let store = RolloutStore::options().open(dir.path().join("rollouts")).unwrap();
        let (took, stats) = (began.elapsed(), store.stats().unwrap());
        assert_eq!(stats.live, count + 512);
        println!("{count} rollouts: opened in {took:.0?}, {} bytes of the log read", stats.open_log_bytes_read);
        // A header is read twice where there is a tail to settle: before and behind it.
        reads.push(stats.open_log_bytes_read - stats.segments * 2 * SEGMENT_HEADER_BYTES);
    }
    let (least, most) = (reads.iter().min().unwrap(), reads.iter().max().unwrap());
    assert!(most - least <= least / 16, "bytes read beside headers: {reads:?}");
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
