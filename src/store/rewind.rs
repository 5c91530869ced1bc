//! Rewind: a trainer that resumed at an older step and has no checkpoint of the store.

use crate::error::{Error, Result};
use crate::reason::Reason;
use crate::store::RolloutStore;
use crate::store::partials::stage::Abandon;
use crate::store::retirement::Retirement;
use crate::store::stage::Op;

/// What a rewind does with rollouts created after the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewind {
    /// They stay: data of a policy that will not come again, whose sampler log-probs are still true.
    Keep,
    /// They are retired as [`Reason::Rewound`], and partial rollouts that were begun later are abandoned.
    Drop,
}

impl RolloutStore {
    /// Sets the clock back to `step`, under a new ref version and a new KL reference version without ancestors: every
    /// remaining rollout is stale at any lag, since the weights that its old logps came from may not be those that the
    /// trainer has now. Behaviour log-probs stay valid. Plans made before are late. Returns the new ref version.
    ///
    /// Where there is a checkpoint of the store, [`RolloutStore::restore`] is better: it brings back what was fresh then.
    ///
    /// # How do I go back to step 100 without a checkpoint of the store?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, Rewind, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 99).old_logps(&[-0.5][..], 0))?;
    /// store.advance_ref_version(137, None)?;
    /// store.insert(NewRollout::new(2, 137).old_logps(&[-0.5][..], 1))?;
    ///
    /// assert!(store.advance_ref_version(100, None).is_err(), "the store is at step 137");
    /// store.rewind(100, Rewind::Drop)?;
    /// assert_eq!(store.ids(), [1.into()]);
    /// assert_eq!(store.stale(), [1.into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a step above the clock, or where there is none; `Full`, `Poisoned`, `Io`.
    pub fn rewind(&self, step: u64, created_later: Rewind) -> Result<u64> {
        self.core.check_writable()?;
        let _alone = self.core.gate.update()?;
        let mut writer = self.core.lock_writer()?;
        let clock = writer.state.clock;
        if clock.is_none_or(|clock| step > clock) {
            let clock = clock.map_or_else(|| "at no step yet".to_owned(), |clock| format!("at step {clock}"));
            return Err(Error::invalid(format!("the store is {clock}, a rewind to step {step} does not go back")));
        }
        let mut ops = vec![Op::Rewind { step }];
        if created_later == Rewind::Drop {
            ops.insert(0, Op::Retire { which: Retirement::CreatedAfter(step), reason: Reason::Rewound });
            ops.insert(0, Op::Abandon(Abandon::CreatedAfter(step)));
        }
        let written = writer.write(&self.core, &ops)?;
        drop(writer);
        self.core.group.wait(&self.core, written.last_lsn)?;
        self.core.syncer.committed();
        Ok(written.ref_version)
    }
}
