//! What the benchmarks share: a directory on the disk that holds the target, contents that do not compress, and the raw
//! file that stores are held against.
//!
//! In each group of benchmarks one function, whose name begins with "raw: ", is what the others are held against, and
//! theirs begin with "rollstore": `cargo xtask bench` compares the ratios with the committed ones.

#![allow(dead_code, reason = "each benchmark is a program of its own and uses a part")]

use std::io::IoSlice;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use rollstore::disk::os::OsDisk;
use rollstore::disk::{Disk, DiskFile};
use rollstore::{NewRollout, RolloutStore};
use tempfile::TempDir;

/// Values of a full row: 4 KiB of f32, a completion of 1,024 tokens.
pub(crate) const ROW_VALUES: usize = 1024;

/// Rollouts of one batch: what a trainer inserts in a step.
pub(crate) const BATCH_ROLLOUTS: usize = 512;

/// A directory beside the build's own files: on a disk, where the system's temporary directory may be memory.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

/// The same numbers in every run.
pub(crate) fn random() -> StdRng {
    StdRng::seed_from_u64(7)
}

/// Rows of log-probs whose bits are random.
pub(crate) fn rows(count: usize, random: &mut impl Rng) -> Vec<Vec<f32>> {
    let row = |random: &mut _| (0..ROW_VALUES).map(|_| -8.0 * RngExt::random::<f32>(random)).collect();
    (0..count).map(|_| row(random)).collect()
}

/// A new store in `dir`, as a trainer would open it: durable commits, defaults, window 8.
pub(crate) fn store(dir: &TempDir) -> RolloutStore {
    RolloutStore::options().window(8).open(dir.path().join("store")).expect("the store opens")
}

/// Inserts rollouts with these ids, a batch of 512 a commit; their old logps are the rows in turn.
pub(crate) fn insert_rows(store: &RolloutStore, ids: std::ops::Range<u64>, rows: &[Vec<f32>]) {
    let version = store.ref_version();
    let mut rollouts = ids.zip(rows.iter().cycle()).peekable();
    while rollouts.peek().is_some() {
        let mut batch = store.batch();
        for (id, row) in rollouts.by_ref().take(BATCH_ROLLOUTS) {
            batch.insert(NewRollout::new(id, 0).old_logps(row, version)).expect("a sound rollout");
        }
        batch.commit().expect("a commit");
    }
}

/// Inserts rollouts of four tokens with these ids, under the current ref version, 10,000 a commit.
pub(crate) fn insert_tiny(store: &RolloutStore, ids: std::ops::Range<u64>) {
    let (logps, version) = ([-0.5; 4], store.ref_version());
    let mut ids = ids.peekable();
    while ids.peek().is_some() {
        let mut batch = store.batch();
        for id in ids.by_ref().take(10_000) {
            batch.insert(NewRollout::new(id, 0).old_logps(&logps[..], version)).expect("a sound rollout");
        }
        batch.commit().expect("a commit");
    }
}

/// The raw baseline of a commit: the same bytes appended to a file, and one sync of its data.
#[derive(Debug)]
pub(crate) struct RawLog {
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl RawLog {
    pub(crate) fn create(dir: &TempDir) -> Self {
        let file = OsDisk.create(&dir.path().join("raw")).expect("a new file");
        Self { file, end: 0 }
    }

    /// Appends all the slices by one vectored write, and syncs.
    pub(crate) fn append<'a>(&mut self, bytes: impl Iterator<Item = &'a [u8]>) {
        let mut slices: Vec<IoSlice<'_>> = bytes.map(IoSlice::new).collect();
        let len: usize = slices.iter().map(|slice| slice.len()).sum();
        self.file.write_all_vectored_at(&mut slices, self.end).expect("a write");
        self.file.sync_data().expect("a sync");
        self.end += len as u64;
    }
}

/// The sum of a row, in sixteen lanes: as fast as memory gives it.
pub(crate) fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    for chunk in values.chunks_exact(lanes.len()) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += value);
    }
    lanes.iter().sum()
}
