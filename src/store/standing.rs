//! What stands under an id: as readers see it, and as batches will have it that are written and not yet published.

use std::collections::{HashMap, VecDeque};

use crate::ids::{Lsn, RolloutId};
use crate::index::BuildIdHasher;
use crate::store::partials::stage::Open;

/// Rollouts that an overlay without any keeps memory for: a batch may have changed millions.
const KEPT: usize = 4096;

/// A live rollout as a later operation sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub(super) insert_lsn: Lsn,
    pub(super) old_lsn: Lsn,
    pub(super) kl_lsn: Lsn,
    pub(super) created_step: u64,
    pub(super) ref_version: u64,
    pub(super) group: Option<u64>,
    /// Whether someone asked for it, as of this look-up.
    pub(super) asked: bool,
}

/// What stands under an id.
#[derive(Debug, Clone, Copy)]
pub(super) enum Standing {
    Nothing,
    Live(Live),
    /// A rollout that is still being generated.
    Open(Open),
}

type Standings = HashMap<RolloutId, (Lsn, Standing), BuildIdHasher>;

/// Rollouts changed by batches that are written and not yet published.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changed: Standings,
    order: VecDeque<(Lsn, RolloutId)>,
}

impl Overlay {
    /// What stands under an id, where a batch changed it that is not yet published.
    pub(super) fn get(&self, id: RolloutId) -> Option<&(Lsn, Standing)> {
        self.changed.get(&id)
    }

    /// Every id that such a batch changed.
    pub(super) fn ids(&self) -> impl Iterator<Item = &RolloutId> {
        self.changed.keys()
    }

    /// Forgets what readers see by now.
    pub(crate) fn forget(&mut self, published: Lsn) {
        while let Some((lsn, id)) = self.order.front().copied().filter(|(lsn, _)| *lsn <= published) {
            self.order.pop_front();
            if self.changed.get(&id).is_some_and(|(changed, _)| *changed == lsn) {
                self.changed.remove(&id);
            }
        }
        if self.order.is_empty() {
            self.changed.shrink_to(KEPT);
            self.order.shrink_to(KEPT);
        }
    }

    /// Takes in the changes of a batch that was written.
    pub(crate) fn add(&mut self, changes: Changes) {
        let mut order: Vec<(Lsn, RolloutId)> = changes.0.iter().map(|(id, (lsn, _))| (*lsn, *id)).collect();
        order.sort_unstable();
        self.order.extend(order);
        if self.changed.is_empty() {
            self.changed = changes.0;
        } else {
            self.changed.extend(changes.0);
        }
    }
}

/// Rollouts changed by the batch being staged.
#[derive(Debug, Default)]
pub(crate) struct Changes(pub(super) Standings);
