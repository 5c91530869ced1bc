//! The index on disk, written behind: a commit never waits for it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::format::names::INDEX;
use crate::index::{CACHE_BYTES_DEFAULT, Changes, DiskIndex, Identity, IndexMeta, Row};
use crate::planted::{Bug, planted};
use crate::store::core::Core;
use crate::sync::{Condvar, Mutex, thread};

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
    flushes: Flushes,
    signal: Mutex<Signal>,
    changed: Condvar,
    file: Mutex<Option<DiskIndex>>,
}

#[derive(Debug, Default)]
struct Signal {
    wanted: bool,
    stopped: bool,
}

impl Flusher {
    /// A flusher for the index of `dir`; `file` is what recovery found of use.
    pub(crate) fn new(identity: Identity, dir: &std::path::Path, file: Option<DiskIndex>, flushes: Flushes) -> Self {
        let (signal, changed) = (Mutex::default(), Condvar::new());
        Self { identity, path: dir.join(INDEX), flushes, signal, changed, file: Mutex::new(file) }
    }

    /// Starts the thread that flushes when woken.
    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<thread::JoinHandle<()>> {
        let core = Arc::clone(core);
        thread::Builder::new().name("rollstore-index".to_owned()).spawn(move || {
            while core.flusher.wait() {
                core.flusher.flush_or_warn(&core);
            }
        })
    }

    /// Asks for a flush. The caller may hold the writer, and none of the locks behind it.
    pub(crate) fn wake(&self, core: &Core) {
        if self.flushes == Flushes::InTurn {
            return self.flush_or_warn(core);
        }
        self.signal.lock().wanted = true;
        self.changed.notify_one();
    }

    /// Ends the thread after the flush under way.
    pub(crate) fn stop(&self) {
        self.signal.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Waits until a flush is wanted; false once stopped.
    fn wait(&self) -> bool {
        let mut signal = self.signal.lock();
        while !signal.wanted && !signal.stopped {
            self.changed.wait(&mut signal);
        }
        signal.wanted = false;
        !signal.stopped
    }

    fn flush_or_warn(&self, core: &Core) {
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
