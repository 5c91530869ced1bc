//! Figures of a store, as one value.

use std::ops::AddAssign;
use std::sync::atomic::Ordering;

use crate::format::counters::Counters;
use crate::format::entry::Has;
use crate::ids::Lsn;
use crate::reason::Reason;
use crate::state::State;
use crate::store::RolloutStore;
use crate::store::last_checkpoint::LastCheckpoint;
use crate::store::usage::Usage;

/// Figures of a store as of one committed state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Live rollouts.
    pub live: u64,
    /// Prompt and completion tokens of the live rollouts.
    pub tokens: u64,
    /// Partial rollouts: begun, and neither finished nor abandoned. No other figure counts them, but for bytes.
    pub partials: u64,
    /// Live rollouts without old logps.
    pub missing: u64,
    /// Live rollouts whose old logps are more than `max_version_lag` advances behind.
    pub stale: u64,
    /// Live rollouts out of window at the clock; 0 while there is no clock.
    pub out_of_window: u64,
    /// The current ref version.
    pub ref_version: u64,
    /// The label of the current ref version, where it has one.
    pub ref_label: Option<u64>,
    /// The current version of the KL reference.
    pub kl_ref_version: u64,
    /// The highest step that the trainer acted at.
    pub clock: Option<u64>,
    /// The born step of the oldest rollout.
    pub oldest_born_step: Option<u64>,
    /// Steps for which old logps count as fresh.
    pub window: u64,
    /// Advances for which old logps count as fresh.
    pub max_version_lag: u64,
    /// Bytes of the segments' published parts.
    pub log_bytes: u64,
    /// Bytes of the frames that live and partial rollouts consist of, within half of a percent: the rest of `log_bytes` can be given back
    /// by a compaction.
    pub live_bytes: u64,
    /// Bytes of segments that were dropped and that views still look into.
    pub pinned_bytes: u64,
    /// Bytes that commits appended to segments since the store was opened.
    pub appended_bytes: u64,
    /// Bytes that compaction wrote since the store was opened: write amplification is what both wrote, by what commits did.
    pub compacted_bytes: u64,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// LSN of the last frame that readers see.
    pub last_lsn: Lsn,
    /// The highest LSN known to be on disk.
    pub durable_lsn: Lsn,
    /// The last checkpoint, where one is known.
    pub last_checkpoint: Option<LastCheckpoint>,
    /// Counts for the life of the lineage.
    pub counters: StatsCounters,
    /// Index entries that scans of this handle looked at.
    pub index_entries_touched: u64,
    /// Bytes of segments that were read to open the store.
    pub open_log_bytes_read: u64,
    /// What a person should look at, in plain words, since the store was opened.
    pub warnings: Vec<String>,
}

/// Counts for the life of the lineage; a restore takes them back to the checkpoint's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsCounters {
    /// Rollouts inserted.
    pub inserted: u64,
    /// Ids given to `plan_for`, `get_or_compute`, `gather` and `with_rows`.
    pub asked: u64,
    /// Of those, the ones that were fresh.
    pub served: u64,
    /// Log-probs computed and stored.
    pub computed: u64,
    /// Results that came late.
    pub dropped: u64,
    /// Rollouts retired before anyone asked for them.
    pub retired_unused: u64,
    /// Rollouts retired, by reason.
    pub retired: Vec<(Reason, u64)>,
}

impl Default for StatsCounters {
    /// Nothing was counted.
    fn default() -> Self {
        Self::of(&Counters::default())
    }
}

impl AddAssign<&Self> for StatsCounters {
    /// What both counted together.
    fn add_assign(&mut self, other: &Self) {
        let Self { inserted, asked, served, computed, dropped, retired_unused, retired } = self;
        let ours = [inserted, asked, served, computed, dropped, retired_unused].into_iter();
        let ours = ours.chain(retired.iter_mut().map(|(_, count)| count));
        let Self { inserted, asked, served, computed, dropped, retired_unused, ref retired } = *other;
        let theirs = [inserted, asked, served, computed, dropped, retired_unused].into_iter();
        let theirs = theirs.chain(retired.iter().map(|(_, count)| *count));
        ours.zip(theirs).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

impl StatsCounters {
    /// What a store counted up to a state, with what no commit told of yet.
    pub(super) fn at(state: &State, usage: &Usage) -> Self {
        let mut counters = state.counters;
        usage.pending().add_to(&mut counters);
        Self::of(&counters)
    }

    fn of(counters: &Counters) -> Self {
        let count_of = |reason: Reason| counters.retired.get(usize::from(reason.code())).copied().unwrap_or_default();
        Self {
            inserted: counters.inserted,
            asked: counters.asked,
            served: counters.served,
            computed: counters.computed,
            dropped: counters.dropped,
            retired_unused: counters.retired_unused,
            retired: Reason::ALL.iter().map(|reason| (*reason, count_of(*reason))).collect(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let Self { inserted, asked, served, computed, dropped, retired_unused, ref retired } = *self;
        let mut counters =
            Counters { asked, served, computed, dropped, inserted, retired_unused, ..Counters::default() };
        for (reason, count) in retired {
            if let Some(total) = counters.retired.get_mut(usize::from(reason.code())) {
                *total = total.saturating_add(*count);
            }
        }
        counters
    }

    /// Rollouts retired for any reason.
    #[must_use]
    pub fn retired_total(&self) -> u64 {
        self.retired.iter().map(|(_, count)| count).sum()
    }
}

impl RolloutStore {
    /// Figures of the store. Looks at every rollout once, for those that are missing and the oldest.
    ///
    /// # Errors
    /// `Invalid` where the store is closed.
    pub fn stats(&self) -> crate::Result<Stats> {
        self.core.check_open()?;
        let published = self.core.published.read();
        let state = &published.state;
        let rules = self.core.rules;
        let is_stale = |version| rules.is_stale(&state.ref_clock, version);
        let born_below = state.clock.and_then(|clock| rules.born_below(clock));
        let (mut missing, mut oldest_born_step) = (0, None);
        for entry in published.index.iter() {
            missing += u64::from(!entry.has.contains(Has::OLD));
            oldest_born_step = Some(oldest_born_step.map_or(entry.born_step, |oldest| entry.born_step.min(oldest)));
        }
        let mut stats = Stats {
            live: published.index.len() as u64,
            tokens: published.index.token_total(),
            partials: published.index.partials.len() as u64,
            missing,
            stale: published.index.count(None, is_stale) as u64,
            out_of_window: born_below.map_or(0, |bound| published.index.count(Some(bound), |_| false) as u64),
            ref_version: state.ref_clock.current,
            ref_label: state.ref_clock.current_label(),
            kl_ref_version: state.kl_clock.current,
            clock: state.clock,
            oldest_born_step,
            window: rules.window,
            max_version_lag: rules.max_version_lag,
            log_bytes: published.segments.values().map(|segment| segment.published_bytes()).sum(),
            live_bytes: published.index.live_bytes_total(),
            pinned_bytes: self.core.compactor.pinned_bytes(),
            appended_bytes: self.core.appended_bytes.load(Ordering::Relaxed),
            compacted_bytes: self.core.compactor.copied_bytes(),
            index_bytes: published.index.memory_bytes(),
            segments: published.segments.len() as u64,
            last_lsn: state.lsn,
            durable_lsn: Lsn::NONE,
            last_checkpoint: None,
            counters: StatsCounters::at(state, &self.core.usage),
            index_entries_touched: published.index.touched(),
            open_log_bytes_read: self.core.open_log_bytes_read,
            warnings: self.core.usage.warnings(),
        };
        drop(published);
        // Afterwards: what readers see is durable, and the group is never asked under the lock of what they see.
        stats.durable_lsn = self.core.group.durable();
        stats.last_checkpoint = self.core.last_checkpoint.lock().as_ref().map(LastCheckpoint::from);
        Ok(stats)
    }
}
