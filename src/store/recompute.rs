//! Plans from the index, and the sugar that runs them: lazily for given ids, or under a budget for what is due.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::entry::EntryKind;
use crate::ids::{Lsn, RolloutId};
use crate::state::State;
use crate::store::RolloutStore;
use crate::store::budget::Budget;
use crate::store::plan::{Applied, Plan, Results};
use crate::store::snapshot::Snapshot;
use crate::store::sweep;
use crate::store::view::Rollout;

/// Where the old logps of a [`Served`] rollout come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedFrom {
    /// They were fresh.
    Stored,
    /// The closure computed them in this call.
    Computed,
    /// They are not fresh, and the closure gave none.
    Declined,
    /// The rollout was replaced or computed by someone else meanwhile, and what it has now is not fresh.
    Late,
}

/// One rollout as [`RolloutStore::get_or_compute`] serves it.
#[derive(Debug)]
pub struct Served {
    rollout: Rollout,
    source: ServedFrom,
}

impl Served {
    /// The rollout behind the call.
    #[must_use]
    pub fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    /// Where its old logps come from.
    #[must_use]
    pub fn source(&self) -> ServedFrom {
        self.source
    }

    /// The old logps, in nats. Shape `[token_count]`.
    ///
    /// # Errors
    /// `Invalid` where they are not fresh because the closure declined them or the rollout changed meanwhile; `Damaged`, `Io`.
    pub fn old_logps(&self) -> Result<&[f32]> {
        let why = match self.source {
            ServedFrom::Stored | ServedFrom::Computed => return self.rollout.old_logps(),
            ServedFrom::Declined => "the closure declined it",
            ServedFrom::Late => "it was replaced or computed meanwhile",
        };
        let id = self.rollout.id();
        Err(Error::invalid(format!("rollout {id} has no fresh old_logps: {why}; ask again")).of(id))
    }
}

/// What [`RolloutStore::recompute`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recomputed {
    /// Results that were stored.
    pub computed: u64,
    /// Results that came late.
    pub dropped: u64,
    /// Rollouts that the closure gave no result for.
    pub declined: u64,
    /// Closure calls, each with a commit of its own.
    pub micro_batches: u64,
}

impl RolloutStore {
    /// What must be computed for these ids before they are used at `step`, and where it goes: those that are missing,
    /// stale, out of window or from the future. An id given twice is planned once.
    ///
    /// # Errors
    /// `NotFound` for an id that is not live; `Invalid` for a step that the trainer cannot be at, and from inside a weight
    /// update's closure; `Damaged` for a rollout that cannot be read.
    pub fn plan_for(&self, ids: &[RolloutId], step: u64) -> Result<Plan> {
        let _gate = self.core.gate.plan()?;
        let (snapshots, state) = self.look_up(ids, step)?;
        let mut plan = Plan::new(self.core.instance, EntryKind::OldLogps, &state, step);
        let mut planned = HashSet::new();
        let (mut fresh, mut again, mut first_time) = (0, 0, Vec::new());
        for (position, snapshot) in snapshots.into_iter().enumerate() {
            let entry = snapshot.entry;
            first_time.extend(snapshot.first_time());
            let staleness = self.core.rules.staleness(&state.ref_clock, &entry, step);
            if staleness.is_fresh() {
                fresh += 1;
            } else if planned.insert(entry.id) {
                again += u64::from(!staleness.missing);
                plan.push(position, snapshot.open(&self.core.rules)?, entry.old_lsn);
            }
        }
        self.core.asked(ids.len() as u64, fresh, first_time);
        self.core.usage.planned(fresh, again);
        Ok(plan)
    }

    /// What is out of window or stale at `step`, most urgent first (oldest born, then id), as far as the budget goes.
    /// Rollouts that are merely missing are not due: nothing is computed that no one uses.
    ///
    /// # Errors
    /// `Invalid` for a step that the trainer cannot be at, and from inside a weight update's closure.
    pub fn plan_due(&self, step: u64, budget: Budget) -> Result<Plan> {
        self.plan_due_of(0, step, budget)
    }

    /// The same, of groups with at least so many live rollouts; 0 for all rollouts.
    pub(super) fn plan_due_of(&self, group_len: usize, step: u64, budget: Budget) -> Result<Plan> {
        let _gate = self.core.gate.plan()?;
        self.core.check_open()?;
        let mut damaged = Vec::new();
        loop {
            let mut plan = self.plan_readable(group_len, step, budget)?;
            if plan.damaged.is_empty() {
                plan.damaged = damaged;
                return Ok(plan);
            }
            // They are passed over from now on: the most urgent ones would otherwise use up each budget for ever.
            damaged.append(&mut plan.damaged);
        }
    }

    /// What is due, but for rollouts that are known to be unreadable; newly found ones are noted and told.
    fn plan_readable(&self, group_len: usize, step: u64, budget: Budget) -> Result<Plan> {
        let published = self.core.published.read();
        let (state, rules) = (Arc::clone(&published.state), self.core.rules);
        rules.check_acted(state.clock, step)?;
        let is_stale = |version| rules.is_stale(&state.ref_clock, version);
        let unreadable = self.core.unreadable.lock().clone();
        let in_order = published.index.select_in_order(rules.born_below(step), is_stale);
        let index = &published.index;
        let entries = in_order.filter_map(|id| index.get(id)).filter(|entry| index.is_in_group_of(entry, group_len));
        let readable = entries.filter(|entry| !unreadable.contains(&(entry.id, entry.insert_lsn)));
        let mut due = Vec::new();
        let fitting = budget.fitting(readable.inspect(|entry| due.push(entry.id)).map(|entry| entry.token_count));
        due.truncate(fitting);
        let snapshots = Snapshot::of_all(&published, &due)?;
        drop(published);
        let mut plan = Plan::new(self.core.instance, EntryKind::OldLogps, &state, step);
        for snapshot in snapshots {
            let (id, insert_lsn, replaces) = (snapshot.entry.id, snapshot.entry.insert_lsn, snapshot.entry.old_lsn);
            match snapshot.open(&rules) {
                Ok(rollout) => plan.push(plan.len(), rollout, replaces),
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    tracing::warn!(%id, %error, "a rollout that is due cannot be read and is left out");
                    self.core.unreadable.lock().insert((id, insert_lsn));
                    plan.damaged.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(plan)
    }

    /// What must be computed for these ids before their KL reference log-probs are used: those that have none, or none of
    /// the current KL reference version.
    ///
    /// # Errors
    /// As for [`RolloutStore::plan_for`].
    pub fn plan_kl_ref_for(&self, ids: &[RolloutId], step: u64) -> Result<Plan> {
        let _gate = self.core.gate.plan()?;
        let (snapshots, state) = self.look_up(ids, step)?;
        let mut plan = Plan::new(self.core.instance, EntryKind::KlRefLogps, &state, step);
        let mut planned = HashSet::new();
        for (position, snapshot) in snapshots.into_iter().enumerate() {
            let (id, kl) = (snapshot.entry.id, snapshot.newest_kl);
            if kl.is_none_or(|kl| kl.version != plan.version) && planned.insert(id) {
                let replaces = kl.map_or(Lsn::NONE, |kl| kl.lsn);
                plan.push(position, snapshot.open(&self.core.rules)?, replaces);
            }
        }
        Ok(plan)
    }

    /// Live rollouts as of one committed state, for a plan at `step`.
    fn look_up(&self, ids: &[RolloutId], step: u64) -> Result<(Vec<Snapshot>, Arc<State>)> {
        self.core.check_open()?;
        let published = self.core.published.read();
        self.core.rules.check_acted(published.state.clock, step)?;
        Ok((Snapshot::of_all(&published, ids)?, Arc::clone(&published.state)))
    }

    /// Stores the results of a plan in one commit. A result commits only where the rollout is what it was at hand-out; it
    /// keeps the plan's version and step, so that an advance meanwhile leaves it stale.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be log-probs (checked before lateness), a wrong length, or an id that is not of
    /// the plan: nothing is stored then. `Full`, `Poisoned`, `Io`.
    pub fn apply(&self, plan: Plan, results: Results) -> Result<Applied> {
        let mut batch = self.batch();
        batch.apply(plan, results)?;
        Ok(batch.commit()?.applied.first().copied().unwrap_or_default())
    }

    /// The old logps of these ids, fresh at `step`: stored ones where they are fresh, computed ones where not. One
    /// closure call for all that must be computed, one commit. The closure runs with no lock held and may use the store;
    /// where it fails or panics, nothing is stored.
    ///
    /// # How do I compute lazily, only what is used?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, Results, RolloutStore, ServedFrom};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 100).completion_ids(&[5, 6][..]))?;
    /// let served = store.get_or_compute(&[1.into()], 100, |work| {
    ///     let forward = |tokens: &[u32]| vec![-0.5; tokens.len()];
    ///     work.rollouts().map(|rollout| Ok((rollout.id(), forward(rollout.completion_ids()?)))).collect::<Result<Results, rollstore::Error>>()
    /// })?;
    /// assert_eq!((served[0].old_logps()?, served[0].source()), (&[-0.5, -0.5][..], ServedFrom::Computed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RolloutStore::plan_for`] and [`RolloutStore::apply`]; `Compute` where the closure fails.
    pub fn get_or_compute<E>(
        &self,
        ids: &[RolloutId],
        step: u64,
        compute: impl FnOnce(&Plan) -> Result<Results, E>,
    ) -> Result<Vec<Served>>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let plan = self.plan_for(ids, step)?;
        let planned: HashSet<RolloutId> = plan.ids().collect();
        let (version, as_of, mut given) = (plan.version, plan.as_of, HashSet::new());
        if !plan.is_empty() {
            let results = compute(&plan).map_err(failed)?;
            given.extend(results.ids());
            self.apply(plan, results)?;
        }
        let snapshots = Snapshot::of_all(&self.core.published.read(), ids)?;
        let serve = |snapshot: Snapshot| {
            let rollout = snapshot.open(&self.core.rules)?;
            let id = rollout.id();
            let is_new = rollout.insert_lsn() > as_of;
            let is_result = (rollout.ref_version(), rollout.born_step()) == (version, step);
            let source = if given.contains(&id) && is_result && !is_new {
                ServedFrom::Computed
            } else if rollout.staleness(step).is_fresh() || !(is_new || planned.contains(&id)) {
                // What was fresh when the call began is served, whatever advanced meanwhile.
                ServedFrom::Stored
            } else if is_new || given.contains(&id) {
                ServedFrom::Late
            } else {
                ServedFrom::Declined
            };
            Ok(Served { rollout, source })
        };
        snapshots.into_iter().map(serve).collect()
    }

    /// Computes what is due at `step`, most urgent first, within the budget: micro-batches of one closure call and one
    /// commit each, so that a crash costs at most one of them. Each rollout is handed out once at most.
    ///
    /// It remembers nothing: a rollout that was declined comes first the next time. [`RolloutStore::sweep`] sets such ones
    /// aside.
    ///
    /// # How do I spread the recompute spike?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{Budget, NewRollout, Results, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// for id in 0..5 {
    ///     store.insert(NewRollout::new(id, 0).completion_ids(&[1, 2][..]))?;
    /// }
    /// let mut spread = Vec::new();
    /// for step in 100..104 {
    ///     let done = store.recompute(step, Budget::rollouts(2), |work| {
    ///         Ok::<_, std::convert::Infallible>(work.ids().map(|id| (id, vec![-0.5, -0.5])).collect::<Results>())
    ///     })?;
    ///     spread.push(done.computed);
    /// }
    /// assert_eq!(spread, [2, 2, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RolloutStore::plan_due`] and [`RolloutStore::apply`]; `Compute` where the closure fails: the
    /// micro-batches before it stay stored.
    pub fn recompute<E>(
        &self,
        step: u64,
        budget: Budget,
        mut compute: impl FnMut(&Plan) -> Result<Results, E>,
    ) -> Result<Recomputed>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        sweep::run_once(self, step, budget, &mut compute)
    }
}

pub(super) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let source: Box<dyn std::error::Error + Send + Sync> = error.into();
    let what: &dyn fmt::Display = &source;
    Error::new(ErrorKind::Compute, format!("the compute closure failed, nothing of it was stored: {what}"))
        .caused_by(source)
}
