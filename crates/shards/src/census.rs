//! What stores hold, counted: the same before and after, or something was lost.
//!
//! May touch views. Knows nothing of shards.

use std::collections::BTreeMap;
use std::fmt;

use rollstore::{Rollout, RolloutStore};

use crate::error::Result;

/// What stores hold together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Live rollouts.
    pub rollouts: u64,
    /// Their prompt and completion tokens.
    pub tokens: u64,
    /// Bytes of their arrays, first old log-probs included.
    pub array_bytes: u64,
    /// Partial rollouts.
    pub partials: u64,
    /// The tokens of those.
    pub partial_tokens: u64,
    /// Rollouts by the version that their old log-probs stand on; without such, the one current at their insert.
    pub versions: BTreeMap<u64, VersionCount>,
}

/// Rollouts on one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VersionCount {
    /// All of them.
    pub live: u64,
    /// Those more than the allowed lag behind.
    pub stale: u64,
    /// Those without old log-probs.
    pub missing: u64,
}

impl Census {
    /// Counts one rollout.
    pub(crate) fn add(&mut self, tokens: u32, array_bytes: u64, version: u64, is_stale: bool, is_missing: bool) {
        self.rollouts += 1;
        self.tokens += u64::from(tokens);
        self.array_bytes += array_bytes;
        let counted = self.versions.entry(version).or_default();
        counted.live += 1;
        counted.stale += u64::from(is_stale);
        counted.missing += u64::from(is_missing);
    }

    /// Counts one partial rollout.
    pub(crate) fn add_partial(&mut self, tokens: u64) {
        self.partials += 1;
        self.partial_tokens += tokens;
    }

    /// Counts what a store holds, some rollouts at a time.
    pub(crate) fn add_store(&mut self, store: &RolloutStore, mut tick: impl FnMut(usize) -> Result<()>) -> Result<()> {
        for ids in store.ids().chunks(crate::fill::BATCH_ROWS) {
            for rollout in store.get_many(ids)?.iter().flatten() {
                let staleness = rollout.staleness(0);
                let (bytes, version) = (array_bytes(rollout), rollout.ref_version());
                self.add(rollout.token_count(), bytes, version, staleness.stale, staleness.missing);
            }
            tick(ids.len())?;
        }
        store.partials().iter().for_each(|partial| self.add_partial(partial.tokens));
        Ok(())
    }

    /// Stale rollouts, and those without old log-probs.
    #[must_use]
    pub fn stale_and_missing(&self) -> (u64, u64) {
        let counts = self.versions.values();
        counts.fold((0, 0), |(stale, missing), count| (stale + count.stale, missing + count.missing))
    }
}

/// Bytes of a rollout's arrays.
pub(crate) fn array_bytes(rollout: &Rollout) -> u64 {
    let columns = rollout.columns();
    let bytes = columns.iter().map(|info| (info.len * info.dtype.size_bytes()) as u64).sum::<u64>();
    // The first old log-probs are as many as the newer ones.
    let first = rollout.keeps_first_old_logps();
    let old = columns.iter().find(|info| first && info.column == rollstore::Column::OldLogps);
    bytes + old.map_or(0, |info| (info.len * info.dtype.size_bytes()) as u64)
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rollouts, tokens, array_bytes, partials, partial_tokens, .. } = self;
        let (stale, missing) = self.stale_and_missing();
        write!(f, "{rollouts} rollouts ({stale} stale, {missing} missing) of {tokens} tokens in {array_bytes} bytes")?;
        if *partials > 0 {
            write!(f, ", {partials} partial ones of {partial_tokens} tokens")?;
        }
        Ok(())
    }
}
