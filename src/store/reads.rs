//! Views of rollouts by their ids.

use crate::error::Result;
use crate::ids::RolloutId;
use crate::store::RolloutStore;
use crate::store::snapshot::Snapshot;
use crate::store::view::Rollout;

impl RolloutStore {
    /// A view of a rollout; `None` where the id is not live.
    ///
    /// # Errors
    /// `Damaged` where its frame is not what was written, `Io`, `Invalid` for a closed store.
    pub fn get(&self, id: RolloutId) -> Result<Option<Rollout>> {
        self.core.check_open()?;
        let snapshot = Snapshot::of(&self.core.published.read(), id)?;
        snapshot.map(|snapshot| snapshot.open(&self.core.rules)).transpose()
    }

    /// Views of rollouts, in the order asked; `None` for each id that is not live. All show one committed state, and a batch
    /// is several times faster than so many [`RolloutStore::get`]: memory is waited for once for many of them.
    ///
    /// # How do I read a minibatch?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 0).old_logps(&[-0.5, -0.25][..], 0))?;
    /// store.insert(NewRollout::new(2, 0).old_logps(&[-1.5][..], 0))?;
    /// let minibatch = store.get_many(&[2.into(), 1.into(), 3.into()])?;
    /// let lengths = minibatch.iter().flatten().map(|rollout| Ok(rollout.old_logps()?.len()));
    /// assert_eq!(lengths.collect::<Result<Vec<_>, rollstore::Error>>()?, [1, 2]);
    /// assert!(minibatch[2].is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RolloutStore::get`]: of the first rollout that cannot be read.
    pub fn get_many(&self, ids: &[RolloutId]) -> Result<Vec<Option<Rollout>>> {
        self.core.check_open()?;
        let snapshots = Snapshot::of_each(&self.core.published.read(), ids)?;
        let open = |snapshot: Option<Snapshot>| snapshot.map(|snapshot| snapshot.open(&self.core.rules)).transpose();
        snapshots.into_iter().map(open).collect()
    }
}
