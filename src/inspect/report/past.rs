//! What the log still tells of a run, step by step: inserts, recomputes, ends, and what a static schedule would have cost.
//!
//! Always true:
//! - P1. Memory does not grow with the log, but for a few bytes an advance.
//! - P2. What compaction gave back is not guessed: figures of the log are lower bounds then, and are said to be.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use super::histogram::{Bins, Histogram, key};
use crate::error::Result;
use crate::ids::Lsn;
use crate::inspect::log::{Log, LogItem};
use crate::inspect::report::buffer::BufferCounters;
use crate::inspect::said::{LogFrame, Said};
use crate::inspect::verify::Finding;
use crate::reason::Reason;

/// Bins of steps that are kept while the log is read: worst steps are found among them.
const STEPS_READ: u32 = 4096;
/// Bins of steps that are told.
const STEPS_TOLD: u32 = 160;
/// Places of the log at which the step is remembered, for frames that compaction moved behind them.
const ACTS: usize = 8192;

/// What the log still tells of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Past {
    /// Whole frames that were read.
    pub frames: u64,
    /// Inserts, recomputes of old log-probs, and ends, in all.
    pub total: StepCounts,
    /// Whether the log tells of every insert, recompute and end that the store has counted. Where it does not, since
    /// compaction gave frames back or they are damaged, figures of the log are lower bounds.
    pub is_complete: bool,
    /// The same, and what the schedule would have computed, by step. An insert stands at its created step, a recompute at
    /// the step that it was made for, an end at the newest step that the log had named before it.
    pub steps: Histogram<u64, StepCounts>,
    /// The most that was computed within `worst_steps` steps.
    pub worst_computed: u64,
    /// One step, or more where there are too many steps to count each by itself.
    pub worst_steps: u64,
    /// What a static schedule would have computed.
    pub schedule: Schedule,
}

/// What happened at some steps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StepCounts {
    /// Rollouts inserted.
    pub inserted: u64,
    /// Old log-probs computed again, in rollouts.
    pub computed: u64,
    /// Rollouts that the static schedule would have computed: an estimate.
    pub scheduled: u64,
    /// Rollouts that ended, by the reason's name; `unknown` for a reason of a newer version.
    pub retired: BTreeMap<&'static str, u64>,
}

/// An estimate of `if version % every == 0: recompute all`: every rollout that was live then, by what the log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The schedule that bounds ages and lags as window and lag do: `min(window, lag) + 1`.
    pub every: u64,
    /// Rollouts computed.
    pub computed: u64,
    /// The most within [`Past::worst_steps`] steps.
    pub worst: u64,
}

impl AddAssign for StepCounts {
    fn add_assign(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.computed += other.computed;
        self.scheduled += other.scheduled;
        other.retired.into_iter().for_each(|(reason, count)| *self.retired.entry(reason).or_default() += count);
    }
}

/// Reads the log to its end. Damage goes to `damage`. Where the store opens, `counters` are what it has counted.
pub(super) fn read(
    log: Log<'_>,
    every: u64,
    counters: Option<&BufferCounters>,
    damage: &mut Vec<Finding>,
) -> Result<Past> {
    let mut reading = Reading::new(every);
    for item in log {
        match item? {
            LogItem::Frame(frame) => reading.add(&frame),
            LogItem::Damage(finding) => damage.push(finding),
        }
    }
    Ok(reading.finish(counters))
}

struct Reading {
    frames: u64,
    total: StepCounts,
    steps: Bins<StepCounts>,
    acts: Acts,
    every: u64,
    dues: Dues,
}

impl Reading {
    fn new(every: u64) -> Self {
        let (total, steps) = (StepCounts::default(), Bins::new(STEPS_READ));
        Self { frames: 0, total, steps, acts: Acts::default(), every, dues: Dues::default() }
    }

    fn add(&mut self, frame: &LogFrame) {
        self.frames += 1;
        match &frame.said {
            Said::Insert { created_step, .. } => {
                self.acts.reach(frame, *created_step);
                self.dues.live(frame.lsn, 1);
                self.count(*created_step, StepCounts { inserted: 1, ..StepCounts::default() });
            }
            Said::OldLogps { born_step, .. } => {
                self.acts.reach(frame, *born_step);
                self.count(*born_step, StepCounts { computed: 1, ..StepCounts::default() });
            }
            Said::Retire { rollouts, reason, .. } => self.end(frame.lsn, rollouts.len() as u64, *reason),
            Said::RetireLine { rollouts, reason, .. } => self.end(frame.lsn, *rollouts, *reason),
            Said::Advance { ref_version, label, step } => {
                step.iter().for_each(|step| self.acts.reach(frame, *step));
                if label.unwrap_or(*ref_version).is_multiple_of(self.every) && !frame.is_moved {
                    self.dues.push(frame.lsn, self.acts.now());
                }
            }
            Said::Rewind { step, .. } => self.acts.go_back(frame, *step),
            _ => {}
        }
    }

    fn end(&mut self, lsn: Lsn, rollouts: u64, reason: Option<Reason>) {
        self.dues.live(lsn, -key(rollouts));
        let retired = BTreeMap::from([(reason.map_or("unknown", Reason::name), rollouts)]);
        self.count(self.acts.at(lsn), StepCounts { retired, ..StepCounts::default() });
    }

    fn count(&mut self, step: u64, counts: StepCounts) {
        self.total += counts.clone();
        self.steps.add(key(step), counts);
    }

    fn finish(mut self, counters: Option<&BufferCounters>) -> Past {
        for (step, live) in self.dues.live_at_each() {
            self.count(step, StepCounts { scheduled: live, ..StepCounts::default() });
        }
        let worst = |count: fn(&StepCounts) -> u64| self.steps.values().map(count).max().unwrap_or_default();
        let (worst_computed, worst_scheduled) = (worst(|counts| counts.computed), worst(|counts| counts.scheduled));
        let retired: u64 = self.total.retired.values().sum();
        let told = (self.total.inserted, self.total.computed, retired);
        let counted = counters.map(|counters| (counters.inserted, counters.computed, counters.retired_total()));
        Past {
            frames: self.frames,
            is_complete: counted == Some(told),
            worst_computed,
            worst_steps: self.steps.width(),
            schedule: Schedule { every: self.every, computed: self.total.scheduled, worst: worst_scheduled },
            steps: self.steps.coarser(STEPS_TOLD).whole(),
            total: self.total,
        }
    }
}

/// The newest step that the log had named, by place.
#[derive(Default)]
struct Acts {
    /// Frames at which it changed, ascending; every second one is forgotten where there are too many.
    changes: Vec<(Lsn, u64)>,
}

impl Acts {
    fn now(&self) -> u64 {
        self.changes.last().map_or(0, |(_, step)| *step)
    }

    fn reach(&mut self, frame: &LogFrame, step: u64) {
        if step > self.now() || self.changes.is_empty() {
            self.go_back(frame, step);
        }
    }

    fn go_back(&mut self, frame: &LogFrame, step: u64) {
        // A frame that was moved is older than what stands in front of it.
        if frame.is_moved {
            return;
        }
        if self.changes.len() >= ACTS {
            let mut place = 0_u32;
            self.changes.retain(|_| {
                place += 1;
                place.is_multiple_of(2)
            });
        }
        self.changes.push((frame.lsn, step));
    }

    fn at(&self, lsn: Lsn) -> u64 {
        let behind = self.changes.partition_point(|(at, _)| *at < lsn);
        self.changes.get(behind.saturating_sub(1)).map_or(0, |(_, step)| *step)
    }
}

/// The versions at which the schedule recomputes, and how the number of live rollouts changed in front of each.
#[derive(Default)]
struct Dues {
    dues: Vec<Due>,
    /// The change since the last one.
    since: i64,
}

struct Due {
    lsn: Lsn,
    step: u64,
    change: i64,
}

impl Dues {
    fn push(&mut self, lsn: Lsn, step: u64) {
        self.dues.push(Due { lsn, step, change: std::mem::take(&mut self.since) });
    }

    fn live(&mut self, lsn: Lsn, change: i64) {
        let behind = self.dues.partition_point(|due| due.lsn < lsn);
        let place = self.dues.get_mut(behind).map_or(&mut self.since, |due| &mut due.change);
        *place = place.saturating_add(change);
    }

    /// Each with the rollouts that were live. Where inserts are missing, ends would make it less than none.
    fn live_at_each(&self) -> Vec<(u64, u64)> {
        let mut live = 0_i64;
        let of = |due: &Due| {
            live = live.saturating_add(due.change);
            (due.step, u64::try_from(live).unwrap_or_default())
        };
        self.dues.iter().map(of).collect()
    }
}
