//! Log syncs that wait a little for company, so that batches of several threads gather behind one.
//!
//! Nothing depends on who comes: a sync that waited in vain begins all the same. Tests that need company count it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rollstore::disk::sim::OpKind;

use crate::hooked::{Hook, Operation};

/// Offset of a segment's first frame: what lies before is its header, which is synced alone.
const FRAMES_OFFSET: u64 = 4096;

/// How long a sync waits for other threads before it begins alone: long enough for a busy machine to run them all.
const PATIENCE: Duration = Duration::from_millis(200);

/// Lets each log sync begin once so many writes came, or nobody came for long enough.
#[derive(Debug)]
pub struct Grouping {
    wanted: u64,
    writes: AtomicU64,
    failed: AtomicBool,
}

impl Grouping {
    /// Waits for `writes` of them.
    #[must_use]
    pub fn of(writes: u64) -> Self {
        Self { wanted: writes, writes: AtomicU64::new(0), failed: AtomicBool::new(false) }
    }

    fn wait(&self) {
        // The header of a new segment is synced before any frame: there is nothing to wait for then.
        let alone = |writes| writes > 0 && writes < self.wanted && !self.failed.load(Ordering::Relaxed);
        let began = Instant::now();
        while alone(self.writes.load(Ordering::Relaxed)) && began.elapsed() < PATIENCE {
            thread::yield_now();
        }
        self.writes.store(0, Ordering::Relaxed);
    }
}

impl Hook for Grouping {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        if operation.is_of_log() && operation.kind == OpKind::SyncData {
            self.wait();
        }
        Ok(())
    }

    fn after(&self, operation: Operation<'_>, succeeded: bool) {
        if operation.is_of_log() && operation.kind == OpKind::Write && operation.offset >= FRAMES_OFFSET {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.failed.fetch_or(!succeeded, Ordering::Relaxed);
        }
    }
}
