//! Where a store stands, as a value: for a new store that goes on from there.
//!
//! May touch version clocks. Knows nothing of rollouts or files.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::format::clock::{LabelRecord, VersionClock, VersionInterval};
use crate::limits::NUMBER_MAX;
use crate::state::State;
use crate::store::RolloutStore;

/// Where a store stands: the trainer's step, and which versions were issued. [`Options::clocks`](crate::Options::clocks)
/// makes a new store that goes on from there, so that rollouts of the old one keep the versions that they were made by.
///
/// # How do I bring rollouts into a new store as they are?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore};
/// let run = RolloutStore::options().window(8).open(dir.path().join("run"))?;
/// run.advance_ref_version(100, None)?;
/// run.insert(NewRollout::new(7, 98).old_logps(&[-0.5][..], 1))?;
///
/// let copy = RolloutStore::options().window(8).clocks(run.clocks()).open(dir.path().join("copy"))?;
/// let rollout = run.get(7.into())?.unwrap();
/// let (born, version) = (rollout.born_step(), rollout.ref_version());
/// copy.insert(NewRollout::new(7, 98).old_logps(rollout.old_logps()?, version).as_it_stood(born, version))?;
/// assert_eq!(copy.get(7.into())?.unwrap().staleness(100), rollout.staleness(100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocks {
    /// The highest step that the trainer acted at; `None` before it did.
    pub step: Option<u64>,
    /// The versions of `π_old`.
    pub ref_versions: VersionLine,
    /// The versions of the KL reference model.
    pub kl_ref_versions: VersionLine,
}

/// The versions of one model: the current one, those that it descends from, and what the trainer calls them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionLine {
    /// The current version and its ancestors: ranges that ascend and lie apart, the last of which ends at the current one.
    pub lineage: Vec<RangeInclusive<u64>>,
    /// The version that the next advance gives, above all that were issued.
    pub next: u64,
    /// The newest labels in the order given, each with its version; at most
    /// [`LABELS_KEPT`](crate::limits::LABELS_KEPT).
    pub labels: Vec<(u64, u64)>,
}

impl RolloutStore {
    /// Where the store stands, as one committed state. Counters and the cursor are no part of it.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let state = std::sync::Arc::clone(&self.core.published.read().state);
        Clocks {
            step: state.clock,
            ref_versions: VersionLine::of(&state.ref_clock),
            kl_ref_versions: VersionLine::of(&state.kl_clock),
        }
    }
}

impl Clocks {
    /// The state of a new store that goes on from here.
    pub(crate) fn begin(&self) -> Result<State> {
        if self.step.is_some_and(|step| step > NUMBER_MAX) {
            return Err(Error::invalid(format!("clocks: step {} is no step", self.step.unwrap_or_default())));
        }
        let mut state = State::new();
        state.clock = self.step;
        state.ref_clock = self.ref_versions.clock("ref")?.into();
        state.kl_clock = self.kl_ref_versions.clock("kl_ref")?.into();
        Ok(state)
    }
}

impl VersionLine {
    fn of(clock: &VersionClock) -> Self {
        Self {
            lineage: clock.lineage.iter().map(|interval| interval.first..=interval.last).collect(),
            next: clock.next,
            labels: clock.labels.iter().map(|record| (record.label, record.version)).collect(),
        }
    }

    /// The current version; 0 where the lineage has none, which no store takes.
    #[must_use]
    pub fn current(&self) -> u64 {
        self.lineage.last().map_or(0, |range| *range.end())
    }

    /// Advances of the lineage since a version; `None` where it is no ancestor of the current one.
    #[must_use]
    pub fn lag(&self, version: u64) -> Option<u64> {
        // As a clock's own, which every read asks: code that both share costs a row of a gather 5 % more instructions.
        let mut lag = 0_u64;
        for range in self.lineage.iter().rev() {
            let (first, last) = (*range.start(), *range.end());
            if first <= version {
                return Some(lag.saturating_add(last.checked_sub(version)?));
            }
            lag = lag.saturating_add(last.saturating_sub(first)).saturating_add(1);
        }
        None
    }

    /// Whether every version that this line issued means the same in the other: the other's lineage up to our current version is
    /// ours, and what we issued and left is issued there. Labels are not compared.
    #[must_use]
    pub fn is_continued_by(&self, other: &Self) -> bool {
        let current = self.current();
        let theirs = other.lineage.iter().filter(|range| *range.start() <= current);
        let theirs = theirs.map(|range| *range.start()..=(*range.end()).min(current));
        theirs.eq(self.lineage.iter().cloned()) && self.next <= other.next
    }

    fn clock(&self, what: &str) -> Result<VersionClock> {
        let clock = VersionClock {
            current: self.current(),
            next: self.next,
            lineage: self.lineage.iter().map(|at| VersionInterval { first: *at.start(), last: *at.end() }).collect(),
            labels: self
                .labels
                .iter()
                .map(|(label, version)| LabelRecord { label: *label, version: *version })
                .collect(),
        };
        let defect =
            if self.next > NUMBER_MAX / 2 { Some("a next version that no counting comes to") } else { clock.defect() };
        match defect {
            Some(defect) => Err(Error::invalid(format!("clocks: the {what} versions have {defect}"))),
            None => Ok(clock),
        }
    }
}
