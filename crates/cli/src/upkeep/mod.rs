//! Upkeep: the commands that change a store, or make one, on someone's word.
//!
//! May touch stores that no trainer has open. Knows nothing of traces and replays.
//!
//! Always true:
//! - U1. A store that a trainer has open is refused, by the lock, and not waited for.
//! - U2. What a command did is said once it is durable, never before.

pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod load;
mod question;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod rewind;
pub(crate) mod shards;

use std::path::Path;

use rollstore::RolloutStore;

use crate::text;

/// Opens a store for one command, which does what it says and nothing beside.
pub(crate) fn open(store: &Path) -> rollstore::Result<RolloutStore> {
    RolloutStore::options().create(false).background_compaction(false).open(store)
}

/// What a store holds, in a few words: `32 rollouts live, 4 of them stale, at step 98`.
pub(crate) fn contents(store: &RolloutStore) -> String {
    let count = |ids: usize| u64::try_from(ids).unwrap_or(u64::MAX);
    let (live, stale) = (count(store.len()), count(store.stale().len()));
    let clock =
        store.clock().map_or_else(|| "before the trainer's first step".into(), |step| format!("at step {step}"));
    format!("{} live, {} of them stale, {clock}", text::counted(live, "rollout"), text::count(stale))
}
