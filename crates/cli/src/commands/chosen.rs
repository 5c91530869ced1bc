//! The rollouts that a filter lets through.
//!
//! May touch stores, read-only.
//!
//! Always true:
//! - N1. The order is the store's: oldest born first, then by id.
//! - N2. Frames are read only where the filter asks for what the index does not tell.

use std::collections::HashSet;

use rollstore::{Rollout, RolloutId, RolloutStore};

use crate::args::Filter;

/// The ids, as of now; `step` is the one at which ages are taken.
pub(super) fn chosen(store: &RolloutStore, filter: &Filter, step: u64) -> Vec<RolloutId> {
    let states = [
        filter.stale.then(|| store.stale()),
        filter.out_of_window.then(|| store.out_of_window(step)),
        filter.missing.then(|| store.missing()),
    ];
    let mut ids = store.ids();
    if states.iter().any(Option::is_some) {
        let wanted: HashSet<RolloutId> = states.into_iter().flatten().flatten().collect();
        ids.retain(|id| wanted.contains(id));
    }
    if let Some(span) = filter.id {
        ids.retain(|id| span.contains(id.get()));
    }
    if let Some(group) = filter.group {
        let members: HashSet<RolloutId> = store.group(group).into_iter().collect();
        ids.retain(|id| members.contains(id));
    }
    if filter.created.is_none() && filter.version.is_none() {
        return ids;
    }
    let mut kept = Vec::new();
    for id in ids {
        // What cannot be read is let through: whoever lists it tells why.
        if store.get(id).map_or(true, |rollout| rollout.is_some_and(|rollout| takes(filter, &rollout))) {
            kept.push(id);
        }
    }
    kept
}

/// Whether steps and versions are as asked. A rollout without old log-probs is of no version.
fn takes(filter: &Filter, rollout: &Rollout) -> bool {
    let is_missing = !rollout.has(&rollstore::Column::OldLogps);
    filter.created.is_none_or(|span| span.contains(rollout.created_step()))
        && filter.version.is_none_or(|span| !is_missing && span.contains(rollout.ref_version()))
}
