//! Which rollouts are out of window, stale, due or missing: from the index, touching only what is returned.
//!
//! A scan copies whole lists and puts them in no order: most callers need none, and it would cost many times the scan. What
//! hands out in order ([`RolloutStore::ids`], plans, sweeps) sorts what it hands out.

use crate::error::{Error, Result};
use crate::format::entry::Has;
use crate::ids::RolloutId;
use crate::rules::Staleness;
use crate::store::RolloutStore;
use crate::store::core::Published;

impl RolloutStore {
    /// Every live rollout, oldest born first, then by id.
    #[must_use]
    pub fn ids(&self) -> Vec<RolloutId> {
        self.core.published.read().index.all_in_order()
    }

    /// Rollouts whose `age = step - born_step` is above the window. O(result), in no promised order.
    #[must_use]
    pub fn out_of_window(&self, step: u64) -> Vec<RolloutId> {
        self.core.published.read().index.select(self.core.rules.born_below(step), |_| false)
    }

    /// Rollouts whose old logps are more than `max_version_lag` advances behind, or of an abandoned version. O(result), in no
    /// promised order.
    #[must_use]
    pub fn stale(&self) -> Vec<RolloutId> {
        let published = self.core.published.read();
        published.index.select(None, self.is_stale(&published))
    }

    /// Rollouts that are out of window or stale: what [`RolloutStore::plan_due`] hands out most urgent first, here in no
    /// promised order. Those that are merely missing are computed when they are asked for. O(result).
    #[must_use]
    pub fn needs_recompute(&self, step: u64) -> Vec<RolloutId> {
        let published = self.core.published.read();
        published.index.select(self.core.rules.born_below(step), self.is_stale(&published))
    }

    /// Rollouts born more than the step skew after `step`: never fresh at it. O(result), in no promised order.
    #[must_use]
    pub fn from_future(&self, step: u64) -> Vec<RolloutId> {
        self.core.published.read().index.born_above(step.saturating_add(self.core.rules.step_skew))
    }

    /// Rollouts without old logps, ordered by born step, then id. Looks at every rollout.
    #[must_use]
    pub fn missing(&self) -> Vec<RolloutId> {
        let published = self.core.published.read();
        let mut missing: Vec<_> = published
            .index
            .iter()
            .filter(|entry| !entry.has.contains(Has::OLD))
            .map(|entry| (entry.born_step, entry.id))
            .collect();
        missing.sort_unstable();
        missing.into_iter().map(|(_, id)| id).collect()
    }

    /// The flags of these rollouts at `step`, in the order given, as of one committed state. Looks at the index alone: no array
    /// is read.
    ///
    /// # Which of my batch must be computed, and why?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5][..], 0))?;
    /// store.insert(NewRollout::new(2, 100))?;
    /// let flags = store.staleness(&[2.into(), 1.into()], 105)?;
    /// assert_eq!((flags[0].missing, flags[1].is_fresh()), (true, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an id that is not live, `Invalid` for a closed store.
    pub fn staleness(&self, ids: &[RolloutId], step: u64) -> Result<Vec<Staleness>> {
        self.core.check_open()?;
        let published = self.core.published.read();
        let of = |id: &RolloutId| {
            let entry = published.index.get(*id);
            let entry = entry.ok_or_else(|| Error::not_found(format!("rollout {id} is not live")).of(*id))?;
            Ok(self.core.rules.staleness(&published.state.ref_clock, &entry, step))
        };
        ids.iter().map(of).collect()
    }

    /// How many rollouts are out of window at `step`, without listing them.
    #[must_use]
    pub fn count_out_of_window(&self, step: u64) -> u64 {
        self.core.published.read().index.count(self.core.rules.born_below(step), |_| false) as u64
    }

    /// How many rollouts are stale, without listing them.
    #[must_use]
    pub fn count_stale(&self) -> u64 {
        let published = self.core.published.read();
        published.index.count(None, self.is_stale(&published)) as u64
    }

    /// How many rollouts are due at `step`, without listing them.
    #[must_use]
    pub fn count_needs_recompute(&self, step: u64) -> u64 {
        let published = self.core.published.read();
        published.index.count(self.core.rules.born_below(step), self.is_stale(&published)) as u64
    }

    /// How many rollouts are from the future at `step`, without listing them.
    #[must_use]
    pub fn count_from_future(&self, step: u64) -> u64 {
        self.core.published.read().index.count_born_above(step.saturating_add(self.core.rules.step_skew)) as u64
    }

    /// How many rollouts have no old logps. Looks at every rollout.
    #[must_use]
    pub fn count_missing(&self) -> u64 {
        self.core.published.read().index.iter().filter(|entry| !entry.has.contains(Has::OLD)).count() as u64
    }

    pub(super) fn is_stale<'a>(&self, published: &'a Published) -> impl Fn(u64) -> bool + 'a {
        let rules = self.core.rules;
        move |version| rules.is_stale(&published.state.ref_clock, version)
    }
}
