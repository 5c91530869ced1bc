//! What scans ask of the index: which rollouts, and how many, by steps, versions and groups.
//!
//! May touch `ids`. Knows what the room above knows.
//!
//! Always true:
//! - Q1. A scan looks at what it returns and at nothing else; a count looks at no rollout.

use std::sync::atomic::Ordering;

use super::super::entry::Entry;
use super::MemoryIndex;
use crate::ids::RolloutId;

impl MemoryIndex {
    /// The rollouts created below a step: ascending by created step. O(result).
    pub(crate) fn created_before(&self, bound: u64) -> Vec<RolloutId> {
        self.slots_created_before(bound).into_iter().map(|slot| self.slab.slot(slot).id).collect()
    }

    /// The slots of the same, in the same order: good until the index changes.
    pub(crate) fn slots_created_before(&self, bound: u64) -> Vec<u32> {
        let slots = self.by_created.below(bound, |slot| self.slab.slot(slot).created);
        self.touched.fetch_add(slots.len() as u64, Ordering::Relaxed);
        slots
    }

    /// How many rollouts were created below a step. Looks at none of them.
    pub(crate) fn count_created_before(&self, bound: u64) -> usize {
        self.by_created.count_below(bound)
    }

    /// The rollouts created above a step: ascending by created step. O(result).
    pub(crate) fn created_after(&self, bound: u64) -> Vec<RolloutId> {
        self.ids(self.by_created.above(bound, |slot| self.slab.slot(slot).created))
    }

    /// How many rollouts were created above a step. Looks at none of them.
    pub(crate) fn count_created_after(&self, bound: u64) -> usize {
        self.by_created.count_above(bound)
    }

    /// The rollouts of a group, by id. O(result).
    pub(crate) fn group(&self, group: u64) -> Vec<RolloutId> {
        let mut ids = self.ids(self.by_group.members(group, |slot| self.slab.slot(slot).group));
        ids.sort_unstable();
        ids
    }

    /// How many rollouts of a group are live. Looks at none of them.
    pub(crate) fn group_len(&self, group: u64) -> usize {
        self.by_group.live(group)
    }

    /// Whether a rollout is of a group with at least so many live rollouts. 0 asks for no group.
    pub(crate) fn is_in_group_of(&self, entry: &Entry, group_len: usize) -> bool {
        group_len == 0 || entry.group.is_some_and(|group| self.group_len(group) >= group_len)
    }

    /// The rollouts born before `born_below`, and those whose version satisfies `stale`, in no order but that of equal
    /// histories.
    pub(crate) fn select(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> Vec<RolloutId> {
        self.note_touched(self.postings.select(born_below, stale).ids())
    }

    /// As [`Self::select`], oldest born first, then by id, as far as the caller goes on: of those born later than the last
    /// one taken it looks at none.
    pub(crate) fn select_in_order(
        &self,
        born_below: Option<u64>,
        stale: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = RolloutId> {
        self.postings.select(born_below, stale).in_order().flat_map(|ids| self.note_touched(ids))
    }

    /// Every rollout, oldest born first, then by id.
    pub(crate) fn all_in_order(&self) -> Vec<RolloutId> {
        let mut all = Vec::with_capacity(self.len());
        self.postings.select(None, |_| true).in_order().for_each(|ids| all.extend_from_slice(&ids));
        self.note_touched(all)
    }

    /// How many rollouts [`Self::select`] would return. Looks at none of them.
    pub(crate) fn count(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> usize {
        self.postings.select(born_below, stale).count()
    }

    /// The rollouts born after `bound`, in no order but that of equal histories.
    pub(crate) fn born_above(&self, bound: u64) -> Vec<RolloutId> {
        self.note_touched(self.postings.born_above(bound).ids())
    }

    /// How many rollouts [`Self::born_above`] would return. Looks at none of them.
    pub(crate) fn count_born_above(&self, bound: u64) -> usize {
        self.postings.born_above(bound).count()
    }

    /// The rollouts that scans have looked at so far.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    fn note_touched(&self, ids: Vec<RolloutId>) -> Vec<RolloutId> {
        self.touched.fetch_add(ids.len() as u64, Ordering::Relaxed);
        ids
    }

    fn ids(&self, slots: Vec<u32>) -> Vec<RolloutId> {
        self.note_touched(slots.into_iter().map(|slot| self.slab.slot(slot).id).collect())
    }
}
