//! The index on disk, written behind: a commit never waits for it, and memory never grows with its failures.
//!
//! Always true:
//! - I1. What a flush commits is the rows and the state as of one LSN, which is durable in the log before.
//! - I2. While there is no file to write changes to, none are listed: it is made of all rows.
//! - I3. The index's lock is held for the ids of all rows, or for some rows, never for all rows.
//! - I4. A flush ends though commits come all the time: once it is late, or what came meanwhile is much, it does not rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::format::names::INDEX;
use crate::format::resume::Resume;
use crate::ids::RolloutId;
use crate::index::{DiskIndex, FileOptions, Identity, IndexMeta, Part};
use crate::limits;
use crate::planted::{Bug, planted};
use crate::store::core::{Core, Published};
use crate::store::waker::Waker;
use crate::sync::{Hurry, Mutex};

/// Who writes the index where it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushes {
    /// A thread, while others go on.
    Behind,
    /// The call that makes it due.
    InTurn,
}

/// When and with how much memory the index is written.
#[derive(Debug, Clone)]
pub(crate) struct FlushOptions {
    pub(crate) flushes: Flushes,
    /// Changed entries that make a flush due.
    pub(crate) changes: usize,
    pub(crate) file: FileOptions,
}

/// The index file and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Flusher {
    identity: Identity,
    path: PathBuf,
    pub(crate) waker: Waker,
    options: FlushOptions,
    file: Mutex<Option<DiskIndex>>,
    /// Flushes that failed in a row.
    failures: AtomicU32,
    /// Bytes of the log that readers see and the last flush did not.
    bytes_behind: AtomicU64,
}

impl Flusher {
    /// A flusher for the index of `dir`; `file` is what recovery found of use.
    pub(crate) fn new(
        identity: Identity,
        dir: &std::path::Path,
        file: Option<DiskIndex>,
        options: FlushOptions,
    ) -> Self {
        let (waker, failures, bytes_behind) = (Waker::default(), AtomicU32::new(0), AtomicU64::new(0));
        Self { identity, path: dir.join(INDEX), waker, options, file: Mutex::new(file), failures, bytes_behind }
    }

    /// Whether a flush is due at so many changes, with so many more bytes of the log: more of them after each failed one,
    /// so that it is not tried again at every commit.
    pub(crate) fn is_due(&self, changes: usize, bytes: u64) -> bool {
        self.bytes_behind.fetch_add(bytes, Ordering::Relaxed);
        let failures = self.failures.load(Ordering::Relaxed).min(limits::INDEX_BACKOFF_MAX);
        self.is_behind(changes, failures)
    }

    /// Whether so many changes, or the log that was written since the last flush, are more than a flush takes, doubled so
    /// many times.
    fn is_behind(&self, changes: usize, doubled: u32) -> bool {
        changes >= self.options.changes.saturating_mul(1 << doubled)
            || self.bytes_behind.load(Ordering::Relaxed) >= limits::INDEX_FLUSH_BYTES << doubled
    }

    /// Asks for a flush. The caller may hold the writer, and none of the locks behind it.
    pub(crate) fn wake(&self, core: &Core) {
        match self.options.flushes {
            Flushes::InTurn => {
                let _hurry = core.pace.hurry();
                Self::round(core);
            }
            Flushes::Behind => self.waker.wake(),
        }
    }

    /// A flush whose failure is no one's error: the index is made anew at a later one. Then the reserve, if it was used.
    pub(crate) fn round(core: &Core) {
        if let Err(error) = core.flusher.flush(core) {
            tracing::warn!(%error, "the index was not flushed; it is made anew at a later flush");
        }
        core.reserve.make(&*core.disk);
    }

    /// Writes what changed since the last flush, in one transaction; all rows, where the file is new.
    pub(crate) fn flush(&self, core: &Core) -> Result<()> {
        core.check_lock()?;
        let mut file = self.file.lock();
        match self.write(core, file.take()) {
            Ok(written) => {
                *file = Some(written);
                self.failures.store(0, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                core.published.write().index.forget_changes();
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    fn write(&self, core: &Core, file: Option<DiskIndex>) -> Result<DiskIndex> {
        let is_of_use = |_: &DiskIndex| !core.published.read().index.is_any_changed();
        let kept = file.filter(is_of_use);
        let is_new = kept.is_none();
        let mut file = match kept {
            Some(file) => file,
            None => DiskIndex::create(&*core.disk, &self.path, self.identity, &self.options.file)?,
        };
        let mut rows = Rows::of(core, self.identity, is_new)?;
        file.flush_parts(|| rows.next())?;
        Ok(file)
    }

    /// Lets the file go as it is.
    pub(crate) fn discard(&self) {
        *self.file.lock() = None;
    }

    /// Closes the file.
    pub(crate) fn close(&self) -> Result<()> {
        self.file.lock().take().map_or(Ok(()), DiskIndex::close)
    }
}

/// The rows of one flush, some at a time. Those that change after they were copied are copied again, and the last ones
/// together with the LSN that bounds them all.
struct Rows<'a> {
    core: &'a Core,
    identity: Identity,
    /// Ids whose rows are still to be copied.
    left: Vec<RolloutId>,
    /// How often the changes that came meanwhile were taken.
    rounds: u32,
    /// What keeps a flush from resting once it is late.
    hurry: Option<Hurry<'a>>,
}

impl<'a> Rows<'a> {
    fn of(core: &'a Core, identity: Identity, all: bool) -> Result<Self> {
        let mut rows = Self { core, identity, left: Vec::new(), rounds: 0, hurry: None };
        if all {
            rows.left = core.published.write().index.take_all();
            rows.left.sort_unstable();
        } else {
            rows.take_changed(&mut core.published.write())?;
        }
        Ok(rows)
    }

    fn take_changed(&mut self, published: &mut Published) -> Result<()> {
        let message = "entries change faster than the index file takes them; it is made anew later";
        self.left = published.index.take_changed().ok_or_else(|| Error::new(ErrorKind::Io, message))?;
        self.left.sort_unstable();
        Ok(())
    }

    /// The next rows; with the last ones, what the index then covers.
    fn next(&mut self) -> Result<Part> {
        /// So many times over, what changed meanwhile is written in pieces; then in one, or it might never end.
        const ROUNDS_MAX: u32 = 4;
        if self.rounds > 0 || self.core.flusher.is_behind(self.left.len(), 1) {
            self.hurry.get_or_insert_with(|| self.core.pace.hurry());
        }
        if !self.left.is_empty() {
            let rest = self.left.len().saturating_sub(limits::INDEX_ENTRIES_AT_A_TIME);
            let some = self.left.split_off(rest);
            return Ok(Part { changes: self.core.published.read().index.changes_of(&some), last: None });
        }
        let (changes, mut meta, state, log_end) = {
            let mut published = self.core.published.write();
            self.take_changed(&mut published)?;
            self.rounds += 1;
            if self.left.len() > limits::INDEX_ENTRIES_AT_A_TIME && self.rounds < ROUNDS_MAX {
                return Ok(Part::default());
            }
            self.core.flusher.bytes_behind.store(0, Ordering::Relaxed);
            let changes = published.index.changes_of(&std::mem::take(&mut self.left));
            (changes, self.meta(&published), Arc::clone(&published.state), published.log_end)
        };
        meta.resume = log_end.map(|end| Resume { end, state: state.to_snapshot() });
        // What readers see of a Buffered store may be ahead of the medium; what the index file says never is.
        if !(planted(Bug::IndexBeforeLog) || planted(Bug::IndexBeforeBufferedLog)) {
            self.core.group.wait_durable(self.core, meta.applied_lsn)?;
        }
        Ok(Part { changes, last: Some(meta) })
    }

    fn meta(&self, published: &Published) -> IndexMeta {
        let finished = |id: &_| Some(*id) != published.active || planted(Bug::CoverActive);
        let covered = published.segments.keys().copied().filter(finished).collect();
        let pieces = published.index.partials.pieces().copied();
        let pieces = pieces.filter(|_| !planted(Bug::IndexWithoutPieces)).collect();
        IndexMeta { identity: self.identity, applied_lsn: published.state.lsn, covered, pieces, resume: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::store::{NewRollout, RolloutStore};

    fn insert(store: &RolloutStore, ids: std::ops::Range<u64>) {
        let mut batch = store.batch();
        ids.for_each(|id| batch.insert(NewRollout::new(id, 0)).unwrap());
        batch.commit().unwrap();
    }

    #[test]
    fn i4_a_flush_rests_until_commits_bring_more_than_it_takes() {
        // The test flushes, and no one else.
        let options = RolloutStore::options().window(8).index_flush_changes(limits::INDEX_CHANGES_TRACKED_MAX / 2);
        let store = options.disk(Arc::new(SimDisk::new())).open("/rollouts").unwrap();
        let core = &store.core;
        let rows = || Rows::of(core, core.flusher.identity, false).unwrap();
        store.flush_index().unwrap();

        insert(&store, 0..10);
        let mut calm = rows();
        assert!(calm.next().unwrap().last.is_none() && calm.next().unwrap().last.is_some());
        assert!(calm.hurry.is_none());

        insert(&store, 10..20);
        let mut overtaken = rows();
        assert_eq!(overtaken.next().unwrap().changes.upserts.len(), 10);
        insert(&store, 20..20 + 2 * limits::INDEX_ENTRIES_AT_A_TIME as u64);
        assert!(overtaken.next().unwrap().last.is_none() && overtaken.hurry.is_none());
        assert!(overtaken.next().unwrap().last.is_none() && overtaken.hurry.is_some());

        insert(&store, 100_000..100_010);
        core.flusher.bytes_behind.store(2 * limits::INDEX_FLUSH_BYTES, Ordering::Relaxed);
        let mut late = rows();
        assert!(late.next().unwrap().last.is_none() && late.hurry.is_some());
    }
}
