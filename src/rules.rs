//! Window, lag and step rules: when a rollout is fresh, and which steps a trainer may act at.
//!
//! Pure. Knows nothing of files or threads.
//!
//! Always true:
//! - S1. A rollout is fresh only where none of the four flags is set.
//! - S2. `age == window` is inside, `age == window + 1` is outside.
//! - S3. A version that is not of the lineage is stale at any lag.

use crate::error::{Error, Result};
use crate::format::clock::VersionClock;
use crate::format::entry::Has;
use crate::ids::RolloutId;
use crate::index::Entry;

/// The options that decide what is fresh; stored with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Steps for which old logps count as fresh.
    pub(crate) window: u64,
    /// Advances of the ref version for which old logps count as fresh.
    pub(crate) max_version_lag: u64,
    /// Steps by which a call's step may lie below the clock, and a born step above the step asked about.
    pub(crate) step_skew: u64,
    /// Steps by which a created or acted step may lie above the clock.
    pub(crate) step_jump_max: u64,
    /// The standing rule: what was created more than so many steps before the clock ends.
    pub(crate) retire_after: Option<u64>,
}

impl Rules {
    /// Rollouts born below this step are out of window at `step`; `None` where no step is early enough.
    pub(crate) fn born_below(&self, step: u64) -> Option<u64> {
        step.checked_sub(self.window)
    }

    /// Whether old logps of this version are stale.
    pub(crate) fn is_stale(&self, clock: &VersionClock, version: u64) -> bool {
        self.is_beyond(clock.lag(version))
    }

    fn is_beyond(&self, lag: Option<u64>) -> bool {
        lag.is_none_or(|lag| lag > self.max_version_lag)
    }

    /// The flags of one rollout at one step.
    #[inline]
    pub(crate) fn staleness(&self, clock: &VersionClock, entry: &Entry, step: u64) -> Staleness {
        self.staleness_of(clock.lag(entry.ref_version), entry, step)
    }

    /// The flags of one rollout at one step, of whose old logps' version this is the lag.
    #[inline]
    pub(crate) fn staleness_of(&self, lag: Option<u64>, entry: &Entry, step: u64) -> Staleness {
        Staleness {
            missing: !entry.has.contains(Has::OLD),
            stale: self.is_beyond(lag),
            out_of_window: self.born_below(step).is_some_and(|bound| entry.born_step < bound),
            from_future: entry.born_step > step.saturating_add(self.step_skew),
            age: step.saturating_sub(entry.born_step),
            lag,
        }
    }

    /// Refuses a step that the trainer cannot be at: behind the clock, or absurdly far ahead of it.
    pub(crate) fn check_acted(&self, clock: Option<u64>, step: u64) -> Result<()> {
        check_is_step(step, "step")?;
        let Some(clock) = clock else { return Ok(()) };
        if step.saturating_add(self.step_skew) < clock {
            return Err(Error::invalid(format!(
                "store is at step {clock}, call gave {step}; restore a checkpoint, or rewind to step \
                 {step} and keep or drop what came after"
            )));
        }
        self.check_jump(clock, step, "step")
    }

    /// Refuses a created step absurdly far ahead of the clock; rollouts may come late.
    pub(crate) fn check_created(&self, clock: Option<u64>, step: u64) -> Result<()> {
        check_is_step(step, "created step")?;
        clock.map_or(Ok(()), |clock| self.check_jump(clock, step, "created step"))
    }

    fn check_jump(&self, clock: u64, step: u64, what: &str) -> Result<()> {
        let max = self.step_jump_max;
        if step > clock.saturating_add(max) {
            let ahead = step - clock;
            return Err(Error::invalid(format!(
                "{what} {step} is {ahead} above the store's step {clock}, more than step_jump_max = {max}; is it a step?"
            )));
        }
        Ok(())
    }
}

/// Refuses the last number, which is a -1 that lost its sign: a new store has no clock to tell it by.
fn check_is_step(step: u64, what: &str) -> Result<()> {
    if step == u64::MAX {
        return Err(Error::invalid(format!("{what} {step} is no step; is it a -1 that was cast?")));
    }
    Ok(())
}

/// The version that stands for log-probs that `versions` made: an abandoned one if there is any, else the oldest; the
/// current one where there are no log-probs yet.
pub(crate) fn made_by(clock: &VersionClock, versions: &[u64], id: RolloutId, what: &str) -> Result<u64> {
    if let Some(version) = versions.iter().find(|version| !clock.contains(**version) && **version >= clock.next) {
        let (current, next) = (clock.current, clock.next);
        return Err(Error::invalid(format!(
            "rollout {id}: {what} of version {version}, which was never issued: the current one is {current}, the next will \
             be {next}"
        ))
        .of(id));
    }
    let abandoned = versions.iter().find(|version| !clock.contains(**version));
    Ok(abandoned.or_else(|| versions.iter().min()).copied().unwrap_or(clock.current))
}

/// What is known about the freshness of a rollout's old logps at one step. Any flags may be set together.
///
/// # Why was this rollout computed again?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(7, 100).old_logps(&[-0.5][..], 0))?;
/// let staleness = store.get(7.into())?.unwrap().staleness(109);
/// assert_eq!((staleness.age, staleness.out_of_window, staleness.stale), (9, true, false));
/// assert!(!staleness.is_fresh());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent flags, any of which may be set together")]
pub struct Staleness {
    /// There are no old logps yet.
    pub missing: bool,
    /// More than `max_version_lag` advances behind, or of a version that a restore or rewind abandoned.
    pub stale: bool,
    /// `age > window`.
    pub out_of_window: bool,
    /// Born more than the step skew after the step asked about.
    pub from_future: bool,
    /// Steps since the born step; 0 for one that is ahead.
    pub age: u64,
    /// Advances since the old logps' version; `None` for a version of an abandoned future.
    pub lag: Option<u64>,
}

impl Staleness {
    /// Whether the old logps may be served as they are.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        !(self.missing || self.stale || self.out_of_window || self.from_future)
    }
}
