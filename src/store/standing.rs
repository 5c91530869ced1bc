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

/// What stands under ids, each with the number of the frame that made it so.
///
/// Always true: an id is in one of the two maps at most. Ends are kept apart, since a retirement may end millions and a
/// rollout that stands takes several times the memory.
#[derive(Debug, Default)]
pub(super) struct Standings {
    ended: HashMap<RolloutId, Lsn, BuildIdHasher>,
    others: HashMap<RolloutId, (Lsn, Standing), BuildIdHasher>,
}

impl Standings {
    pub(super) fn get(&self, id: RolloutId) -> Option<Standing> {
        let ended = || self.ended.contains_key(&id).then_some(Standing::Nothing);
        self.others.get(&id).map(|(_, standing)| *standing).or_else(ended)
    }

    pub(super) fn insert(&mut self, id: RolloutId, lsn: Lsn, standing: Standing) {
        if let Standing::Nothing = standing {
            self.others.remove(&id);
            self.ended.insert(id, lsn);
        } else {
            self.ended.remove(&id);
            self.others.insert(id, (lsn, standing));
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &RolloutId> {
        self.ended.keys().chain(self.others.keys())
    }

    /// Makes room for so many ends more.
    pub(super) fn reserve_ends(&mut self, count: usize) {
        self.ended.reserve(count);
    }

    /// The frame that each id was last changed by.
    fn lsns(&self) -> impl Iterator<Item = (Lsn, RolloutId)> {
        let ended = self.ended.iter().map(|(id, lsn)| (*lsn, *id));
        ended.chain(self.others.iter().map(|(id, (lsn, _))| (*lsn, *id)))
    }

    /// Forgets an id, unless another frame than this one changed it last.
    fn forget(&mut self, id: RolloutId, lsn: Lsn) {
        if self.ended.get(&id) == Some(&lsn) {
            self.ended.remove(&id);
        } else if self.others.get(&id).is_some_and(|(changed, _)| *changed == lsn) {
            self.others.remove(&id);
        }
    }

    /// Takes in what stands since.
    fn extend(&mut self, later: Self) {
        if self.ended.is_empty() && self.others.is_empty() {
            *self = later;
            return;
        }
        for (id, lsn) in later.ended {
            self.insert(id, lsn, Standing::Nothing);
        }
        for (id, (lsn, standing)) in later.others {
            self.insert(id, lsn, standing);
        }
    }

    fn shrink_to(&mut self, kept: usize) {
        self.ended.shrink_to(kept);
        self.others.shrink_to(kept);
    }
}

/// Rollouts changed by batches that are written and not yet published.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    changed: Standings,
    order: VecDeque<(Lsn, RolloutId)>,
}

impl Overlay {
    /// What stands under an id, where a batch changed it that is not yet published.
    pub(super) fn get(&self, id: RolloutId) -> Option<Standing> {
        self.changed.get(id)
    }

    /// Every id that such a batch changed.
    pub(super) fn ids(&self) -> impl Iterator<Item = &RolloutId> {
        self.changed.ids()
    }

    /// Forgets what readers see by now.
    pub(crate) fn forget(&mut self, published: Lsn) {
        while let Some((lsn, id)) = self.order.pop_front_if(|(lsn, _)| *lsn <= published) {
            self.changed.forget(id, lsn);
        }
        if self.order.is_empty() {
            self.changed.shrink_to(KEPT);
            self.order.shrink_to(KEPT);
        }
    }

    /// Takes in the changes of a batch that was written.
    pub(crate) fn add(&mut self, changes: Changes) {
        let mut order: Vec<(Lsn, RolloutId)> = changes.0.lsns().collect();
        order.sort_unstable_by_key(|(lsn, _)| *lsn);
        self.order.extend(order);
        self.changed.extend(changes.0);
    }
}

/// Rollouts changed by the batch being staged.
#[derive(Debug, Default)]
pub(crate) struct Changes(pub(super) Standings);

#[cfg(test)]
mod tests {
    use super::*;

    fn live(created_step: u64) -> Standing {
        let (insert_lsn, old_lsn, kl_lsn) = (Lsn::new(1), Lsn::NONE, Lsn::NONE);
        Standing::Live(Live { insert_lsn, old_lsn, kl_lsn, created_step, ref_version: 0, group: None, asked: false })
    }

    /// What tells an end from a created step.
    const ENDED: u64 = 0;

    /// The created step of what stands under an id.
    fn step(overlay: &Overlay, id: u64) -> Option<u64> {
        overlay.get(RolloutId::new(id)).map(|standing| match standing {
            Standing::Live(live) => live.created_step,
            Standing::Nothing | Standing::Open(_) => ENDED,
        })
    }

    fn batch(lsn: u64, changed: &[(u64, Standing)]) -> Changes {
        let mut changes = Changes::default();
        changed.iter().for_each(|(id, standing)| changes.0.insert(RolloutId::new(*id), Lsn::new(lsn), *standing));
        changes
    }

    #[test]
    fn the_last_batch_that_changed_an_id_says_what_stands_there_until_it_is_published() {
        let mut overlay = Overlay::default();
        overlay.add(batch(1, &[(7, live(10)), (8, Standing::Nothing), (9, Standing::Nothing)]));
        overlay.add(batch(2, &[(7, Standing::Nothing), (8, live(20))]));
        let seen = |overlay: &Overlay| [7, 8, 9, 10].map(|id| step(overlay, id));
        assert_eq!(seen(&overlay), [Some(ENDED), Some(20), Some(ENDED), None]);
        overlay.forget(Lsn::new(1));
        assert_eq!(seen(&overlay), [Some(ENDED), Some(20), None, None]);
        overlay.add(batch(3, &[(7, live(30)), (8, Standing::Nothing)]));
        let mut ids: Vec<u64> = overlay.ids().map(|id| id.get()).collect();
        ids.sort_unstable();
        assert_eq!((seen(&overlay), ids), ([Some(30), Some(ENDED), None, None], vec![7, 8]), "each id once");
        overlay.forget(Lsn::new(3));
        assert_eq!((seen(&overlay), overlay.ids().count()), ([None; 4], 0));
    }
}
