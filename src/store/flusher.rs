//! The index on disk, written behind: a commit never waits for it.

use std::path::PathBuf;

use crate::error::Result;
use crate::format::names::INDEX;
use crate::index::{CACHE_BYTES_DEFAULT, Changes, DiskIndex, Identity, IndexMeta, Row};
use crate::planted::{Bug, planted};
use crate::store::core::Core;
use crate::store::waker::Waker;
use crate::sync::Mutex;

/// Who writes the index where it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushes {
    /// A thread, while others go on.
    Behind,
    /// The call that makes it due.
    InTurn,
}

/// The index file and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Flusher {
    identity: Identity,
    path: PathBuf,
    pub(crate) waker: Waker,
    flushes: Flushes,
    file: Mutex<Option<DiskIndex>>,
}

impl Flusher {
    /// A flusher for the index of `dir`; `file` is what recovery found of use.
    pub(crate) fn new(identity: Identity, dir: &std::path::Path, file: Option<DiskIndex>, flushes: Flushes) -> Self {
        Self { identity, path: dir.join(INDEX), waker: Waker::default(), flushes, file: Mutex::new(file) }
    }

    /// Asks for a flush. The caller may hold the writer, and none of the locks behind it.
    pub(crate) fn wake(&self, core: &Core) {
        match self.flushes {
            Flushes::InTurn => self.flush_or_warn(core),
            Flushes::Behind => self.waker.wake(),
        }
    }

    /// A flush whose failure is no one's error: the index is made anew at the next one.
    pub(crate) fn flush_or_warn(&self, core: &Core) {
        if let Err(error) = self.flush(core) {
            tracing::warn!(%error, "the index was not flushed; it is made anew at the next flush");
        }
    }

    /// Writes what changed since the last flush, in one transaction.
    pub(crate) fn flush(&self, core: &Core) -> Result<()> {
        core.check_lock()?;
        let mut file = self.file.lock();
        let is_new = file.is_none();
        let mut disk_index = match file.take() {
            Some(disk_index) => disk_index,
            None => DiskIndex::create(&*core.disk, &self.path, self.identity, CACHE_BYTES_DEFAULT)?,
        };
        let (changes, meta) = self.collect(core, is_new);
        // What readers see of a Buffered store may be ahead of the medium; what the index file says never is.
        if !(planted(Bug::IndexBeforeLog) || planted(Bug::IndexBeforeBufferedLog)) {
            core.group.wait_durable(core, meta.applied_lsn)?;
        }
        disk_index.flush(&changes, &meta)?;
        *file = Some(disk_index);
        Ok(())
    }

    /// Copies the rows to write under the lock, with the LSN that bounds them.
    fn collect(&self, core: &Core, all: bool) -> (Changes, IndexMeta) {
        let mut published = core.published.write();
        let mut changes = published.index.take_changes();
        if all {
            let row = |entry: crate::index::Entry| Row {
                entry,
                extra: published.index.extra(entry.id).copied().unwrap_or_default(),
            };
            changes = Changes { upserts: published.index.iter().map(row).collect(), removed: Vec::new() };
        }
        let covered = published
            .segments
            .keys()
            .copied()
            .filter(|id| Some(*id) != published.active || planted(Bug::CoverActive))
            .collect();
        (changes, IndexMeta { identity: self.identity, applied_lsn: published.state.lsn, covered })
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
