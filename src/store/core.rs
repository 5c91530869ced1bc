//! What the handles of one open store share, and the lock order: the compactor's, checkpointing, writer, group, published.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checkpointed::Note;
use crate::format::resume::BatchEnd;
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::index::MemoryIndex;
use crate::log::event::Incarnation;
use crate::log::segment::{ReadMode, Segment};
use crate::planted::{Bug, planted};
use crate::rules::Rules;
use crate::state::State;
use crate::store::compact::Compactor;
use crate::store::flusher::Flusher;
use crate::store::group::Group;
use crate::store::owner::Owner;
use crate::store::quota::Quota;
use crate::store::reserve::Reserve;
use crate::store::sweep::aside::Asides;
use crate::store::syncer::Syncer;
use crate::store::usage::Usage;
use crate::store::weights::WeightGate;
use crate::store::writer::Writer;
use crate::sync::{Mutex, MutexGuard, Pace, RwLock};

/// An open store.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) rules: Rules,
    pub(crate) read_mode: ReadMode,
    pub(crate) segment_bytes: u64,
    pub(crate) read_only: bool,
    /// A random number of this opening: plans of another one are not taken.
    pub(crate) instance: u64,
    /// The process that opened the store; a forked child is another.
    pub(crate) pid: u32,
    pub(crate) published: RwLock<Published>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) group: Group,
    pub(crate) syncer: Syncer,
    pub(crate) quota: Quota,
    pub(crate) reserve: Reserve,
    pub(crate) usage: Usage,
    pub(crate) gate: Arc<WeightGate>,
    /// What named sweeps set aside since the store was opened.
    pub(crate) asides: Asides,
    /// Incarnations that a plan met and could not read.
    pub(crate) unreadable: Mutex<HashSet<(RolloutId, Lsn)>>,
    pub(crate) flusher: Flusher,
    /// Of all that is written in the background.
    pub(crate) pace: Arc<Pace>,
    pub(crate) compactor: Compactor,
    /// Held while a checkpoint is being made, and while compaction unlinks segments; taken before the writer.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) last_checkpoint: Mutex<Option<Note>>,
    /// Held while the store is open for writing.
    pub(crate) lock: Mutex<Option<Owner>>,
    pub(crate) closed: AtomicBool,
    pub(crate) open_log_bytes_read: u64,
    /// Bytes that commits wrote to segments.
    pub(crate) appended_bytes: AtomicU64,
}

/// What readers see: one committed state.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) index: MemoryIndex,
    pub(crate) state: Arc<State>,
    pub(crate) segments: BTreeMap<SegmentId, Arc<Segment>>,
    /// The segment that is written to; all others are finished.
    pub(crate) active: Option<SegmentId>,
    /// How the log ends in that segment; `None` where it holds no batch that readers see.
    pub(crate) log_end: Option<BatchEnd>,
}

impl Published {
    /// The open segment of this number.
    pub(crate) fn segment(&self, id: SegmentId) -> Result<Arc<Segment>> {
        let segment = self.segments.get(&id).cloned();
        segment.ok_or_else(|| Error::not_found(format!("segment {id} is not part of the store")))
    }

    /// Says that the frame at this place will be read soon.
    pub(crate) fn prefetch(&self, at: Location) {
        if let Some(segment) = self.segments.get(&at.segment) {
            segment.prefetch(at);
        }
    }
}

impl Core {
    /// Rollouts were asked for, of which `fresh` were fresh; `first_time` are those that no one had asked for when they were
    /// looked up.
    pub(crate) fn asked(&self, asked: u64, fresh: u64, mut first_time: Vec<Incarnation>) {
        if !first_time.is_empty() {
            let published = self.published.read();
            first_time.retain(|rollout| published.index.ask(rollout.id, rollout.insert_lsn));
        }
        self.usage.asked(asked, fresh, first_time);
    }

    /// Refuses what this handle can no longer do.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(
                Error::invalid(format!("the store {} is closed; open it again", self.dir.display())).at(&self.dir)
            );
        }
        Ok(())
    }

    /// Refuses writes through a closed, read-only or forked handle, or once the lock file is no longer ours.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::invalid(format!("the store {} is open read-only", self.dir.display())).at(&self.dir));
        }
        let pid = std::process::id();
        if pid != self.pid && !planted(Bug::WriteInForkedChild) {
            return Err(Error::invalid(format!(
                "the store {} was opened by process {}, this is its forked child {pid}; open it read-only here",
                self.dir.display(),
                self.pid
            ))
            .at(&self.dir));
        }
        self.group.check()
    }

    /// The writer, once it is this thread's turn. A handle that cannot write is refused before it waits: in a forked
    /// child the turn of a thread that is not there would never end.
    pub(crate) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        self.check_writable()?;
        let writer = self.writer.lock();
        // Another thread may have closed the store meanwhile.
        self.check_writable()?;
        Ok(writer)
    }

    /// Stops the writer if the lock file was deleted or replaced, or the directory renamed: another writer may be in.
    pub(crate) fn check_lock(&self) -> Result<()> {
        if planted(Bug::IgnoreLostLock) {
            return Ok(());
        }
        let checked = self.lock.lock().as_ref().map_or(Ok(()), |owner| owner.check(&*self.disk, &self.dir));
        checked.map_err(|cause| match cause.kind() {
            // Nothing is known, and nothing was written yet: whoever asks again may be told.
            ErrorKind::Io => cause,
            _ => self.group.poison(&cause),
        })
    }

    /// Refuses to go on behind a manifest generation where another writer may not have read it.
    pub(crate) fn check_generation(&self, generation: u64) -> Result<()> {
        let lock = self.lock.lock();
        lock.as_ref().map_or(Ok(()), |owner| owner.check_generation(&*self.disk, &self.dir, generation))
    }

    /// Refuses an acknowledgement where another writer may have read the log before it held what is acknowledged.
    pub(crate) fn check_before_acknowledging(&self) -> Result<()> {
        let lock = self.lock.lock();
        lock.as_ref().map_or(Ok(()), |owner| owner.check_before_acknowledging(&*self.disk, &self.dir))
    }
}
