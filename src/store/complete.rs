//! Scans and plans that see complete groups alone: advantages of a group mean nothing while part of it is missing.
//!
//! Always true:
//! - G1. A call sees one committed state: which groups are complete, and what is due in them.

use crate::error::Result;
use crate::format::entry::Has;
use crate::ids::RolloutId;
use crate::index::Entry;
use crate::store::RolloutStore;
use crate::store::budget::Budget;
use crate::store::core::Published;
use crate::store::plan::Plan;

/// The rollouts of a store whose groups are complete. Made by [`RolloutStore::complete_groups`]; its calls answer as those of
/// the same names of the store do, with all other rollouts left out.
#[derive(Debug, Clone, Copy)]
#[must_use = "a filter does nothing by itself"]
pub struct CompleteGroups<'a> {
    store: &'a RolloutStore,
    group_len: usize,
}

impl RolloutStore {
    /// Only rollouts of groups with at least so many live rollouts: with the number that you sample for each prompt, groups
    /// that are complete. Rollouts without a group are left out; 0 leaves nothing out. Sweeps have the same filter:
    /// [`Sweep::complete_groups`](crate::Sweep::complete_groups).
    ///
    /// # How do I plan for whole groups alone?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{Budget, NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// for (id, group) in [(0, 7), (1, 7), (2, 8)] {
    ///     store.insert(NewRollout::new(id, 100).completion_ids(&[1, 2][..]).group(group))?;
    /// }
    /// let complete = store.complete_groups(2);
    /// assert_eq!(complete.needs_recompute(110).len(), 2);
    /// assert_eq!(complete.plan_due(110, Budget::unlimited())?.len(), 2);
    /// assert_eq!(store.needs_recompute(110).len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn complete_groups(&self, group_len: usize) -> CompleteGroups<'_> {
        CompleteGroups { store: self, group_len }
    }
}

impl CompleteGroups<'_> {
    /// Every live rollout of a complete group, oldest born first, then by id.
    #[must_use]
    pub fn ids(&self) -> Vec<RolloutId> {
        let published = self.store.core.published.read();
        self.filter(&published, published.index.all_in_order(), |_| true)
    }

    /// As [`RolloutStore::out_of_window`].
    #[must_use]
    pub fn out_of_window(&self, step: u64) -> Vec<RolloutId> {
        self.select(&self.store.core.published.read(), self.store.core.rules.born_below(step), |_| false)
    }

    /// As [`RolloutStore::stale`].
    #[must_use]
    pub fn stale(&self) -> Vec<RolloutId> {
        let published = self.store.core.published.read();
        self.select(&published, None, self.store.is_stale(&published))
    }

    /// As [`RolloutStore::needs_recompute`].
    #[must_use]
    pub fn needs_recompute(&self, step: u64) -> Vec<RolloutId> {
        let published = self.store.core.published.read();
        self.select(&published, self.store.core.rules.born_below(step), self.store.is_stale(&published))
    }

    /// As [`RolloutStore::missing`]. Looks at every rollout.
    #[must_use]
    pub fn missing(&self) -> Vec<RolloutId> {
        let published = self.store.core.published.read();
        let is_missing = |entry: &Entry| !entry.has.contains(Has::OLD);
        self.filter(&published, published.index.all_in_order(), is_missing)
    }

    /// As [`RolloutStore::plan_due`]: what of complete groups is due. A group that lost a rollout meanwhile is not planned for.
    ///
    /// # Errors
    /// As for [`RolloutStore::plan_due`].
    pub fn plan_due(&self, step: u64, budget: Budget) -> Result<Plan> {
        self.store.plan_due_of(self.group_len, step, budget)
    }

    fn select(&self, published: &Published, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> Vec<RolloutId> {
        self.filter(published, published.index.select(born_below, stale), |_| true)
    }

    fn filter(
        &self,
        published: &Published,
        mut ids: Vec<RolloutId>,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Vec<RolloutId> {
        let index = &published.index;
        let is_taken = |entry: Entry| index.is_in_group_of(&entry, self.group_len) && wanted(&entry);
        ids.retain(|id| index.get(*id).is_some_and(is_taken));
        ids
    }
}
