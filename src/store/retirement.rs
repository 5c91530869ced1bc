//! Ends of life for many rollouts at once, and what they would end.

use crate::error::Result;
use crate::ids::RolloutId;
use crate::reason::Reason;
use crate::store::RolloutStore;
use crate::store::stage::{Op, Outcome};

/// Which rollouts a retirement ends.
///
/// # What would a window of 8 steps end?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, Reason, Retirement, RolloutStore};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// for step in 0..20 {
///     store.insert(NewRollout::new(step, step).group(step / 4))?;
/// }
/// assert_eq!(store.would_retire(&Retirement::CreatedBefore(12)), 12);
/// assert_eq!(store.would_retire(&Retirement::Groups(vec![0, 4])), 8);
/// assert_eq!(store.retire_created_before(12, Reason::Evicted)?, 12);
/// assert_eq!(store.would_retire(&Retirement::Groups(vec![0, 4])), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retirement {
    /// These; ids that are not live are passed over.
    Ids(Vec<RolloutId>),
    /// Those created below this step.
    CreatedBefore(u64),
    /// Those created above this step: what [`RolloutStore::rewind`] with [`Rewind::Drop`](crate::Rewind::Drop) ends.
    CreatedAfter(u64),
    /// Those whose old logps are of a ref version below this one; where they are missing, the version of their insert
    /// counts.
    VersionBefore(u64),
    /// Those of these groups.
    Groups(Vec<u64>),
}

impl RolloutStore {
    /// Ends every rollout created before `step`: one small record in the log, whatever their number. It ends what was
    /// inserted before it; a rollout that is inserted later with an older created step lives. Returns how many ended.
    ///
    /// # How do I keep the last 8 steps?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, Reason, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// for step in 0..20_u64 {
    ///     store.insert(NewRollout::new(step, step))?;
    ///     store.retire_created_before(step.saturating_sub(7), Reason::Trained)?;
    /// }
    /// assert_eq!(store.len(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a step absurdly far ahead of the clock; as for [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub fn retire_created_before(&self, step: u64, reason: Reason) -> Result<u64> {
        self.retire_which(Retirement::CreatedBefore(step), reason)
    }

    /// Ends every rollout whose old logps are of a ref version before `version`, as of now. Returns how many ended.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub fn retire_version_before(&self, version: u64, reason: Reason) -> Result<u64> {
        self.retire_which(Retirement::VersionBefore(version), reason)
    }

    /// Ends the rollouts of whole groups, as of now. Returns how many rollouts ended.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub fn retire_groups(&self, groups: &[u64], reason: Reason) -> Result<u64> {
        self.retire_which(Retirement::Groups(groups.to_vec()), reason)
    }

    pub(super) fn retire_which(&self, which: Retirement, reason: Reason) -> Result<u64> {
        let written = self.commit(&[Op::Retire { which, reason }])?;
        Ok(if let [Outcome::Retired(count)] = written.outcomes[..] { count } else { 0 })
    }

    /// How many rollouts a retirement would end now. A dry run: nothing is written.
    #[must_use]
    pub fn would_retire(&self, which: &Retirement) -> u64 {
        let index = &self.core.published.read().index;
        let count = match which {
            Retirement::Ids(ids) => distinct(ids).filter(|id| index.get(*id).is_some()).count(),
            Retirement::CreatedBefore(step) => index.count_created_before(*step),
            Retirement::CreatedAfter(step) => index.count_created_after(*step),
            Retirement::VersionBefore(version) => index.count(None, |of| of < *version),
            Retirement::Groups(groups) => distinct(groups).map(|group| index.group_len(group)).sum(),
        };
        count as u64
    }

    /// The live rollouts of a group, by id. O(result).
    #[must_use]
    pub fn group(&self, group: u64) -> Vec<RolloutId> {
        self.core.published.read().index.group(group)
    }
}

fn distinct<T: Copy + Ord>(values: &[T]) -> impl Iterator<Item = T> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values.into_iter()
}
