//! How a store is opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::{Error, Result};
use crate::limits;
use crate::store::RolloutStore;
use crate::store::clocks::Clocks;
use crate::store::flusher::Flushes;
use crate::store::owner::LockKind;
use crate::store::past::Past;

/// How arrays are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// Through a map on a local file system, by copies on one that is shared between machines.
    #[default]
    Auto,
    /// Through a map: no copy. On a shared file system a failing server becomes a SIGBUS.
    Mapped,
    /// By positioned reads into aligned heap memory: the same calls, one copy.
    Copied,
}

/// Which failure a commit survives once it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A commit returns after its sync, and is seen by readers then: it survives power loss.
    #[default]
    Synced,
    /// A commit returns after its write, and is seen by readers then: it survives a killed process, since the system has
    /// its bytes. A thread of the store syncs in the background. Power loss, or a failed sync, may cost the last commits:
    /// those of `max_delay` and of the sync behind it, always the newest ones and never one before another.
    ///
    /// For file systems whose syncs take long. Commits wait where more than
    /// [`limits::UNSYNCED_BYTES_MAX`](crate::limits::UNSYNCED_BYTES_MAX) are written and not yet durable.
    Buffered {
        /// The longest time from a commit's write to the beginning of its sync.
        max_delay: Duration,
    },
}

/// How a store is opened; made by [`RolloutStore::options`].
///
/// # How do I open a store for my trainer?
/// ```
/// # let dir = tempfile::tempdir()?;
/// use rollstore::RolloutStore;
/// let store = RolloutStore::options()
///     .window(8)                          // old logps count as fresh for 8 steps …
///     .max_version_lag(2)                 // … and for 2 advances of the ref version
///     .run_identity(b"qwen3-8b, T = 1.0") // another model's store is refused
///     .open(dir.path().join("rollouts"))?;
/// assert_eq!(store.ref_version(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a store is opened by `open`"]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each set by a call of its name")]
pub struct Options {
    pub(crate) window: Option<u64>,
    pub(crate) max_version_lag: Option<u64>,
    pub(crate) step_skew: Option<u64>,
    pub(crate) step_jump_max: Option<u64>,
    pub(crate) retire_after: Option<u64>,
    pub(crate) segment_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) unsynced_bytes_max: u64,
    pub(crate) background_compaction: bool,
    pub(crate) run_identity: Option<Vec<u8>>,
    pub(crate) resume_step: Option<u64>,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) past: Option<Past>,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) reads: Reads,
    pub(crate) recheck_always: bool,
    pub(crate) lock: LockKind,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) index_flushes: Flushes,
    pub(crate) index_flush_changes: usize,
    pub(crate) index_cache_bytes: usize,
    pub(crate) quota_bytes: Option<u64>,
    pub(crate) reserve_bytes: u64,
}

impl Options {
    pub(crate) fn new() -> Self {
        Self {
            window: None,
            max_version_lag: None,
            step_skew: None,
            step_jump_max: None,
            retire_after: None,
            segment_bytes: limits::SEGMENT_BYTES_DEFAULT,
            durability: Durability::Synced,
            unsynced_bytes_max: limits::UNSYNCED_BYTES_MAX,
            background_compaction: true,
            run_identity: None,
            resume_step: None,
            clocks: None,
            past: None,
            create: true,
            read_only: false,
            reads: Reads::Auto,
            recheck_always: false,
            lock: LockKind::File,
            disk: Arc::new(OsDisk),
            index_flushes: Flushes::Behind,
            index_flush_changes: limits::INDEX_FLUSH_CHANGES_DEFAULT,
            index_cache_bytes: limits::INDEX_CACHE_BYTES_DEFAULT,
            quota_bytes: None,
            reserve_bytes: limits::RESERVE_BYTES_DEFAULT,
        }
    }

    /// Steps for which old logps count as fresh: `age > window` is out of window. Required for a new store, since no
    /// value fits every run; otherwise the one last used.
    pub fn window(mut self, steps: u64) -> Self {
        self.window = Some(steps);
        self
    }

    /// Advances of the ref version for which old logps count as fresh; 0 for a new store: any advance makes them stale.
    pub fn max_version_lag(mut self, advances: u64) -> Self {
        self.max_version_lag = Some(advances);
        self
    }

    /// Steps by which a call may lie behind the trainer's clock, and a born step ahead of the step asked about; default
    /// [`limits::STEP_SKEW_DEFAULT`](crate::limits::STEP_SKEW_DEFAULT).
    pub fn step_skew(mut self, steps: u64) -> Self {
        self.step_skew = Some(steps);
        self
    }

    /// Steps by which a step may lie ahead of the clock before it is refused as absurd; default
    /// [`limits::STEP_JUMP_MAX_DEFAULT`](crate::limits::STEP_JUMP_MAX_DEFAULT).
    pub fn step_jump_max(mut self, steps: u64) -> Self {
        self.step_jump_max = Some(steps);
        self
    }

    /// A standing rule: with each advance of a version at a step, what was created more than `steps` before the clock is
    /// retired as [`Reason::Evicted`](crate::Reason::Evicted), in the same commit. None unless given, each time the store
    /// is opened.
    pub fn retire_after(mut self, steps: u64) -> Self {
        self.retire_after = Some(steps);
        self
    }

    /// Size at which a segment is sealed, in bytes; default
    /// [`limits::SEGMENT_BYTES_DEFAULT`](crate::limits::SEGMENT_BYTES_DEFAULT).
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Which failure a commit survives once it returned; default [`Durability::Synced`]. Not kept: given each time the store
    /// is opened.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Another limit than [`limits::UNSYNCED_BYTES_MAX`](crate::limits::UNSYNCED_BYTES_MAX): a test need not write so much.
    #[doc(hidden)]
    pub fn unsynced_bytes_max(mut self, bytes: u64) -> Self {
        self.unsynced_bytes_max = bytes;
        self
    }

    /// Whether a thread of the store gives space back while the trainer runs; default true. Without it,
    /// [`RolloutStore::compact`] does so when it is called.
    pub fn background_compaction(mut self, on: bool) -> Self {
        self.background_compaction = on;
        self
    }

    /// What the run is (model, tokenizer, temperature …), as bytes of your own. Kept at creation; opening with another
    /// one is refused, since version 5 of another model must never look fresh.
    pub fn run_identity(mut self, identity: &[u8]) -> Self {
        self.run_identity = Some(identity.to_vec());
        self
    }

    /// The step that the trainer resumes at: a store that is further is refused at open instead of at the first call.
    pub fn resume_step(mut self, step: u64) -> Self {
        self.resume_step = Some(step);
        self
    }

    /// The clocks with which a new store begins, of the store whose rollouts it takes over; by default no step and version
    /// 0. Opening a store that exists with them is refused: it has its own.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = Some(clocks);
        self
    }

    /// What a new store counts from, of stores whose rollouts it takes over; by default from nothing. What it takes over counts
    /// on top, as inserts. Opening a store that exists with it is refused: it has its own.
    pub fn past(mut self, past: Past) -> Self {
        self.past = Some(past);
        self
    }

    /// Whether a store that is not there is created; default true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether to open for reading alone: takes no lock, writes nothing and needs no write permission. A store that is
    /// being written is seen as of some moment of the opening. Checkpoints open only so.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How arrays are read; default [`Reads::Auto`].
    pub fn reads(mut self, reads: Reads) -> Self {
        self.reads = reads;
        self
    }

    /// Whether checksums are checked on every access instead of once a process; default false.
    pub fn recheck_always(mut self, recheck: bool) -> Self {
        self.recheck_always = recheck;
        self
    }

    /// How a second writer is kept out; default [`LockKind::File`], which refuses a file system without a working `flock`.
    pub fn lock(mut self, kind: LockKind) -> Self {
        self.lock = kind;
        self
    }

    /// The file system to live on; default the operating system's.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Changed index entries that start a flush of the index to its file, in a thread of the store; default
    /// [`limits::INDEX_FLUSH_CHANGES_DEFAULT`](crate::limits::INDEX_FLUSH_CHANGES_DEFAULT). Fewer make an open after a crash
    /// read less of the log, and the disk write more. [`limits::INDEX_FLUSH_BYTES`](crate::limits::INDEX_FLUSH_BYTES) of the
    /// log start one too.
    pub fn index_flush_changes(mut self, entries: usize) -> Self {
        self.index_flush_changes = entries;
        self
    }

    /// Memory for pages of the index file, in bytes; default
    /// [`limits::INDEX_CACHE_BYTES_DEFAULT`](crate::limits::INDEX_CACHE_BYTES_DEFAULT). Reads are served from other memory:
    /// more makes the flushes of large stores write less.
    pub fn index_cache_bytes(mut self, bytes: usize) -> Self {
        self.index_cache_bytes = bytes;
        self
    }

    /// The most that the store's segments may take together, in bytes; none unless given, each time the store is opened. A
    /// batch that would take more is refused as [`ErrorKind::Full`](crate::ErrorKind::Full) before anything is written, and
    /// the store goes on.
    ///
    /// What counts: segments that the store consists of, with the end that the newest one will get. What does not: the index,
    /// manifests (two small files), checkpoints, and dropped segments that a view or a checkpoint still holds. Three quarters
    /// of a segment are kept free for compaction, which copies before it drops. Batches that only retire, advance or rewind
    /// are never refused for the quota: they are small, and the way to free space.
    ///
    /// # What do I do when it is full?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use rollstore::{CompactBudget, ErrorKind, NewRollout, Reason, RolloutStore};
    /// let options = RolloutStore::options().window(8).segment_bytes(1 << 20).quota_bytes(4 << 20);
    /// let store = options.open(dir.path().join("rollouts"))?;
    /// for id in 0..200 {
    ///     let rollout = || NewRollout::new(id, id).completion_ids(vec![7; 10_000]);
    ///     match store.insert(rollout()) {
    ///         Err(error) if error.kind() == ErrorKind::Full => {
    ///             store.retire_created_before(id - 10, Reason::Evicted)?;
    ///             store.compact(CompactBudget::all())?;
    ///             store.insert(rollout())?;
    ///         }
    ///         inserted => drop(inserted?),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quota_bytes(mut self, bytes: u64) -> Self {
        self.quota_bytes = Some(bytes);
        self
    }

    /// Size of the file `RESERVE`, which is made with the store and is removed when the disk is full, so that the store can
    /// still be closed, opened, retired from and compacted; default
    /// [`limits::RESERVE_BYTES_DEFAULT`](crate::limits::RESERVE_BYTES_DEFAULT), 0 for none. It is made anew once there is space.
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Flushes the index in the call that makes a flush due, instead of in a thread beside it: a simulated disk then sees
    /// the same operations in every run.
    #[doc(hidden)]
    pub fn flush_in_turn(mut self) -> Self {
        self.index_flushes = Flushes::InTurn;
        self
    }

    /// Opens the store in this directory.
    ///
    /// # Errors
    /// `Invalid` for options that do not fit or a directory that is no store, `NotFound`, `Locked` with the holder's
    /// pid, `Damaged` with file and offset, `TooNew`, `Io`.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<RolloutStore> {
        self.check()?;
        super::open::open(self, dir.as_ref())
    }

    fn check(&self) -> Result<()> {
        let (min, max) = (limits::SEGMENT_BYTES_MIN, limits::SEGMENT_BYTES_MAX);
        if !(min..=max).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!("segment_bytes is {}, it must be {min} to {max}", self.segment_bytes)));
        }
        let (min, max) = (1, limits::INDEX_CHANGES_TRACKED_MAX / 2);
        if !(min..=max).contains(&self.index_flush_changes) {
            let entries = self.index_flush_changes;
            return Err(Error::invalid(format!("index_flush_changes is {entries}, it must be {min} to {max}")));
        }
        let least = self.segment_bytes * 2;
        if let Some(quota) = self.quota_bytes.filter(|quota| *quota < least) {
            return Err(Error::invalid(format!(
                "quota_bytes is {quota}, it must be two segments at least, {least} bytes"
            )));
        }
        if let LockKind::Heartbeat { every, .. } = self.lock {
            let (min, max) = (limits::HEARTBEAT_MIN, limits::HEARTBEAT_MAX);
            if !(min..=max).contains(&every) {
                return Err(Error::invalid(format!(
                    "a heartbeat every {every:?} was asked for, it must be {min:?} to {max:?}"
                )));
            }
        }
        let identity_bytes = self.run_identity.as_ref().map_or(0, Vec::len);
        if identity_bytes > limits::RUN_IDENTITY_BYTES_MAX {
            let max = limits::RUN_IDENTITY_BYTES_MAX;
            return Err(Error::invalid(format!("run_identity holds {identity_bytes} bytes, the limit is {max}")));
        }
        Ok(())
    }
}
