//! What the shards counted, and where that goes on.
//!
//! May touch stores, read-only.
//!
//! Always true:
//! - C1. What is made counts together what the shards did. What was not taken over counts as superseded.

use rollstore::{Past, Reason, StatsCounters};

use crate::error::{Error, Result};
use crate::rows::{Row, Rows};
use crate::sources::Source;

/// What all shards counted, and what was not taken of them.
pub(crate) fn expected(sources: &[Source], rows: &Rows) -> StatsCounters {
    let mut counters = StatsCounters::default();
    sources.iter().for_each(|source| counters += &source.store.past().counters);
    let superseded = counters.retired.iter_mut().filter(|(reason, _)| *reason == Reason::Superseded);
    superseded.for_each(|(_, count)| *count += rows.superseded);
    // A repair may have lost what a count was in, but not the rollouts.
    counters.inserted = counters.inserted.max(rows.whole.len() as u64);
    counters.computed = counters.computed.max(computed(rows.whole.iter()));
    counters
}

/// Computations that come over with rollouts.
pub(crate) fn computed<'r>(rows: impl Iterator<Item = &'r Row>) -> u64 {
    rows.filter(|row| row.keeps_first).count() as u64
}

/// What the first store that is made counts from, so that all of them come to these counts with what is inserted.
pub(crate) fn past(sources: &[Source], rows: &Rows, mut counters: StatsCounters) -> Past {
    counters.inserted -= rows.whole.len() as u64;
    counters.computed -= computed(rows.whole.iter());
    Past { counters, next_id: sources.iter().map(|source| source.store.past().next_id).max().unwrap_or_default() }
}

/// Refuses counts that are not what they must be.
pub(crate) fn check(expected: &StatsCounters, counted: &StatsCounters) -> Result<()> {
    if expected == counted {
        Ok(())
    } else {
        Err(Error::Miscount(format!("counters {expected:?} before, {counted:?} after")))
    }
}
