//! Which rollouts a sweep computes, and in which order.
//!
//! Always true:
//! - Q1. What was written since the sweep began is not computed by it again.
//! - Q2. A rollout that is still to be computed keeps its place in the order: only its result moves it.

use crate::format::clock::VersionClock;
use crate::format::entry::EntryKind;
use crate::format::manifest::SweepPosition;
use crate::ids::Lsn;
use crate::index::Entry;
use crate::rules::Rules;
use crate::state::State;
use crate::store::core::Published;

/// Which rollouts a [`Sweep`](crate::Sweep) computes, at the step that it is run at.
///
/// Results take rollouts out of the first three, so that these store no position: what is left *is* what is still to be
/// computed. A pass over one of the others computes what was there when it began, each once, however many calls and
/// restarts it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// What is out of window or stale; for KL reference log-probs, what has none of the current KL reference version.
    NeedsRecompute,
    /// What is more than `max_version_lag` advances behind.
    Stale,
    /// What is older than the window.
    OutOfWindow,
    /// What was created before this step.
    CreatedBefore(u64),
    /// Every rollout.
    All,
}

/// In which order a [`Sweep`](crate::Sweep) hands rollouts out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// By born step, then by id: the order of all scans. A call looks at little more than it hands out.
    #[default]
    OldestBornFirst,
    /// By the version of the old logps, then by id: the farthest behind first. Each call looks at all that the query takes,
    /// while commits wait: give it a large budget where there are millions of rollouts.
    StalestFirst,
    /// As they were inserted, which is how they lie on disk until compaction moves them. It costs what
    /// [`Order::StalestFirst`] does.
    LogOrder,
}

impl Query {
    /// Whether a result takes its rollout out of the query.
    pub(crate) fn is_progress(self) -> bool {
        matches!(self, Self::NeedsRecompute | Self::Stale | Self::OutOfWindow)
    }
}

/// What one sweep takes at one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    pub(crate) query: Query,
    pub(crate) order: Order,
    /// Which log-probs are computed.
    pub(crate) kind: EntryKind,
    /// Only rollouts of groups with at least so many live ones; 0 for all.
    pub(crate) group_len: usize,
    pub(crate) step: u64,
    pub(crate) rules: Rules,
    /// The store's last number when the sweep began.
    pub(crate) began: Lsn,
}

impl Selection {
    /// The current version of what is computed.
    pub(crate) fn version(&self, state: &State) -> u64 {
        if self.kind == EntryKind::KlRefLogps { state.kl_clock.current } else { state.ref_clock.current }
    }

    /// Whether the rollout is still to be computed.
    pub(crate) fn takes(&self, published: &Published, entry: &Entry) -> bool {
        let Published { index, state, .. } = published;
        let of_kl = self.kind == EntryKind::KlRefLogps;
        let kl = if of_kl { index.extra(entry.id).and_then(|extra| extra.kl) } else { None };
        let written = if of_kl { kl.map_or(Lsn::NONE, |kl| kl.lsn) } else { entry.old_lsn };
        if entry.insert_lsn > self.began || written > self.began {
            return false;
        }
        if !index.is_in_group_of(entry, self.group_len) {
            return false;
        }
        let staleness = self.rules.staleness(&state.ref_clock, entry, self.step);
        match self.query {
            Query::NeedsRecompute if of_kl => kl.is_none_or(|kl| kl.version != state.kl_clock.current),
            Query::NeedsRecompute => staleness.stale || staleness.out_of_window,
            Query::Stale => staleness.stale,
            Query::OutOfWindow => staleness.out_of_window,
            Query::CreatedBefore(step) => entry.created_step < step,
            Query::All => true,
        }
    }

    /// The next rollouts behind a place in the order that are still to be computed and that `wanted` takes: at most `limit`,
    /// and whether there are more.
    pub(crate) fn list(
        &self,
        published: &Published,
        after: Option<SweepPosition>,
        limit: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> (Vec<SweepPosition>, bool) {
        let index = &published.index;
        let place = |entry: Entry| {
            let position = self.position(&entry);
            let taken = after.is_none_or(|after| position > after) && self.takes(published, &entry) && wanted(&entry);
            taken.then_some(position)
        };
        let found = |id| index.get(id).and_then(place);
        let (born_below, is_wanted) = self.lists(&published.state);
        let is_listed_in_order = self.order == Order::OldestBornFirst && !matches!(self.query, Query::CreatedBefore(_));
        if is_listed_in_order {
            let in_order = index.select_in_order(born_below, is_wanted).filter_map(found);
            let mut listed: Vec<_> = in_order.take(limit.saturating_add(1)).collect();
            let more = listed.len() > limit;
            listed.truncate(limit);
            return (listed, more);
        }
        // Where most rollouts match, one after the other as they lie in memory is faster than one by one through their ids.
        let count = match self.query {
            Query::CreatedBefore(step) => index.count_created_before(step),
            _ => index.count(born_below, &is_wanted),
        };
        let mut listed: Vec<_> = match self.query {
            _ if count > index.len() / 8 => index.iter().filter_map(place).collect(),
            Query::CreatedBefore(step) => index.created_before(step).into_iter().filter_map(found).collect(),
            _ => index.select(born_below, is_wanted).into_iter().filter_map(found).collect(),
        };
        let more = listed.len() > limit;
        if more {
            listed.select_nth_unstable(limit);
            listed.truncate(limit);
        }
        listed.sort_unstable();
        (listed, more)
    }

    /// The place of a rollout in the order.
    fn position(&self, entry: &Entry) -> SweepPosition {
        let rank = match self.order {
            Order::OldestBornFirst => entry.born_step,
            Order::StalestFirst => entry.ref_version,
            Order::LogOrder => entry.insert_lsn.get(),
        };
        SweepPosition { rank, id: entry.id.get() }
    }

    /// The lists of the index that the query looks into: those born below a step, and those of some versions.
    fn lists<'a>(&self, state: &'a State) -> (Option<u64>, impl Fn(u64) -> bool + use<'a>) {
        let rules = self.rules;
        let below = rules.born_below(self.step);
        let of_kl = self.kind == EntryKind::KlRefLogps;
        let (born_below, versions) = match self.query {
            Query::NeedsRecompute if !of_kl => (below, Versions::Stale),
            Query::Stale => (None, Versions::Stale),
            Query::OutOfWindow => (below, Versions::None),
            _ => (None, Versions::All),
        };
        let clock: &VersionClock = &state.ref_clock;
        let is_wanted = move |version| match versions {
            Versions::None => false,
            Versions::Stale => rules.is_stale(clock, version),
            Versions::All => true,
        };
        (born_below, is_wanted)
    }
}

#[derive(Clone, Copy)]
enum Versions {
    None,
    Stale,
    All,
}
