//! One run of a sweep: passes over the rollouts, micro-batch by micro-batch.
//!
//! Always true:
//! - R1. A micro-batch is one closure call and one commit, which holds its results and how far the sweep has come.
//! - R2. Views are opened for one micro-batch at a time.
//! - R3. A pass hands out each rollout once at most; what failed waits for a later one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::Swept;
use super::aside::Aside;
use super::progress::Move;
use super::query::Selection;
use crate::error::{ErrorKind, Result};
use crate::format::entry::EntryKind;
use crate::format::manifest::{SweepPosition, SweepProgress};
use crate::ids::{Lsn, RolloutId};
use crate::index::Entry;
use crate::log::event::{Clock, Incarnation};
use crate::planted::{Bug, planted};
use crate::state::State;
use crate::store::RolloutStore;
use crate::store::budget::{Budget, Meter};
use crate::store::core::Published;
use crate::store::plan::{Plan, Results};
use crate::store::recompute::failed;
use crate::store::snapshot::Snapshot;
use crate::store::stage::{Op, Outcome};

/// Places of the order that are looked up ahead at a time: 16 bytes each, and the store's readers go on between.
const LISTED_MAX: usize = 1 << 16;

/// How a sweep goes, whatever it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Rollouts of a micro-batch at most.
    pub(super) micro_batch: usize,
    /// Attempts behind the first one.
    pub(super) retries: u32,
    /// Whether a result that cannot be taken refuses its whole micro-batch, as for `apply`.
    pub(super) is_strict: bool,
}

/// The stored progress of a sweep by position.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    /// As the store has it.
    pub(super) was: Option<SweepProgress>,
}

/// Why a run ends before it looked for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The budget is spent.
    Spent,
    /// The last micro-batch left nothing.
    Ended,
}

/// One run.
pub(super) struct Run<'a> {
    store: &'a RolloutStore,
    selection: Selection,
    manner: Manner,
    stored: Option<Stored<'a>>,
    aside: &'a mut Aside,
    meter: Meter,
    /// The next places of this pass.
    queue: VecDeque<SweepPosition>,
    /// Whether the pass has places behind those in the queue.
    more: bool,
    /// The last place that this pass came to.
    after: Option<SweepPosition>,
    /// How often rollouts that this pass takes may have failed; `None` for the first pass, which takes none that did.
    attempts_max: Option<u32>,
    /// Whether the first pass began at a stored place: what failed before the restart lies before it.
    resumed: bool,
    /// Why the run ends, once it does.
    stop: Option<Stop>,
    swept: Swept,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        store: &'a RolloutStore,
        selection: Selection,
        manner: Manner,
        budget: Budget,
        aside: &'a mut Aside,
    ) -> Self {
        Self {
            store,
            selection,
            manner,
            stored: None,
            aside,
            meter: Meter::new(budget),
            queue: VecDeque::new(),
            more: true,
            after: None,
            attempts_max: None,
            resumed: false,
            stop: None,
            swept: Swept::default(),
        }
    }

    /// Goes on from what is stored, and stores how far it comes.
    pub(super) fn storing(mut self, stored: Stored<'a>) -> Self {
        self.after = stored.was.and_then(|was| was.at);
        self.resumed = self.after.is_some();
        self.stored = Some(stored);
        self
    }

    /// Computes as far as the budget goes.
    pub(super) fn run<E>(mut self, mut compute: impl FnMut(&Plan) -> Result<Results, E>) -> Result<Swept>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let began = Instant::now();
        self.forget_others();
        self.stop = self.meter.is_nothing().then_some(Stop::Spent);
        let mut goes_on = true;
        while self.stop.is_none() && goes_on {
            if self.swept.micro_batches > 0 && self.meter.is_over(began.elapsed()) {
                self.stop = Some(Stop::Spent);
                break;
            }
            let Some(plan) = self.next()? else { break };
            let rollouts: Vec<Incarnation> = incarnations(&plan).collect();
            self.aside.hand_out(&rollouts);
            let results = compute(&plan).map_err(|error| {
                let error = failed(error);
                self.aside.fail_together(&rollouts, &error.to_string(), self.manner.retries);
                error
            })?;
            goes_on = self.store_results(plan, results, &rollouts)?;
        }
        self.swept.finished = self.stop != Some(Stop::Spent) && goes_on;
        if self.swept.finished {
            self.finish()?;
        }
        self.swept.set_aside = self.aside.report();
        Ok(self.swept)
    }

    /// The next micro-batch; `None` where the budget is spent or there is nothing left.
    fn next(&mut self) -> Result<Option<Plan>> {
        while self.stop.is_none() {
            let plan = self.plan()?;
            if !plan.is_empty() {
                return Ok(Some(plan));
            }
            if self.stop.is_some() || !self.queue.is_empty() || self.more {
                continue;
            }
            self.forget_others();
            // Those that failed least often come first, so that one which always fails keeps no other waiting.
            let fewest = self.aside.fewest_attempts().or(self.resumed.then_some(0));
            if fewest.is_none() {
                return Ok(None);
            }
            (self.attempts_max, self.resumed, self.more, self.after) = (fewest, false, true, None);
        }
        Ok(None)
    }

    /// Forgets failures of rollouts that the sweep does not take any more.
    fn forget_others(&mut self) {
        let published = self.store.core.published.read();
        let selection = &self.selection;
        self.aside.keep(|rollout| {
            let entry = published.index.get(rollout.id).filter(|entry| entry.insert_lsn == rollout.insert_lsn);
            entry.is_some_and(|entry| selection.takes(&published, &entry))
        });
    }

    /// Whether there is anything to compute but these, which are being computed.
    fn is_any_left_behind(&self, rollouts: &[Incarnation]) -> bool {
        let rollouts: HashSet<&Incarnation> = rollouts.iter().collect();
        let is_left = |entry: &Entry| {
            let rollout = incarnation(entry);
            !rollouts.contains(&rollout) && !self.aside.is_given_up(&rollout)
        };
        let published = self.store.core.published.read();
        self.stored.is_some() && !self.selection.list(&published, None, 1, is_left).0.is_empty()
    }

    /// The next rollouts of this pass, opened; none where those that come next are gone or cannot be read.
    fn plan(&mut self) -> Result<Plan> {
        let store = self.store;
        let core = &store.core;
        let _gate = core.gate.plan()?;
        core.check_open()?;
        let published = core.published.read();
        let state = Arc::clone(&published.state);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        if self.queue.is_empty() && self.more {
            // There is more: whether it fits need not be looked up where nothing more does.
            self.stop = (self.meter.rollouts_left() == 0).then_some(Stop::Spent);
            if self.stop.is_none() {
                self.list(&published);
            }
        }
        while let Some(position) = self.queue.front().copied().filter(|_| snapshots.len() < self.manner.micro_batch) {
            let entry = published.index.get(RolloutId::new(position.id));
            let entry = entry.filter(|entry| self.selection.takes(&published, entry) && self.is_in_pass(entry));
            if let Some(entry) = entry {
                // One that may have made others fail is tried alone.
                let alone = self.aside.is_suspect(&incarnation(&entry));
                if alone && !snapshots.is_empty() {
                    break;
                }
                if !self.meter.take(entry.token_count) {
                    self.stop = Some(Stop::Spent);
                    break;
                }
                snapshots.extend(Snapshot::of(&published, entry.id)?);
                if alone {
                    self.pass_by(position);
                    break;
                }
            }
            self.pass_by(position);
        }
        drop(published);
        self.open(snapshots, &state)
    }

    fn pass_by(&mut self, position: SweepPosition) {
        self.queue.pop_front();
        self.after = Some(position);
    }

    /// Lists the next places of this pass.
    fn list(&mut self, published: &Published) {
        // No more than the budget can take.
        let limit = usize::try_from(self.meter.rollouts_left()).unwrap_or(LISTED_MAX).clamp(1, LISTED_MAX);
        let (listed, more) = self.selection.list(published, self.after, limit, |entry| self.is_in_pass(entry));
        (self.queue, self.more) = (listed.into(), more);
    }

    /// Whether this pass takes the rollout, as far as failures go.
    fn is_in_pass(&self, entry: &Entry) -> bool {
        let rollout = incarnation(entry);
        let taken = match self.attempts_max {
            None => !self.aside.has(&rollout),
            Some(max) => !self.aside.is_given_up(&rollout) && self.aside.attempts(&rollout) <= max,
        };
        taken && !(self.manner.is_strict && self.is_unreadable(&rollout))
    }

    fn is_unreadable(&self, rollout: &Incarnation) -> bool {
        self.store.core.unreadable.lock().contains(&(rollout.id, rollout.insert_lsn))
    }

    /// Opens the views. Those that cannot be read are given up and cost nothing of the budget.
    fn open(&mut self, snapshots: Vec<Snapshot>, state: &Arc<State>) -> Result<Plan> {
        let store = self.store;
        let core = &store.core;
        let of_kl = self.selection.kind == EntryKind::KlRefLogps;
        let mut plan = Plan::new(core.instance, self.selection.kind, state, self.selection.step);
        for snapshot in snapshots {
            let (rollout, token_count) = (snapshot.incarnation(), snapshot.entry.token_count);
            let kl_lsn = snapshot.newest_kl.map_or(Lsn::NONE, |kl| kl.lsn);
            let replaces = if of_kl { kl_lsn } else { snapshot.entry.old_lsn };
            match snapshot.open(&core.rules) {
                Ok(view) => plan.push(plan.len(), view, replaces),
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    tracing::warn!(id = %rollout.id, %error, "a rollout that is due cannot be read and is left out");
                    core.unreadable.lock().insert((rollout.id, rollout.insert_lsn));
                    self.aside.give_up(rollout, error.to_string());
                    self.meter.give_back(token_count);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(plan)
    }

    /// Commits a micro-batch: its results, and how far the sweep has come. False where a rewind, or someone who made the
    /// sweep forgotten, came between.
    fn store_results(&mut self, plan: Plan, results: Results, rollouts: &[Incarnation]) -> Result<bool> {
        let version = plan.version;
        let (apply, refused) = if self.manner.is_strict {
            let (op, declined) = plan.into_op(results)?;
            self.swept.failed += declined;
            (op, Vec::new())
        } else {
            plan.into_sound_op(results)?
        };
        self.swept.failed += refused.len() as u64;
        let mut refused: HashMap<Incarnation, String> = refused.into_iter().collect();
        for rollout in rollouts {
            match refused.remove(rollout) {
                Some(why) => self.aside.fail(*rollout, why, self.manner.retries),
                None => self.aside.settle(rollout),
            }
        }
        let drained = self.queue.is_empty() && !self.more && !self.aside.is_retryable();
        let ended = drained && !(self.resumed && self.is_any_left_behind(rollouts));
        if ended {
            self.stop = Some(Stop::Ended);
        }
        let mut ops = vec![apply];
        ops.extend(self.progress(version, ended));
        if planted(Bug::ProgressBeforeResults) {
            self.store.commit(&ops.split_off(1))?;
        }
        let written = self.store.commit(&ops)?;
        self.swept.micro_batches += 1;
        for outcome in &written.outcomes {
            match outcome {
                Outcome::Applied { computed, dropped } => {
                    self.swept.computed += computed;
                    self.swept.dropped += dropped;
                }
                Outcome::PassedOver => return Ok(false),
                _ => {}
            }
        }
        self.note(&ops);
        Ok(true)
    }

    /// Nothing is left: says so, where the last micro-batch did not.
    fn finish(&mut self) -> Result<()> {
        let Some(SweepProgress { at: Some(_), .. }) = self.stored.as_ref().and_then(|stored| stored.was) else {
            return Ok(());
        };
        let version = self.selection.version(&self.store.core.published.read().state);
        let ops: Vec<_> = self.progress(version, true).into_iter().collect();
        self.store.commit(&ops)?;
        self.note(&ops);
        Ok(())
    }

    /// The operation that says how far the sweep has come; none where that shows by itself.
    fn progress(&self, version: u64, ended: bool) -> Option<Op<'static>> {
        let stored = self.stored.as_ref()?;
        let Selection { kind, step, began, .. } = self.selection;
        let at = if ended { None } else { self.after };
        let clock = if kind == EntryKind::KlRefLogps { Clock::KlRef } else { Clock::Ref };
        let now = Some(SweepProgress { began, step, version, at });
        Some(Op::Sweep(Move { name: stored.name.to_owned(), clock, was: stored.was, now }))
    }

    fn note(&mut self, committed: &[Op<'_>]) {
        if let (Some(Op::Sweep(sweep)), Some(stored)) = (committed.last(), &mut self.stored) {
            stored.was = sweep.now;
        }
    }
}

fn incarnation(entry: &Entry) -> Incarnation {
    Incarnation { id: entry.id, insert_lsn: entry.insert_lsn }
}

fn incarnations(plan: &Plan) -> impl Iterator<Item = Incarnation> {
    plan.rollouts().map(|rollout| Incarnation { id: rollout.id(), insert_lsn: rollout.insert_lsn() })
}
