//! The store: batches, reads, scans, plans, clocks, checkpoints.
//!
//! May touch everything below it. The only room that knows what a batch, a plan or a budget is.
//!
//! Always true:
//! - D1 to D12, the promises of `docs/durability.md`.

pub(crate) mod batch;
pub(crate) mod brought;
pub(crate) mod budget;
mod checkpoint;
pub(crate) mod clocks;
mod closer;
pub(crate) mod column;
pub(crate) mod column_info;
pub(crate) mod compact;
pub(crate) mod complete;
mod core;
pub(crate) mod diagnose;
mod flusher;
pub(crate) mod gather;
mod group;
mod known;
pub(crate) mod last_checkpoint;
pub(crate) mod new_rollout;
mod open;
pub(crate) mod options;
pub(crate) mod owner;
pub(crate) mod partials;
pub(crate) mod past;
pub(crate) mod plan;
mod prepare;
mod quota;
mod random;
mod reads;
pub(crate) mod recompute;
pub(crate) mod repair;
mod reserve;
mod restore;
pub(crate) mod retirement;
mod rewind;
mod scans;
mod snapshot;
mod stage;
mod standing;
pub(crate) mod stats;
pub(crate) mod sweep;
mod syncer;
mod transfer;
mod usage;
pub(crate) mod view;
mod waker;
pub(crate) mod weights;
pub(crate) mod writable;
mod writer;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Lsn, RolloutId};
use crate::inspect::{self, Verification};
use crate::log::event::Clock;
use crate::planted::{Bug, planted};
use crate::reason::Reason;
use crate::sync::Mutex;
use batch::WriteBatch;
use closer::Closer;
use compact::Compactor;
use core::Core;
use flusher::Flusher;
use new_rollout::NewRollout;
use options::Durability;
use options::Options;
use prepare::Prepared;
use retirement::Retirement;
use stage::{Op, Outcome};
use syncer::Syncer;
use waker::Waker;
use writer::Written;

pub use checkpoint::Checkpointed;
pub use rewind::Rewind;

/// An open store of rollouts. A handle: clones share the store, and it may be used from any thread.
///
/// The last handle that goes closes the store; [`RolloutStore::close`] does so at once and tells how it went.
///
/// # How does a trainer use it?
/// ```
/// # let dir = tempfile::tempdir()?;
/// use rollstore::{Budget, Column, NewRollout, Padded, Reason, Results, RolloutStore, Stale};
///
/// let store = RolloutStore::options().window(8).max_version_lag(2).open(dir.path().join("rollouts"))?;
/// let forward = |tokens: &[u32]| vec![-0.5; tokens.len()]; // your model
///
/// for step in 0..20 {
///     // What the sampler made, with the log-probs of the weights that are current now.
///     let id = store.allocate_ids(1)?.next().unwrap();
///     let tokens = [1, 2, 3];
///     let version = store.ref_version();
///     store.insert(NewRollout::new(id, step).completion_ids(&tokens[..]).old_logps(forward(&tokens), version))?;
///
///     // What is out of window or stale, a little at a time.
///     store.recompute(step, Budget::rollouts(2), |work| {
///         let rows = work.rollouts().map(|rollout| Ok((rollout.id(), forward(rollout.completion_ids()?))));
///         rows.collect::<Result<Results, rollstore::Error>>()
///     })?;
///
///     // Change the weights, then advance: plans wait meanwhile.
///     store.weight_update(step, || Ok::<_, std::convert::Infallible>(()))?;
/// }
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RolloutStore {
    core: Arc<Core>,
    /// Closes the store with the last handle.
    closer: Arc<Closer>,
}

impl fmt::Debug for RolloutStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolloutStore").field("dir", &self.core.dir).finish_non_exhaustive()
    }
}

impl RolloutStore {
    /// Options to open a store with.
    pub fn options() -> Options {
        Options::new()
    }

    fn start(core: Core) -> Result<Self> {
        let core = Arc::new(core);
        let mut threads = Vec::new();
        let closer = Arc::new(Closer { core: Arc::clone(&core), threads: Mutex::default() });
        if !core.read_only {
            threads.push(Waker::start(&core, "rollstore-index", |core| &core.flusher.waker, Flusher::round)?);
            if let Durability::Buffered { .. } = core.syncer.durability {
                threads.push(Waker::start(&core, "rollstore-sync", |core| &core.syncer.waker, Syncer::round)?);
            }
            if core.compactor.in_background {
                threads.push(Waker::start(&core, "rollstore-compact", |core| &core.compactor.waker, Compactor::round)?);
            }
        }
        *closer.threads.lock() = threads;
        Ok(Self { core, closer })
    }

    /// The store's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.core.dir
    }

    /// Steps for which old logps count as fresh.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.core.rules.window
    }

    /// Advances of the ref version for which old logps count as fresh.
    #[must_use]
    pub fn max_version_lag(&self) -> u64 {
        self.core.rules.max_version_lag
    }

    /// Steps by which a born step may lie ahead of the step asked about.
    #[must_use]
    pub fn step_skew(&self) -> u64 {
        self.core.rules.step_skew
    }

    /// Steps by which a step may lie ahead of the clock.
    #[must_use]
    pub fn step_jump_max(&self) -> u64 {
        self.core.rules.step_jump_max
    }

    /// The current ref version: of the weights that old logps computed now are made with. A new store's is 0.
    #[must_use]
    pub fn ref_version(&self) -> u64 {
        self.core.published.read().state.ref_clock.current
    }

    /// The current version of the KL reference.
    #[must_use]
    pub fn kl_ref_version(&self) -> u64 {
        self.core.published.read().state.kl_clock.current
    }

    /// The ref version that an advance with this label made. Labels are the trainer's own version numbers; the last
    /// [`limits::LABELS_KEPT`](crate::limits::LABELS_KEPT) are kept.
    #[must_use]
    pub fn ref_version_of(&self, label: u64) -> Option<u64> {
        self.core.published.read().state.ref_clock.version_of(label)
    }

    /// What the store says of its run, as given when it was made; empty where nothing was. Waits for a commit under way.
    #[must_use]
    pub fn run_identity(&self) -> Vec<u8> {
        self.core.writer.lock().manifest.run_identity.clone()
    }

    /// The highest step that the trainer itself acted at: by an advance, a weight update or an apply.
    #[must_use]
    pub fn clock(&self) -> Option<u64> {
        self.core.published.read().state.clock
    }

    /// The cursor of the last commit that set one.
    #[must_use]
    pub fn cursor(&self) -> Option<Arc<[u8]>> {
        self.core.published.read().state.cursor.clone()
    }

    /// The number of live rollouts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.published.read().index.len()
    }

    /// Whether there are no live rollouts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A batch: any operations, one atomic commit.
    pub fn batch(&self) -> WriteBatch<'_> {
        WriteBatch::new(self)
    }

    /// Inserts one rollout: a batch of one. Returns its incarnation.
    ///
    /// # Errors
    /// As for [`WriteBatch::insert`] and [`WriteBatch::commit`].
    pub fn insert(&self, rollout: NewRollout<'_>) -> Result<Lsn> {
        self.commit_one(Op::Insert(Prepared::insert(rollout)?))
    }

    /// Replaces one live rollout: a batch of one. Returns the new incarnation.
    ///
    /// # Errors
    /// As for [`WriteBatch::replace`] and [`WriteBatch::commit`].
    pub fn replace(&self, rollout: NewRollout<'_>) -> Result<Lsn> {
        self.commit_one(Op::Replace(Prepared::insert(rollout)?))
    }

    /// Commits an operation that makes one rollout. Behind its frame the batch may carry another, of counters.
    fn commit_one(&self, op: Op<'_>) -> Result<Lsn> {
        let written = self.commit(&[op])?;
        Ok(if let [Outcome::Inserted(lsn)] = written.outcomes[..] { lsn } else { written.last_lsn })
    }

    /// Ends rollouts and returns how many were live; the others are passed over.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    pub fn retire(&self, ids: &[RolloutId], reason: Reason) -> Result<u64> {
        self.retire_which(Retirement::Ids(ids.to_vec()), reason)
    }

    /// Sets the cursor alone; see [`WriteBatch::cursor`].
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    pub fn set_cursor(&self, cursor: &[u8]) -> Result<Lsn> {
        Ok(self.commit(&[Op::Cursor(Arc::from(cursor))])?.last_lsn)
    }

    /// Counts the ref version up and returns it: the weights that old logps are made with changed at `step`. One log
    /// record, whatever the number of rollouts. The same label as the current one again is a no-op, so that a trainer
    /// that is not sure may repeat itself.
    ///
    /// # Errors
    /// `Invalid` for a step that the trainer cannot be at or an older label; `Full`, `Poisoned`, `Io`.
    pub fn advance_ref_version(&self, step: u64, label: Option<u64>) -> Result<u64> {
        self.advance(Clock::Ref, Some(step), label)
    }

    /// Counts the version of the KL reference up and returns it. It has a clock of its own: old logps stay fresh.
    ///
    /// # Errors
    /// As for [`RolloutStore::advance_ref_version`].
    pub fn advance_kl_ref_version(&self, label: Option<u64>) -> Result<u64> {
        self.advance(Clock::KlRef, None, label)
    }

    fn advance(&self, clock: Clock, step: Option<u64>, label: Option<u64>) -> Result<u64> {
        let written = self.commit(&[Op::Advance { clock, step, label }])?;
        Ok(if let [Outcome::Version(version)] = written.outcomes[..] { version } else { written.ref_version })
    }

    /// Changes the weights by `update`, then advances the ref version: plans wait meanwhile, so that none is made of
    /// weights in change. Where `update` fails or panics the version advances all the same: when in doubt, stale.
    ///
    /// # Errors
    /// `Compute` where `update` fails; `Invalid` from inside another weight update's closure, or for a step that the
    /// trainer cannot be at (`update` is not called then); as for [`RolloutStore::advance_ref_version`].
    pub fn weight_update<T, E>(&self, step: u64, update: impl FnOnce() -> Result<T, E>) -> Result<T>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let begun = self.begin_weight_update(step)?;
        let updated = panic::catch_unwind(AssertUnwindSafe(update));
        let advanced = begun.finish();
        match updated {
            Ok(Ok(value)) => advanced.map(|_| value),
            Ok(Err(error)) => {
                let source: Box<dyn std::error::Error + Send + Sync> = error.into();
                let message = format!("the weight update failed; the ref version advanced all the same: {source}");
                advanced.and(Err(Error::new(ErrorKind::Compute, message).caused_by(source)))
            }
            Err(panic) => panic::resume_unwind(panic),
        }
    }

    /// Hands out `count` ids, in a row, that were never used or handed out before. They survive a crash unused: none is
    /// handed out twice.
    ///
    /// # Errors
    /// `Invalid` where so many are not left below 2^63; as for [`WriteBatch::commit`].
    pub fn allocate_ids(&self, count: u64) -> Result<impl Iterator<Item = RolloutId> + use<>> {
        /// Reserved at a time, so that few calls wait for the disk.
        const RESERVED: u64 = 1 << 16;
        let (ids, lsn) = {
            let mut writer = self.core.lock_writer()?;
            let start = writer.next_id;
            let end = start.checked_add(count).filter(|end| end.saturating_add(RESERVED) < RolloutId::FIRST_KEYED);
            let Some(end) = end else {
                return Err(Error::invalid(format!("{count} ids above {start} are not left; ids end at 2^63")));
            };
            if end > writer.state.id_ceiling {
                writer.ids_reserved_at =
                    writer.write(&self.core, &[Op::Tally { id_ceiling: end + RESERVED }])?.last_lsn;
            }
            writer.next_id = end;
            ((start..end).map(RolloutId::new), writer.ids_reserved_at)
        };
        // The reservation of another thread may be written and not durable yet.
        if !planted(Bug::HandOutIdsEarly) {
            self.core.group.wait_durable(&self.core, lsn)?;
            self.core.group.wait(&self.core, lsn)?;
        }
        Ok(ids)
    }

    /// Writes operations and waits until they are seen, and in a Synced store durable.
    fn commit(&self, ops: &[Op<'_>]) -> Result<Written> {
        self.check_keys(ops)?;
        self.core.syncer.wait_for_room(&self.core)?;
        let written = self.core.lock_writer()?.write(&self.core, ops)?;
        self.core.group.wait(&self.core, written.last_lsn)?;
        self.core.syncer.committed();
        let zero_logps: usize = ops.iter().map(Op::zero_logps_count).sum();
        self.core.usage.wrote_zero_logps(zero_logps as u64);
        Ok(written)
    }

    /// Refuses a replacement under another string key of the same id: two keys collided.
    fn check_keys(&self, ops: &[Op<'_>]) -> Result<()> {
        for op in ops {
            let Op::Replace(Prepared { key: Some(key), entry, .. }) = op else { continue };
            let Some(stored) = self.get(entry.id)? else { continue };
            if let Some(other) = stored.key().filter(|other| other != key) {
                let id = entry.id;
                return Err(
                    Error::invalid(format!("keys {key:?} and {other:?} have the same id {id}; rename one")).of(id)
                );
            }
        }
        Ok(())
    }

    /// Checks every byte of the store's files, read-only and by positioned reads, while others go on; see
    /// [`inspect::verify`](crate::inspect::verify).
    ///
    /// # Errors
    /// `Io` where a file cannot be read. Damage is no error: it is what is reported.
    pub fn verify(&self) -> Result<Verification> {
        self.core.check_open()?;
        inspect::verify_on(&*self.core.disk, &self.core.dir)
    }

    /// Closes the store for all its handles: seals the segment, writes the manifest and the index, lets the lock go.
    /// Views stay valid.
    ///
    /// # Errors
    /// What the last writes met. Everything acknowledged is safe all the same; the next open recovers it.
    pub fn close(self) -> Result<()> {
        self.closer.close(true)
    }

    /// Writes the index to its file now, as its thread does now and then.
    #[doc(hidden)]
    pub fn flush_index(&self) -> Result<()> {
        self.core.check_writable()?;
        let _hurry = self.core.pace.hurry();
        self.core.flusher.flush(&self.core)
    }

    /// Lets everything go as a crash would: threads end, the lock is free, nothing is flushed.
    #[doc(hidden)]
    pub fn abandon(self) {
        let _ = self.closer.close(false);
    }
}
