//! The memory that a rollout takes is small, told truly, and given back.
//!
//! Method: many small rollouts in groups of eight on real files; the process's anonymous memory before and after, which the
//! system tells, against what the store says. In CI 200,000 rollouts; `cargo xtask soak` makes it a million. The test binary
//! runs itself for it, so that what its C library keeps of freed memory, for a next use that may not come, is little and known.

use std::fs;

use rollstore::{NewRollout, Reason, RolloutStore};
use rollstore_testkit::child;

/// What a rollout may take in memory.
const BYTES_MAX: u64 = 110;
/// Rollouts in a batch, which are those of one step.
const BATCH: u64 = 512;
/// The same, for counting by.
const STEP: usize = 512;

/// Freed bytes at the end of the heap that the C library gives back. By itself it raises this to twice the largest block that
/// was ever freed: some ten megabytes, whatever the store needs.
const FREED_BYTES_KEPT: &str = "131072";

/// How many rollouts, and bytes that the write-behind index, its cache and the segment that is written to may take beside them:
/// of a million they are within what each may take.
fn size() -> (u64, u64) {
    if std::env::var_os("ROLLSTORE_SOAK").is_some() { (1_000_000, 0) } else { (200_000, 32 << 20) }
}

/// Memory of this process that is no file's.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn insert(store: &RolloutStore, ids: std::ops::Range<u64>) {
    let mut batch = store.batch();
    for id in ids {
        batch.insert(NewRollout::new(id, id / BATCH).group(id / 8).old_logps(&[-0.5; 16][..], 0)).unwrap();
    }
    batch.commit().unwrap();
}

#[test]
fn a_rollout_takes_little_memory_which_is_told_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = child::command("child_fills_a_store", "filler", dir.path());
    let measured = measured.env("MALLOC_TRIM_THRESHOLD_", FREED_BYTES_KEPT).output().unwrap();
    print!("{}", String::from_utf8_lossy(&measured.stdout));
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
}

/// Not a test of its own: it returns at once where it is not asked for.
#[test]
fn child_fills_a_store() {
    let Some((_, dir)) = child::role() else { return };
    let store = RolloutStore::options().window(8).segment_bytes(16 << 20).open(dir.join("rollouts")).unwrap();
    insert(&store, 0..BATCH);
    let before = anonymous_bytes();
    let (count, spare) = size();
    for first in (BATCH..count).step_by(STEP) {
        insert(&store, first..(first + BATCH).min(count));
    }
    store.flush_index().unwrap();
    let (taken, told) = (anonymous_bytes() - before, store.stats().unwrap().index_bytes);
    println!("{count} rollouts: {} B each by the system, {} by the store", taken / count, told / count);
    assert!(told / count <= BYTES_MAX, "{} B a rollout", told / count);
    assert!(taken <= count * BYTES_MAX + spare, "{} B a rollout", taken / count);

    store.retire_created_before(count / BATCH, Reason::Trained).unwrap();
    // Until then the ids that are gone are kept for the index on disk.
    store.flush_index().unwrap();
    let left = store.stats().unwrap().index_bytes;
    assert!(left < told / 10, "{left} of {told} bytes are left with {} rollouts", store.len());
}
