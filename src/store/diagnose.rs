//! Why rollouts are not fresh, in numbers, and what other bounds would do.

use std::fmt;

use crate::rules::{Rules, Staleness};
use crate::store::RolloutStore;

/// What an option would have to be for rollouts that nothing else keeps from being fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Help {
    /// The least value of the option that makes any of them fresh.
    pub at_least: u64,
    /// How many become fresh by that value.
    pub fresh: u64,
    /// The value that makes all of them fresh.
    pub for_all: u64,
    /// How many those are.
    pub all: u64,
}

/// Why rollouts are fresh or not at one step, in numbers. `Display` says it in words.
///
/// A rollout may be counted by several of the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The step asked about.
    pub step: u64,
    /// Live rollouts.
    pub live: u64,
    /// Those whose old logps may be served as they are.
    pub fresh: u64,
    /// Those without old logps: an `apply`, or their first use, makes them fresh if nothing else is wrong.
    pub missing: u64,
    /// Those more than `max_version_lag` advances behind, or of an abandoned version.
    pub stale: u64,
    /// Of the stale ones, those of a version that a restore or rewind abandoned: no lag makes them fresh.
    pub abandoned: u64,
    /// Those older than the window.
    pub out_of_window: u64,
    /// Those born more than the step skew after the step: is the step right?
    pub from_future: u64,
    /// The window that a rollout which is out of window alone would need.
    pub window_help: Option<Help>,
    /// The lag that a rollout which is stale alone would need.
    pub lag_help: Option<Help>,
    /// The step skew that a rollout which is from the future alone would need.
    pub skew_help: Option<Help>,
    window: u64,
    max_version_lag: u64,
    step_skew: u64,
}

impl RolloutStore {
    /// Why rollouts are not fresh at `step`, in numbers, and which option would change that. Looks at every rollout.
    ///
    /// # Why does my trainer wait for ever?
    /// A sampler waits for the trainer to use what there is, and the trainer for something fresh to use: with a window that
    /// is too small, neither goes on.
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(4).open(dir.path().join("rollouts"))?;
    /// for id in 0..3 {
    ///     store.insert(NewRollout::new(id, 100 + id).old_logps(&[-0.5][..], 0))?;
    /// }
    /// let diagnosis = store.diagnose(110);
    /// assert_eq!((diagnosis.live, diagnosis.fresh, diagnosis.out_of_window), (3, 0, 3));
    /// let help = diagnosis.window_help.unwrap();
    /// assert_eq!((help.at_least, help.fresh, help.for_all, help.all), (8, 1, 10, 3));
    /// assert_eq!(
    ///     diagnosis.to_string(),
    ///     "0 of 3 rollouts are fresh at step 110; 3 out of window: window is 4, 8 would make 1 fresh, 10 all 3"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn diagnose(&self, step: u64) -> Diagnosis {
        let rules = self.core.rules;
        let published = self.core.published.read();
        let mut count = Count::default();
        for entry in published.index.iter() {
            let staleness = rules.staleness(&published.state.ref_clock, &entry, step);
            count.add(&staleness, entry.born_step.saturating_sub(step));
        }
        count.diagnosis(step, rules)
    }

    /// How many rollouts would be due at `step` with another window and another `max_version_lag`. A dry run, without looking
    /// at any rollout.
    ///
    /// # What would a window of 4 steps cost?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// for id in 0..10 {
    ///     store.insert(NewRollout::new(id, 100 + id).old_logps(&[-0.5][..], 0))?;
    /// }
    /// assert_eq!(store.count_needs_recompute(109), 1);
    /// assert_eq!(store.would_recompute(109, 4, store.max_version_lag()), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn would_recompute(&self, step: u64, window: u64, max_version_lag: u64) -> u64 {
        let rules = Rules { window, max_version_lag, ..self.core.rules };
        let published = self.core.published.read();
        let is_stale = |version| rules.is_stale(&published.state.ref_clock, version);
        published.index.count(rules.born_below(step), is_stale) as u64
    }
}

/// Counts under way. Of each option, the values that rollouts would need which nothing else keeps from being fresh.
#[derive(Default)]
struct Count {
    live: u64,
    fresh: u64,
    missing: u64,
    stale: u64,
    abandoned: u64,
    out_of_window: u64,
    from_future: u64,
    windows: Needs,
    lags: Needs,
    skews: Needs,
}

#[derive(Default)]
struct Needs(Option<Help>);

impl Needs {
    fn add(&mut self, value: u64) {
        let help = self.0.get_or_insert(Help { at_least: value, fresh: 0, for_all: value, all: 0 });
        if value < help.at_least {
            (help.at_least, help.fresh) = (value, 0);
        }
        help.fresh += u64::from(value == help.at_least);
        help.for_all = help.for_all.max(value);
        help.all += 1;
    }
}

impl Count {
    fn add(&mut self, staleness: &Staleness, ahead: u64) {
        let Staleness { missing, stale, out_of_window, from_future, age, lag } = *staleness;
        self.live += 1;
        self.fresh += u64::from(staleness.is_fresh());
        self.missing += u64::from(missing);
        self.stale += u64::from(stale);
        self.abandoned += u64::from(lag.is_none());
        self.out_of_window += u64::from(out_of_window);
        self.from_future += u64::from(from_future);
        match (missing, stale, out_of_window, from_future) {
            (false, false, true, false) => self.windows.add(age),
            (false, true, false, false) => lag.into_iter().for_each(|lag| self.lags.add(lag)),
            (false, false, false, true) => self.skews.add(ahead),
            _ => {}
        }
    }

    fn diagnosis(self, step: u64, rules: Rules) -> Diagnosis {
        Diagnosis {
            step,
            live: self.live,
            fresh: self.fresh,
            missing: self.missing,
            stale: self.stale,
            abandoned: self.abandoned,
            out_of_window: self.out_of_window,
            from_future: self.from_future,
            window_help: self.windows.0,
            lag_help: self.lags.0,
            skew_help: self.skews.0,
            window: rules.window,
            max_version_lag: rules.max_version_lag,
            step_skew: rules.step_skew,
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, live, fresh, missing, stale, abandoned, out_of_window, from_future, .. } = *self;
        write!(f, "{fresh} of {live} rollouts are fresh at step {step}")?;
        if missing > 0 {
            write!(f, "; {missing} without old_logps: they are computed when they are asked for")?;
        }
        if out_of_window > 0 {
            write!(f, "; {out_of_window} out of window")?;
            help(f, "window", self.window, self.window_help)?;
        }
        if stale > 0 {
            write!(f, "; {stale} stale")?;
            help(f, "max_version_lag", self.max_version_lag, self.lag_help)?;
        }
        if abandoned > 0 {
            write!(f, "; {abandoned} of an abandoned version: compute them again")?;
        }
        if from_future > 0 {
            write!(f, "; {from_future} from the future: is {step} the step?")?;
            help(f, "step_skew", self.step_skew, self.skew_help)?;
        }
        Ok(())
    }
}

fn help(f: &mut fmt::Formatter<'_>, option: &str, value: u64, help: Option<Help>) -> fmt::Result {
    let Some(Help { at_least, fresh, for_all, all }) = help else {
        return write!(f, ": no {option} alone would make one fresh, it is {value}");
    };
    write!(f, ": {option} is {value}, {at_least} would make {fresh} fresh")?;
    if all > fresh { write!(f, ", {for_all} all {all}") } else { Ok(()) }
}
