//! The index on disk, written behind: a commit never waits for it.

use std::path::PathBuf;

use parking_lot::Mutex;

use crate::error::Result;
use crate::format::names::INDEX;
use crate::index::{CACHE_BYTES_DEFAULT, Changes, DiskIndex, Identity, IndexMeta, Row};
use crate::store::core::Core;
use crate::store::waker::Waker;

/// The index file and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Flusher {
    identity: Identity,
    path: PathBuf,
    pub(crate) waker: Waker,
    file: Mutex<Option<DiskIndex>>,
}

impl Flusher {
    /// A flusher for the index of `dir`; `file` is what recovery found of use.
    pub(crate) fn new(identity: Identity, dir: &std::path::Path, file: Option<DiskIndex>) -> Self {
        Self { identity, path: dir.join(INDEX), waker: Waker::default(), file: Mutex::new(file) }
    }

    /// One round of the thread that flushes when woken.
    pub(crate) fn round(core: &Core) {
        if let Err(error) = core.flusher.flush(core) {
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
        disk_index.flush(&changes, &meta)?;
        *file = Some(disk_index);
        Ok(())
    }

    /// Copies the rows to write under the lock, with the LSN that bounds them. Everything published is durable.
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
        let covered = published.segments.keys().copied().filter(|id| Some(*id) != published.active).collect();
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
