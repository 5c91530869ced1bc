//! Batches: any operations, one atomic commit.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ids::{Lsn, RolloutId};
use crate::log::event::Clock;
use crate::reason::Reason;
use crate::store::RolloutStore;
use crate::store::new_rollout::NewRollout;
use crate::store::plan::{Applied, Plan, Results};
use crate::store::prepare::Prepared;
use crate::store::retirement::Retirement;
use crate::store::stage::{Op, Outcome};

/// Operations that become one atomic commit: after a crash all of them happened, or none. They are applied in order, each
/// seeing the ones before it.
///
/// # How does a whole trainer step become one commit?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, Reason, RolloutStore};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// let mut batch = store.batch();
/// batch.insert(NewRollout::new(1, 100).old_logps(&[-0.5, -0.25][..], 0))?;
/// batch.retire(&[0.into()], Reason::Trained); // not live: passed over, the count says so
/// batch.advance_ref_version(100, Some(17));
/// batch.cursor(b"epoch 3, row 4711");
/// let committed = batch.commit()?;            // on disk when it returns
/// assert_eq!((committed.retired, committed.ref_version), (0, 1));
/// assert_eq!(store.cursor().as_deref(), Some(&b"epoch 3, row 4711"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a batch does nothing until `commit`"]
pub struct WriteBatch<'a> {
    store: &'a RolloutStore,
    ops: Vec<Op<'a>>,
    declined: Vec<u64>,
    /// Why an operation was refused: the batch is then refused as a whole, also where the caller passed over the error.
    refused: Option<String>,
}

/// What a committed batch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// LSN of the batch's last frame.
    pub lsn: Lsn,
    /// Rollouts that retirements of the batch ended; ids that were not live are not counted.
    pub retired: u64,
    /// What became of the results of each `apply`, in order.
    pub applied: Vec<Applied>,
    /// The ref version behind the batch.
    pub ref_version: u64,
}

impl Committed {
    /// Whether the batch survives power loss by now: at once in a Synced store, in a Buffered one after the next sync.
    /// [`RolloutStore::wait_durable`] with its LSN waits for that.
    #[must_use]
    pub fn is_durable(&self, store: &RolloutStore) -> bool {
        self.lsn <= store.durable_lsn()
    }
}

impl<'a> WriteBatch<'a> {
    pub(crate) fn new(store: &'a RolloutStore) -> Self {
        Self { store, ops: Vec::new(), declined: Vec::new(), refused: None }
    }

    /// Inserts a rollout. Its descriptor and checksums are made here; the arrays stay where they are until the commit.
    ///
    /// # Errors
    /// `Invalid`, at once for what the rollout itself shows (lengths, NaN, sizes), at the commit for a live id, a version
    /// that was never issued or an absurd step.
    pub fn insert(&mut self, rollout: NewRollout<'a>) -> Result<()> {
        let prepared = self.accept(Prepared::insert(rollout))?;
        self.ops.push(Op::Insert(prepared));
        Ok(())
    }

    /// Retires the live rollout of this id as superseded and inserts a new incarnation, which inherits nothing.
    ///
    /// # Errors
    /// As for [`WriteBatch::insert`]; `NotFound` at the commit where the id is not live.
    pub fn replace(&mut self, rollout: NewRollout<'a>) -> Result<()> {
        let prepared = self.accept(Prepared::insert(rollout))?;
        self.ops.push(Op::Replace(prepared));
        Ok(())
    }

    /// Ends rollouts. Ids that are not live are passed over; [`Committed::retired`] says how many were.
    pub fn retire(&mut self, ids: &[RolloutId], reason: Reason) {
        self.ops.push(Op::Retire { which: Retirement::Ids(ids.to_vec()), reason });
    }

    /// Ends every rollout created before `step`, of those that are live at this place of the batch: one small record,
    /// whatever their number. See [`RolloutStore::retire_created_before`].
    pub fn retire_created_before(&mut self, step: u64, reason: Reason) {
        self.ops.push(Op::Retire { which: Retirement::CreatedBefore(step), reason });
    }

    /// Ends every rollout whose old logps are of a version before `version`. See [`RolloutStore::retire_version_before`].
    pub fn retire_version_before(&mut self, version: u64, reason: Reason) {
        self.ops.push(Op::Retire { which: Retirement::VersionBefore(version), reason });
    }

    /// Ends the rollouts of whole groups. See [`RolloutStore::retire_groups`].
    pub fn retire_groups(&mut self, groups: &[u64], reason: Reason) {
        self.ops.push(Op::Retire { which: Retirement::Groups(groups.to_vec()), reason });
    }

    /// Stores the results of a plan; late ones are dropped and counted.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be log-probs, a wrong length, or an id that is not of the plan.
    pub fn apply(&mut self, plan: Plan, results: Results) -> Result<()> {
        let (op, declined) = self.accept(plan.into_op(results))?;
        self.declined.push(declined);
        self.ops.push(op);
        Ok(())
    }

    /// Counts the ref version up: the weights changed at `step`. See [`RolloutStore::advance_ref_version`].
    pub fn advance_ref_version(&mut self, step: u64, label: Option<u64>) {
        self.ops.push(Op::Advance { clock: Clock::Ref, step: Some(step), label });
    }

    /// Counts the version of the KL reference up.
    pub fn advance_kl_ref_version(&mut self, label: Option<u64>) {
        self.ops.push(Op::Advance { clock: Clock::KlRef, step: None, label });
    }

    /// Sets the cursor: where the trainer itself stands (data-loader position, RNG, totals), as bytes of its own. It
    /// comes back with [`RolloutStore::cursor`] after a crash, from the same commit as the rest of the batch.
    pub fn cursor(&mut self, cursor: &[u8]) {
        self.ops.push(Op::Cursor(Arc::from(cursor)));
    }

    /// Takes an operation in, or the reason why it was refused.
    pub(super) fn put(&mut self, op: Result<Op<'a>>) -> Result<()> {
        let op = self.accept(op)?;
        self.ops.push(op);
        Ok(())
    }

    pub(super) fn store(&self) -> &'a RolloutStore {
        self.store
    }

    /// Whether pieces of a partial rollout are in this batch.
    pub(super) fn has_pieces_of(&self, id: RolloutId) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Begin(piece) | Op::Append(piece) if piece.entry.id == id))
    }

    fn accept<T>(&mut self, checked: Result<T>) -> Result<T> {
        if let Err(error) = &checked {
            self.refused.get_or_insert_with(|| error.to_string());
        }
        checked
    }

    /// Whether nothing was put in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Commits. When it returns Ok, everything is seen by readers and survives power loss; in a store opened as
    /// [`Durability::Buffered`](crate::Durability::Buffered) it survives a killed process, and power loss after the next sync.
    ///
    /// # Errors
    /// `Invalid` or `NotFound` where an operation is refused, `Full`, `Poisoned`, `Io`. Nothing of the batch happened
    /// then; after a failed write or sync a reopen may find it whole.
    pub fn commit(self) -> Result<Committed> {
        if let Some(refused) = &self.refused {
            return Err(Error::invalid(format!(
                "an operation of the batch was refused, so that all of it is: {refused}"
            )));
        }
        let written = self.store.commit(&self.ops)?;
        let mut committed =
            Committed { lsn: written.last_lsn, retired: 0, applied: Vec::new(), ref_version: written.ref_version };
        let mut declined = self.declined.into_iter();
        for (op, outcome) in self.ops.iter().zip(&written.outcomes) {
            match (op, outcome) {
                (Op::Retire { .. }, Outcome::Retired(count)) => committed.retired += count,
                (Op::Apply { .. }, Outcome::Applied { computed, dropped }) => committed.applied.push(Applied {
                    computed: *computed,
                    dropped: *dropped,
                    declined: declined.next().unwrap_or_default(),
                }),
                _ => {}
            }
        }
        Ok(committed)
    }
}
