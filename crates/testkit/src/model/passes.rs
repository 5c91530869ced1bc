//! Recompute and sweeps: which rollouts are handed out, and what their results make of a state.

use rollstore::{Lsn, RolloutId};

use super::op::{Part, Swept};
use super::{Model, Refused};
use crate::state::SweepState;

/// How far a sweep has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pass {
    which: Swept,
    /// The highest stamp when it began.
    began: u64,
    step: u64,
    version: u64,
    /// Born step and id of what it handed out last; `None` once it is finished.
    last: Option<(u64, u64)>,
}

/// A plan in the making: what each rollout was at hand-out.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    step: u64,
    version: u64,
    /// Id, insert stamp, old stamp.
    items: Vec<(u64, u64, u64)>,
}

impl Pass {
    pub(super) fn shown(&self) -> SweepState {
        let Self { which, step, version, last, .. } = *self;
        let last = last.map(|(_, id)| RolloutId::new(id));
        SweepState { name: which.name().to_owned(), began: Lsn::NONE, with: (step, version), last }
    }
}

impl Model {
    pub(super) fn sweep(&mut self, which: Swept, step: u64, rollouts: u64) -> Result<(), Refused> {
        self.check_acted(step)?;
        let (place, version) = (self.sweeps.iter().position(|pass| pass.which == which), self.ref_clock.current());
        let known = place.map(|place| self.sweeps[place].clone());
        let is_over = known.as_ref().is_some_and(|pass| (pass.last, pass.step, pass.version) == (None, step, version));
        if rollouts == 0 || is_over {
            return Ok(());
        }
        let under_way = known.filter(|pass| pass.last.is_some());
        let began = under_way.as_ref().map_or(self.next_stamp, |pass| pass.began);
        let is_left = |id: &u64| {
            let live = &self.rollouts[id];
            let wanted = which == Swept::All || live.row.created_step < Swept::CREATED_BEFORE;
            wanted && live.insert_stamp <= began && live.old_stamp <= began
        };
        let left: Vec<u64> = self.in_order(|_| true, step).into_iter().filter(is_left).collect();
        let now: Vec<u64> = left.iter().copied().take(usize::try_from(rollouts).unwrap_or(usize::MAX)).collect();
        let last = now.last().filter(|_| now.len() < left.len()).map(|id| (self.rollouts[id].born_step, *id));
        if now.is_empty() && under_way.is_none() {
            return Ok(());
        }
        let plan = self.plan(step, now.into_iter());
        self.store_results(&plan);
        let pass = Pass { which, began, step, version, last };
        match place {
            Some(place) => self.sweeps[place] = pass,
            None => self.sweeps.push(pass),
        }
        Ok(())
    }

    pub(super) fn plan_of(&self, part: &Part) -> Result<Option<Planned>, Refused> {
        match part {
            Part::ApplyDue { step, rollouts } => self.plan_due(*step, *rollouts).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn plan_due(&self, step: u64, rollouts: u64) -> Result<Planned, Refused> {
        self.check_acted(step)?;
        let due = self.in_order(|staleness| staleness.stale || staleness.out_of_window, step);
        Ok(self.plan(step, due.into_iter().take(usize::try_from(rollouts).unwrap_or(usize::MAX))))
    }

    pub(super) fn plan(&self, step: u64, ids: impl Iterator<Item = u64>) -> Planned {
        let item = |id: u64| self.rollouts.get(&id).map(|live| (id, live.insert_stamp, live.old_stamp));
        Planned { step, version: self.ref_clock.current(), items: ids.filter_map(item).collect() }
    }

    /// Results for all of a plan: those of rollouts that changed since are late.
    pub(super) fn store_results(&mut self, plan: &Planned) {
        for (id, insert_stamp, old_stamp) in &plan.items {
            let Some(live) = self.rollouts.get_mut(id) else { continue };
            if (live.insert_stamp, live.old_stamp) != (*insert_stamp, *old_stamp) {
                continue;
            }
            self.next_stamp += 1;
            live.old_stamp = self.next_stamp;
            (live.has_old, live.ref_version, live.born_step) = (true, plan.version, plan.step);
            live.first_old.get_or_insert(plan.version);
            self.computed += 1;
            self.act(plan.step);
        }
    }
}
