//! The reference model: what a store must show, from plain maps and loops alone.
//!
//! Knows nothing of files, frames, indexes or LSNs. Slow and plain on purpose, so that it can be checked by reading.
//!
//! Always true:
//! - A model is one committed state. An operation gives the next one, or the kind of error that refuses it.
//! - Versions are numbered by the store: the model checks that none is given twice and takes them as they come.

mod lineage;
mod op;
mod parts;
mod passes;
mod shown;

use std::collections::BTreeMap;

use rollstore::{ErrorKind, Reason, Rewind, Staleness, VersionSpan};

pub use op::{Op, Part, Row, Rule, Swept};

use lineage::Lineage;
use passes::{Pass, Planned};

/// Options of the stores that the model stands for: those of [`crate::store::options`] and the defaults.
const WINDOW: u64 = 8;
const MAX_VERSION_LAG: u64 = 1;
const STEP_SKEW: u64 = rollstore::limits::STEP_SKEW_DEFAULT;
const STEP_JUMP_MAX: u64 = rollstore::limits::STEP_JUMP_MAX_DEFAULT;

/// Why an operation is refused.
pub type Refused = ErrorKind;

/// One committed state of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    clock: Option<u64>,
    ref_clock: Lineage,
    kl_clock: Lineage,
    cursor: Option<Vec<u8>>,
    inserted: u64,
    computed: u64,
    retired: BTreeMap<&'static str, u64>,
    rollouts: BTreeMap<u64, Live>,
    /// In the order in which they were first run.
    sweeps: Vec<Pass>,
    partials: BTreeMap<u64, Partial>,
    /// Numbers that tell incarnations and log-probs apart, as LSNs do in the store.
    next_stamp: u64,
}

/// One live rollout.
#[derive(Debug, Clone, PartialEq)]
struct Live {
    row: Row,
    born_step: u64,
    ref_version: u64,
    /// Whether there are old logps; they are those of `ref_version`.
    has_old: bool,
    /// The version of the old logps that were the first.
    first_old: Option<u64>,
    insert_stamp: u64,
    old_stamp: u64,
}

/// One rollout that is still being generated.
#[derive(Debug, Clone, PartialEq)]
struct Partial {
    created_step: u64,
    tokens: usize,
    spans: Vec<VersionSpan>,
}

impl Model {
    /// The current versions of `π_old` and of the KL reference.
    #[must_use]
    pub fn versions(&self) -> (u64, u64) {
        (self.ref_clock.current(), self.kl_clock.current())
    }

    /// The highest step that the trainer acted at.
    #[must_use]
    pub fn clock(&self) -> Option<u64> {
        self.clock
    }

    /// Every live rollout, by id.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.rollouts.keys().copied()
    }

    /// Every rollout that is still being generated, with its created step.
    pub fn partials(&self) -> impl Iterator<Item = (u64, u64)> {
        self.partials.iter().map(|(id, partial)| (*id, partial.created_step))
    }

    /// The last label that an advance was given.
    #[must_use]
    pub fn label(&self) -> Option<u64> {
        self.ref_clock.label.map(|(label, _)| label)
    }

    /// The state behind an operation, where `found` are the store's versions then.
    ///
    /// # Errors
    /// The kind of error that refuses the operation.
    pub fn after(&self, op: &Op, found: (u64, u64)) -> Result<Self, Refused> {
        // Once to count the versions that it takes, and once with the numbers that the store gave them.
        let next = (self.ref_clock.current() + 1, self.kl_clock.current() + 1);
        let counted = self.numbered_from(op, next)?;
        // Where the store refused the operation it gave none: they must not be those of the versions before.
        let first = |found: u64, issued: u64, next: u64| (found + 1).saturating_sub(issued).max(next);
        let first = (first(found.0, counted.ref_clock.issued, next.0), first(found.1, counted.kl_clock.issued, next.1));
        self.numbered_from(op, first)
    }

    fn numbered_from(&self, op: &Op, first: (u64, u64)) -> Result<Self, Refused> {
        let mut next = self.clone();
        // An operation that the store refused issued nothing: whatever it would have, none is an older one.
        let above = |clock: &Lineage, first: u64| first.max(clock.current() + 1);
        (next.ref_clock.issued, next.ref_clock.next) = (0, above(&next.ref_clock, first.0));
        (next.kl_clock.issued, next.kl_clock.next) = (0, above(&next.kl_clock, first.1));
        next.apply(op)?;
        Ok(next)
    }

    fn apply(&mut self, op: &Op) -> Result<(), Refused> {
        match op {
            Op::Batch(parts) => {
                // Plans are made, and pieces are read, before the batch, as a trainer would.
                let before = |(place, part)| {
                    self.check_finish(part, &parts[..place])?;
                    self.plan_of(part)
                };
                let plans: Vec<Option<Planned>> = parts.iter().enumerate().map(before).collect::<Result<_, _>>()?;
                parts.iter().zip(&plans).try_for_each(|(part, plan)| self.part(part, plan.as_ref()))
            }
            Op::Recompute { step, rollouts } => {
                let plan = self.plan_due(*step, *rollouts)?;
                self.store_results(&plan);
                Ok(())
            }
            Op::Serve { ids, step } => {
                self.check_acted(*step)?;
                if ids.iter().any(|id| !self.rollouts.contains_key(id)) {
                    return Err(ErrorKind::NotFound);
                }
                let wanted = ids.iter().filter(|id| !self.staleness(&self.rollouts[id], *step).is_fresh());
                let plan = self.plan(*step, wanted.copied());
                self.store_results(&plan);
                Ok(())
            }
            Op::Sweep { which, step, rollouts } => self.sweep(*which, *step, *rollouts),
            Op::Compact(_) => Ok(()),
            Op::Rewind { step, later } => self.rewind(*step, *later),
        }
    }

    fn rewind(&mut self, step: u64, later: Rewind) -> Result<(), Refused> {
        if self.clock.is_none_or(|clock| step > clock) {
            return Err(ErrorKind::Invalid);
        }
        if later == Rewind::Drop {
            let later = self.rollouts.iter().filter(|(_, live)| live.row.created_step > step);
            let ids: Vec<u64> = later.map(|(id, _)| *id).collect();
            self.retire(&ids, Reason::Rewound);
            self.partials.retain(|_, partial| partial.created_step <= step);
        }
        self.ref_clock.restart();
        self.kl_clock.restart();
        self.clock = Some(step);
        self.sweeps.clear();
        Ok(())
    }

    fn act(&mut self, step: u64) {
        self.clock = Some(self.clock.map_or(step, |clock| clock.max(step)));
    }

    fn check_acted(&self, step: u64) -> Result<(), Refused> {
        let fits = self.clock.is_none_or(|clock| step + STEP_SKEW >= clock && step <= clock + STEP_JUMP_MAX);
        if fits { Ok(()) } else { Err(ErrorKind::Invalid) }
    }

    fn staleness(&self, live: &Live, step: u64) -> Staleness {
        let (age, lag) = (step.saturating_sub(live.born_step), self.ref_clock.lag(live.ref_version));
        Staleness {
            missing: !live.has_old,
            stale: lag.is_none_or(|lag| lag > MAX_VERSION_LAG),
            out_of_window: age > WINDOW,
            from_future: live.born_step > step + STEP_SKEW,
            age,
            lag,
        }
    }

    /// Ids of rollouts whose flags at `step` are so, oldest born first, then by id.
    fn in_order(&self, wanted: impl Fn(&Staleness) -> bool, step: u64) -> Vec<u64> {
        let fitting = self.rollouts.iter().filter(|(_, live)| wanted(&self.staleness(live, step)));
        let mut ids: Vec<(u64, u64)> = fitting.map(|(id, live)| (live.born_step, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}
