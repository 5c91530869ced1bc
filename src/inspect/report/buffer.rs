//! The live rollouts of a report: how old, how far behind and how long they are.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use super::histogram::{Bins, Histogram, key};
use crate::format::entry::Has;
use crate::reason::Reason;
use crate::recovery::Recovered;
use crate::rules::{Rules, Staleness};

/// Bins of ages, lags and lengths.
const BINS: u32 = 48;

/// What lives in a store, as of one commit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Buffer {
    /// The number of the last frame that this reflects.
    pub last_lsn: u64,
    /// The highest step that the trainer acted at.
    pub clock: Option<u64>,
    /// The step at which ages are taken: the clock, or, before the trainer acted, the newest born step.
    pub step: u64,
    /// The current ref version.
    pub ref_version: u64,
    /// The current version of the KL reference.
    pub kl_ref_version: u64,
    /// Steps for which old log-probs count as fresh, as last used.
    pub window: u64,
    /// Advances for which old log-probs count as fresh, as last used.
    pub max_version_lag: u64,
    /// Live rollouts.
    pub live: u64,
    /// Their prompt and completion tokens.
    pub tokens: u64,
    /// Those that nothing is wrong with.
    pub fresh: u64,
    /// Those without old log-probs.
    pub missing: u64,
    /// Those too many advances behind, or of an abandoned version.
    pub stale: u64,
    /// Those whose age is above the window; 0 while there is no clock.
    pub out_of_window: u64,
    /// Those born ahead of the step by more than the skew; 0 while there is no clock.
    pub from_future: u64,
    /// Rollouts by steps since they were born.
    pub ages: Histogram<u64, States>,
    /// Rollouts by advances of the ref version since their old log-probs, or, while these are missing, since their insert.
    pub lags: Histogram<u64, States>,
    /// Those whose version a restore or rewind abandoned: they have no lag.
    pub abandoned: u64,
    /// Rollouts by prompt and completion tokens.
    pub lengths: Histogram<u64, Count>,
    /// What the store counts over the life of its lineage.
    pub counters: BufferCounters,
}

/// Rollouts by what is wrong with them. One that several things are wrong with stands under the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct States {
    /// Without old log-probs.
    pub missing: u64,
    /// Too many advances behind.
    pub stale: u64,
    /// Older than the window.
    pub out_of_window: u64,
    /// Born ahead of the step asked about.
    pub from_future: u64,
    /// None of these.
    pub fresh: u64,
}

/// How many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Count {
    /// The count.
    pub count: u64,
}

/// Counts for the life of the lineage, as in [`StatsCounters`](crate::StatsCounters).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BufferCounters {
    /// Log-probs asked for.
    pub asked: u64,
    /// Of those, the ones that were fresh.
    pub served: u64,
    /// Log-probs computed and stored.
    pub computed: u64,
    /// Results that came late.
    pub dropped: u64,
    /// Rollouts inserted.
    pub inserted: u64,
    /// Rollouts retired before anyone asked for them.
    pub retired_unused: u64,
    /// Rollouts retired, by the reason's name.
    pub retired: BTreeMap<&'static str, u64>,
}

impl AddAssign for States {
    fn add_assign(&mut self, other: Self) {
        self.missing += other.missing;
        self.stale += other.stale;
        self.out_of_window += other.out_of_window;
        self.from_future += other.from_future;
        self.fresh += other.fresh;
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
    }
}

impl States {
    fn of(flags: &Staleness) -> Self {
        let mut states = Self::default();
        let place = match flags {
            Staleness { missing: true, .. } => &mut states.missing,
            Staleness { stale: true, .. } => &mut states.stale,
            Staleness { out_of_window: true, .. } => &mut states.out_of_window,
            Staleness { from_future: true, .. } => &mut states.from_future,
            _ => &mut states.fresh,
        };
        *place = 1;
        states
    }
}

impl Buffer {
    pub(super) fn of(store: &Recovered) -> Self {
        let (state, options) = (&store.state, &store.manifest.options);
        let rules = Rules {
            window: options.window,
            max_version_lag: options.max_version_lag,
            step_skew: options.step_skew,
            step_jump_max: options.step_jump_max,
            retire_after: None,
        };
        let newest_born = || store.index.iter().map(|entry| entry.born_step).max();
        let step = state.clock.or_else(newest_born).unwrap_or_default();
        let (mut ages, mut lags, mut lengths) = (Bins::new(BINS), Bins::new(BINS), Bins::new(BINS));
        let (mut fresh, mut missing, mut stale, mut out_of_window, mut from_future) = (0, 0, 0, 0, 0);
        let mut abandoned = 0;
        for entry in store.index.iter() {
            let mut flags = rules.staleness(&state.ref_clock, &entry, step);
            // Without a clock there is no step that anything could be too old for.
            flags.out_of_window &= state.clock.is_some();
            let states = States::of(&flags);
            fresh += states.fresh;
            missing += u64::from(!entry.has.contains(Has::OLD));
            stale += u64::from(flags.stale);
            out_of_window += u64::from(flags.out_of_window);
            from_future += u64::from(flags.from_future);
            ages.add(key(flags.age), states);
            match flags.lag {
                Some(lag) => lags.add(key(lag), states),
                None => abandoned += 1,
            }
            lengths.add(i64::from(entry.token_count), Count { count: 1 });
        }
        Self {
            last_lsn: state.lsn.get(),
            clock: state.clock,
            step,
            ref_version: state.ref_clock.current,
            kl_ref_version: state.kl_clock.current,
            window: options.window,
            max_version_lag: options.max_version_lag,
            live: store.index.len() as u64,
            tokens: store.index.token_total(),
            fresh,
            missing,
            stale,
            out_of_window,
            from_future,
            ages: ages.whole(),
            lags: lags.whole(),
            abandoned,
            lengths: lengths.whole(),
            counters: BufferCounters::of(store),
        }
    }
}

impl BufferCounters {
    fn of(store: &Recovered) -> Self {
        let counters = &store.state.counters;
        let retired = Reason::ALL.iter().zip(counters.retired);
        Self {
            asked: counters.asked,
            served: counters.served,
            computed: counters.computed,
            dropped: counters.dropped,
            inserted: counters.inserted,
            retired_unused: counters.retired_unused,
            retired: retired.map(|(reason, count)| (reason.name(), count)).collect(),
        }
    }

    /// Rollouts retired for any reason.
    #[must_use]
    pub fn retired_total(&self) -> u64 {
        self.retired.values().sum()
    }
}
