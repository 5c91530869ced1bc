//! Sweeps: named passes over many rollouts that survive restarts, and the loop that `recompute` runs too.
//!
//! May touch what the store's other rooms offer. Knows nothing of files.
//!
//! Always true:
//! - S1. What a commit stored is not computed again by the same pass, whatever is killed and opened again.
//! - S2. One rollout that cannot be computed keeps no other from it.

pub(crate) mod aside;
pub(crate) mod progress;
pub(crate) mod query;
mod run;

use crate::error::{Error, Result};
use crate::format::entry::EntryKind;
use crate::format::manifest::{SweepProgress, SweepRecord};
use crate::ids::{Lsn, RolloutId};
use crate::limits;
use crate::log::event::Clock;
use crate::planted::{Bug, planted};
use crate::state::State;
use crate::store::RolloutStore;
use crate::store::budget::Budget;
use crate::store::plan::{Plan, Results};
use crate::store::recompute::Recomputed;
use crate::store::stage::{Op, Outcome};
use aside::{Aside, SetAside};
use progress::{Move, check_room};
use query::{Order, Query, Selection};
use run::{Manner, Run, Stored};

/// Rollouts of one micro-batch unless a sweep says otherwise: each is one closure call and one commit.
const MICRO_BATCH_ROLLOUTS: usize = 64;

/// Attempts behind the first one unless a sweep says otherwise.
const RETRIES: u32 = 2;

/// A pass over many rollouts, computed in micro-batches under a budget, that goes on where it was after a restart. Made by
/// [`RolloutStore::sweep`]; may be run again and again, at a later step too.
///
/// **What is left.** Where results take rollouts out of the query ([`Query::NeedsRecompute`], [`Query::Stale`],
/// [`Query::OutOfWindow`]), that is the progress, and nothing else is stored. Otherwise ([`Query::CreatedBefore`],
/// [`Query::All`]) a pass computes the rollouts that were there when it began, each once: when it began, and how far it has
/// come, are part of the same commit as each micro-batch's results. What was computed by someone else meanwhile counts as
/// computed; what is inserted meanwhile waits for the next pass. A finished pass begins anew when it is run at another step
/// or version, and does nothing at the same ones, so that a process that was killed behind the last commit may ask again;
/// [`RolloutStore::forget_sweep`] makes it begin anew at once. So does a rewind; a restore brings back the progress of the
/// checkpoint, as it does everything else. Progress belongs to the name: with another query or order, a pass that is under
/// way goes on with what of the new query was there when it began and was not written since.
///
/// **What fails.** A rollout that the closure gives no result for, or says of that it failed ([`Results::fail`]), or whose
/// result cannot be log-probs, is set aside. Where the closure itself fails or panics, the call ends, and the rollouts of
/// its micro-batch are set aside as suspects, since nobody can tell whose fault it was. What is set aside comes behind all
/// others, suspects one at a time, and is given up once it failed by itself once more than [`Sweep::retries`] says. All are
/// reported. New weights begin anew with everyone.
///
/// **What survives a restart.** Results and progress do. Which rollouts were set aside does not: after a restart each is
/// tried again, behind the others where the pass has a position, in its place otherwise. So a rollout whose computation
/// kills the whole process is handed out again first; name its like to the filter of your closure, or
/// [retire](RolloutStore::retire) it.
///
/// # How do I compute everything once, whatever is killed?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{Budget, NewRollout, Order, Query, Results, RolloutStore};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// for id in 0..5 {
///     store.insert(NewRollout::new(id, 100).completion_ids(&[1, 2][..]).old_logps(&[-0.5; 2][..], 0))?;
/// }
/// let forward = |work: &rollstore::Plan| {
///     Ok::<_, std::convert::Infallible>(work.ids().map(|id| (id, vec![-0.25; 2])).collect::<Results>())
/// };
/// let swept = store.sweep("refresh", Query::All).order(Order::LogOrder).run(101, Budget::rollouts(3), forward)?;
/// assert_eq!((swept.computed, swept.finished), (3, false));
/// drop(store); // or killed
///
/// let store = RolloutStore::options().open(dir.path().join("rollouts"))?;
/// let swept = store.sweep("refresh", Query::All).order(Order::LogOrder).run(101, Budget::unlimited(), forward)?;
/// assert_eq!((swept.computed, swept.finished), (2, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # How do I keep one poisoned rollout from blocking the rest?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{Budget, NewRollout, Query, Results, RolloutStore};
/// # let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// # for id in 0..5 {
/// #     store.insert(NewRollout::new(id, 0).completion_ids(&[1, 2][..]))?;
/// # }
/// let swept = store.sweep("due", Query::NeedsRecompute).retries(1).run(100, Budget::unlimited(), |work| {
///     let mut results = Results::new();
///     for id in work.ids() {
///         if id.get() == 0 {
///             results.fail(id, "the prompt does not fit"); // or leave it out
///         } else {
///             results.push(id, vec![-0.25; 2]);
///         }
///     }
///     Ok::<_, std::convert::Infallible>(results)
/// })?;
/// assert_eq!((swept.computed, swept.finished), (4, true));
/// let [poisoned] = &swept.set_aside[..] else { panic!() };
/// assert_eq!((poisoned.id.get(), poisoned.attempts, poisoned.given_up), (0, 2, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a sweep computes nothing until `run`"]
pub struct Sweep<'a> {
    store: &'a RolloutStore,
    name: String,
    query: Query,
    order: Order,
    kind: EntryKind,
    group_len: usize,
    micro_batch: usize,
    retries: u32,
}

/// What [`Sweep::run`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Results that were stored.
    pub computed: u64,
    /// Results that came late.
    pub dropped: u64,
    /// Attempts that gave nothing that could be stored.
    pub failed: u64,
    /// Closure calls that came back, each with a commit of its own.
    pub micro_batches: u64,
    /// Rollouts whose computation failed, in this call or an earlier one, and did not succeed since; by id.
    pub set_aside: Vec<SetAside>,
    /// Whether nothing of the query is left but what was given up.
    pub finished: bool,
}

/// A sweep whose progress is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepStatus {
    /// Its name.
    pub name: String,
    /// The store's last LSN when the pass began.
    pub began: Lsn,
    /// The step that it last computed at.
    pub step: u64,
    /// The version that it last computed with: a ref version, or a version of the KL reference.
    pub version: u64,
    /// What it handed out last; `None` once it is finished.
    pub last: Option<RolloutId>,
    /// Whether the pass came to its end.
    pub finished: bool,
}

impl RolloutStore {
    /// A sweep over what `query` takes. The name is yours and stands for the sweep's progress: the same name again goes on.
    pub fn sweep(&self, name: impl Into<String>, query: Query) -> Sweep<'_> {
        Sweep {
            store: self,
            name: name.into(),
            query,
            order: Order::default(),
            kind: EntryKind::OldLogps,
            group_len: 0,
            micro_batch: MICRO_BATCH_ROLLOUTS,
            retries: RETRIES,
        }
    }

    /// The sweeps whose progress is stored. At most [`limits::SWEEPS_MAX`] are: of the finished ones, the oldest makes room
    /// for a new one.
    #[must_use]
    pub fn sweeps(&self) -> Vec<SweepStatus> {
        let status = |sweep: &SweepRecord| SweepStatus {
            name: sweep.name.clone(),
            began: sweep.progress.began,
            step: sweep.progress.step,
            version: sweep.progress.version,
            last: sweep.progress.at.map(|at| RolloutId::new(at.id)),
            finished: sweep.progress.at.is_none(),
        };
        self.core.published.read().state.sweeps.iter().map(status).collect()
    }

    /// Forgets how far a sweep has come: it begins anew when it is run the next time. Returns whether any progress was stored.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub fn forget_sweep(&self, name: &str) -> Result<bool> {
        let was = self.core.published.read().state.sweep(name);
        if was.is_none() {
            return Ok(false);
        }
        let forget = Op::Sweep(Move { name: name.to_owned(), clock: Clock::Ref, was, now: None });
        let written = self.commit(&[forget])?;
        Ok(written.outcomes == [Outcome::Done])
    }
}

impl Sweep<'_> {
    /// Hands out in this order.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Takes only rollouts of groups with at least so many live rollouts: with the number that you sample for each prompt,
    /// groups that are complete. Rollouts without a group are left out.
    pub fn complete_groups(mut self, group_len: usize) -> Self {
        self.group_len = group_len;
        self
    }

    /// Computes KL reference log-probs. Of the queries, [`Query::NeedsRecompute`], [`Query::CreatedBefore`] and
    /// [`Query::All`] then have a meaning.
    pub fn kl_ref(mut self) -> Self {
        self.kind = EntryKind::KlRefLogps;
        self
    }

    /// Hands out so many rollouts at a time, 64 unless given: each micro-batch is one closure call and one commit, and what a
    /// crash costs at most.
    pub fn micro_batch(mut self, rollouts: usize) -> Self {
        self.micro_batch = rollouts;
        self
    }

    /// Tries a rollout that failed so many times more, 2 unless given.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// How many rollouts are left to be computed at `step`. A dry run: nothing is written. What was set aside is counted,
    /// given up or not.
    ///
    /// # Errors
    /// `Invalid` as for [`Sweep::run`].
    pub fn left(&self, step: u64) -> Result<u64> {
        self.check()?;
        let published = self.store.core.published.read();
        let Some((selection, _)) = self.selection(&published.state, step) else { return Ok(0) };
        Ok(selection.list(&published, None, usize::MAX, |_| true).0.len() as u64)
    }

    /// Computes what is left at `step`, as far as the budget goes. The closure runs with no lock held and may use the store.
    ///
    /// # Errors
    /// `Invalid` for a step that the trainer cannot be at, an empty or too long name, a micro-batch of 0, a query that has no
    /// meaning for KL reference log-probs, too many sweeps under way, while the sweep of this name runs, from inside a weight
    /// update's closure, and for results of rollouts that were not asked for; `Compute` where the closure fails; as for
    /// [`RolloutStore::apply`]. The micro-batches before it stay stored.
    pub fn run<E>(
        &self,
        step: u64,
        budget: Budget,
        mut compute: impl FnMut(&Plan) -> Result<Results, E>,
    ) -> Result<Swept>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let core = &self.store.core;
        self.check()?;
        core.check_writable()?;
        let mut running = core.asides.take(&self.name)?;
        let (selection, was) = {
            let published = core.published.read();
            let state = &published.state;
            core.rules.check_acted(state.clock, step)?;
            let stored = state.sweep(&self.name);
            if !self.query.is_progress() && stored.is_none() {
                check_room(&state.sweeps)?;
            }
            let Some((selection, begins)) = self.selection(state, step) else {
                return Ok(Swept { set_aside: running.aside.report(), finished: true, ..Swept::default() });
            };
            if begins && stored.is_some() {
                running.aside.clear();
            }
            running.aside.with_version(selection.version(state));
            (selection, stored)
        };
        let manner = Manner { micro_batch: self.micro_batch, retries: self.retries, is_strict: false };
        let run = Run::new(self.store, selection, manner, budget, &mut running.aside);
        let run = if self.query.is_progress() { run } else { run.storing(Stored { name: &self.name, was }) };
        run.run(&mut compute)
    }

    /// What is to be computed now, and whether the pass begins; `None` where it is finished at this step and version.
    fn selection(&self, state: &State, step: u64) -> Option<(Selection, bool)> {
        let Self { query, order, kind, group_len, .. } = *self;
        let rules = self.store.core.rules;
        let new = Selection { query, order, kind, group_len, step, rules, began: state.lsn };
        match state.sweep(&self.name).filter(|_| !query.is_progress()) {
            None => Some((new, !query.is_progress())),
            Some(progress) if progress.at.is_some() && !planted(Bug::BeginSweepAnew) => {
                Some((Selection { began: progress.began, ..new }, false))
            }
            Some(SweepProgress { at: None, step: last, version, .. })
                if (last, version) == (step, new.version(state)) =>
            {
                None
            }
            Some(_) => Some((new, true)),
        }
    }

    fn check(&self) -> Result<()> {
        let (len, max) = (self.name.len(), limits::NAME_BYTES_MAX);
        if self.name.is_empty() || len > max {
            return Err(Error::invalid(format!("the name of a sweep takes {len} bytes; give 1 to {max}")));
        }
        if self.micro_batch == 0 {
            return Err(Error::invalid("a micro-batch of 0 rollouts never ends; give at least 1"));
        }
        if self.kind == EntryKind::KlRefLogps && matches!(self.query, Query::Stale | Query::OutOfWindow) {
            let query = self.query;
            return Err(Error::invalid(format!(
                "{query:?} speaks of old_logps; sweep KL reference log-probs by NeedsRecompute, CreatedBefore or All"
            )));
        }
        Ok(())
    }
}

/// The sweep that [`RolloutStore::recompute`] is: what needs it, once each, with nothing remembered.
pub(super) fn run_once<E>(
    store: &RolloutStore,
    step: u64,
    budget: Budget,
    compute: &mut dyn FnMut(&Plan) -> Result<Results, E>,
) -> Result<Recomputed>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let core = &store.core;
    core.check_open()?;
    let began = {
        let published = core.published.read();
        core.rules.check_acted(published.state.clock, step)?;
        published.state.lsn
    };
    let (query, order, kind, rules) = (Query::NeedsRecompute, Order::OldestBornFirst, EntryKind::OldLogps, core.rules);
    let selection = Selection { query, order, kind, group_len: 0, step, rules, began };
    let manner = Manner { micro_batch: MICRO_BATCH_ROLLOUTS, retries: 0, is_strict: true };
    let mut aside = Aside::default();
    let Swept { computed, dropped, failed, micro_batches, .. } =
        Run::new(store, selection, manner, budget, &mut aside).run(compute)?;
    Ok(Recomputed { computed, dropped, declined: failed, micro_batches })
}
