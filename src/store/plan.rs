//! Plans: which log-probs must be computed, and where the results go.
//!
//! Always true:
//! - P1. A result is stored only where the rollout is the same incarnation, with the same log-probs, as when the plan was
//!   made; anything else is late, dropped and counted.
//! - P2. A result carries the version and the step of its plan, never those of the moment when it arrives.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::entry::EntryKind;
use crate::ids::{Lsn, RolloutId};
use crate::log::event::Incarnation;
use crate::state::State;
use crate::store::column::Column;
use crate::store::new_rollout::check_logps;
use crate::store::prepare::Prepared;
use crate::store::stage::{Op, Update};
use crate::store::view::Rollout;

/// Rollouts whose old logps must be computed. Made by [`crate::RolloutStore::plan_for`] and
/// [`crate::RolloutStore::plan_due`], used up by [`crate::RolloutStore::apply`].
///
/// A plan belongs to the open store that made it: after a reopen, restore or rewind its results are dropped.
/// A clone stands for the same work: of two that are applied, the results that come later are dropped.
#[derive(Debug, Clone)]
#[must_use = "a plan says what to compute; `apply` stores the results"]
pub struct Plan {
    pub(crate) instance: u64,
    pub(crate) kind: EntryKind,
    pub(crate) step: u64,
    pub(crate) version: u64,
    pub(crate) planned_version: u64,
    /// LSN of the state that it was made of.
    pub(crate) as_of: Lsn,
    pub(crate) items: Vec<PlanItem>,
    pub(crate) positions: Vec<usize>,
    pub(crate) damaged: Vec<RolloutId>,
}

/// One rollout of a plan, as it was at hand-out.
#[derive(Debug, Clone)]
pub(crate) struct PlanItem {
    pub(crate) rollout: Arc<Rollout>,
    /// LSN of the log-probs that the result is to replace; none where they are missing.
    pub(crate) replaces: Lsn,
}

impl Plan {
    /// A plan of nothing yet, made of `state`.
    pub(crate) fn new(instance: u64, kind: EntryKind, state: &State, step: u64) -> Self {
        let clock = if kind == EntryKind::KlRefLogps { &state.kl_clock } else { &state.ref_clock };
        let (version, as_of) = (clock.current, state.lsn);
        let (items, positions, damaged) = (Vec::new(), Vec::new(), Vec::new());
        Self { instance, kind, step, version, planned_version: version, as_of, items, positions, damaged }
    }

    /// Takes in a rollout whose log-probs of LSN `replaces` are to be computed.
    pub(crate) fn push(&mut self, position: usize, rollout: Rollout, replaces: Lsn) {
        self.items.push(PlanItem { rollout: Arc::new(rollout), replaces });
        self.positions.push(position);
    }

    /// The rollouts to compute, oldest born first, then by id; for [`crate::RolloutStore::plan_for`] in the order asked.
    #[must_use]
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RolloutId> {
        self.items.iter().map(|item| item.rollout.id())
    }

    /// Views of the rollouts, in the order of [`Plan::ids`]: token ids to run the model on.
    #[must_use]
    pub fn rollouts(&self) -> impl ExactSizeIterator<Item = &Rollout> {
        self.items.iter().map(|item| &*item.rollout)
    }

    /// The same views, for a caller who keeps them longer than the plan.
    #[must_use]
    pub fn shared_rollouts(&self) -> impl ExactSizeIterator<Item = Arc<Rollout>> {
        self.items.iter().map(|item| Arc::clone(&item.rollout))
    }

    /// The rollouts at these places as a plan of their own, for a worker or a micro-batch: results of the parts are applied
    /// one by one. Places beyond the end are passed over, and damaged rollouts stay with the whole plan.
    ///
    /// # How do I compute a plan in micro-batches?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, Results, RolloutStore};
    /// # let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// # for id in 0..5 {
    /// #     store.insert(NewRollout::new(id, 100).completion_ids(&[1, 2][..]))?;
    /// # }
    /// let plan = store.plan_for(&store.ids(), 100)?;
    /// for start in (0..plan.len()).step_by(2) {
    ///     let part = plan.part(start..start + 2);
    ///     let results: Results = part.ids().map(|id| (id, vec![-0.5; 2])).collect();
    ///     store.apply(part, results)?; // on disk when it returns
    /// }
    /// assert!(store.plan_for(&store.ids(), 100)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn part(&self, places: Range<usize>) -> Self {
        let end = places.end.min(self.items.len());
        let places = places.start.min(end)..end;
        let items = self.items.get(places.clone()).unwrap_or_default().to_vec();
        let positions = self.positions.get(places).unwrap_or_default().to_vec();
        Self { items, positions, damaged: Vec::new(), ..*self }
    }

    /// For a plan of given ids: the place of each rollout among them, so that results find their rows in the caller's
    /// batch. For other plans `0..len`.
    #[must_use]
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Rollouts that are due but cannot be read; they are not part of the plan. `verify` says more.
    #[must_use]
    pub fn damaged(&self) -> &[RolloutId] {
        &self.damaged
    }

    /// The number of rollouts to compute.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether everything is fresh.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The step that the plan was made at: the born step of its results.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The version that results are recorded under: the one current when the plan was made.
    #[must_use]
    pub fn ref_version(&self) -> u64 {
        self.version
    }

    /// Prompt and completion tokens of all its rollouts.
    #[must_use]
    pub fn token_count(&self) -> u64 {
        self.rollouts().map(|rollout| u64::from(rollout.token_count())).sum()
    }

    /// States the version whose weights are really used, where they are not the current ones (a worker that is behind).
    pub fn made_with(mut self, version: u64) -> Self {
        self.version = version;
        self
    }

    /// Checks results against the plan and prepares their frames. Also returns how many rollouts have none.
    pub(crate) fn into_op<'a>(self, results: Results) -> Result<(Op<'a>, u64)> {
        let mut seen = HashSet::with_capacity(results.rows.len());
        let mut items: HashMap<RolloutId, &PlanItem> =
            self.items.iter().map(|item| (item.rollout.id(), item)).collect();
        let mut updates = Vec::with_capacity(results.rows.len());
        for (id, logps) in results.rows {
            if !seen.insert(id) {
                return Err(Error::invalid(format!("rollout {id} has two results in one plan")).of(id));
            }
            let Some(item) = items.remove(&id) else {
                return Err(Error::invalid(format!("rollout {id} has a result and is not part of the plan")).of(id));
            };
            updates.push(self.update(item, logps)?);
        }
        let declined = items.len() as u64;
        Ok((Op::Apply { instance: self.instance, updates }, declined))
    }

    /// As [`Self::into_op`], for a caller who goes on without the rollouts whose results cannot be taken: those, and the
    /// ones that failed or have none, come back with the reason.
    pub(crate) fn into_sound_op<'a>(self, results: Results) -> Result<(Op<'a>, Vec<(Incarnation, String)>)> {
        let mut given: HashMap<RolloutId, Result<Vec<f32>, String>> = HashMap::with_capacity(self.items.len());
        let failed = results.failed.into_iter().map(|(id, why)| (id, Err(why)));
        for (id, result) in results.rows.into_iter().map(|(id, logps)| (id, Ok(logps))).chain(failed) {
            if given.insert(id, result).is_some() {
                return Err(Error::invalid(format!("rollout {id} has two results in one plan")).of(id));
            }
        }
        let (mut updates, mut refused) = (Vec::with_capacity(given.len()), Vec::new());
        for item in &self.items {
            let (id, insert_lsn) = (item.rollout.id(), item.rollout.insert_lsn());
            let update = match given.remove(&id) {
                Some(Ok(logps)) => match self.update(item, logps) {
                    Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Damaged) => {
                        Err(error.to_string())
                    }
                    update => Ok(update?),
                },
                Some(Err(why)) => Err(why),
                None => Err("the closure gave no result".to_owned()),
            };
            match update {
                Ok(update) => updates.push(update),
                Err(why) => refused.push((Incarnation { id, insert_lsn }, why)),
            }
        }
        if let Some(id) = given.into_keys().next() {
            return Err(Error::invalid(format!("rollout {id} has a result and is not part of the plan")).of(id));
        }
        Ok((Op::Apply { instance: self.instance, updates }, refused))
    }

    fn update(&self, item: &PlanItem, logps: Vec<f32>) -> Result<Update> {
        let (id, rollout) = (item.rollout.id(), &item.rollout);
        let column = if self.kind == EntryKind::KlRefLogps { Column::KlRefLogps } else { Column::OldLogps };
        let per_token = [Column::CompletionIds, Column::SamplerLogps, Column::OldLogps];
        let expected = rollout.columns().into_iter().find(|info| per_token.contains(&info.column));
        if let Some(expected) = expected.filter(|info| info.len != logps.len()) {
            let (wanted, len) = (expected.len, logps.len());
            let of = expected.column;
            return Err(
                Error::invalid(format!("rollout {id}: {column} computed has {len} values, {of} has {wanted}")).of(id)
            );
        }
        let mask = if rollout.has(&Column::LossMask) { Some(rollout.loss_mask()?) } else { None };
        check_logps(id, &column, &logps, mask)?;
        let prepared = Prepared::update(self.kind, id, rollout.insert_lsn(), self.step, self.version, logps);
        Ok(Update { prepared, replaces: item.replaces, version: self.version, planned_version: self.planned_version })
    }
}

/// Computed log-probs, by rollout. Rollouts left out are declined and stay as they were.
///
/// ```
/// # use rollstore::Results;
/// let mut results = Results::new();
/// results.push(7.into(), vec![-0.5, -0.25]);
/// assert_eq!(results.len(), 1);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Results {
    rows: Vec<(RolloutId, Vec<f32>)>,
    failed: Vec<(RolloutId, String)>,
}

impl Results {
    /// No results yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The log-probs of one rollout, in nats. Shape `[token_count]`.
    pub fn push(&mut self, id: RolloutId, logps: impl Into<Vec<f32>>) {
        self.rows.push((id, logps.into()));
    }

    /// Says that the computation failed for this one, and why. Like a rollout left out it stays as it was; a
    /// [`Sweep`](crate::Sweep) sets it aside and reports the reason.
    pub fn fail(&mut self, id: RolloutId, why: impl fmt::Display) {
        self.failed.push((id, why.to_string()));
    }

    /// The rollouts with results.
    #[must_use]
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RolloutId> {
        self.rows.iter().map(|(id, _)| *id)
    }

    /// The number of rollouts with results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl FromIterator<(RolloutId, Vec<f32>)> for Results {
    fn from_iter<I: IntoIterator<Item = (RolloutId, Vec<f32>)>>(rows: I) -> Self {
        Self { rows: rows.into_iter().collect(), failed: Vec::new() }
    }
}

/// What became of a plan's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Results that were stored.
    pub computed: u64,
    /// Results that came late: the rollout was retired, replaced or computed by someone else meanwhile.
    pub dropped: u64,
    /// Rollouts of the plan without a result.
    pub declined: u64,
}
