//! The slab of rollouts, and the hash table that finds one by its id.
//!
//! May touch `ids` and `format::entry`. Knows not what a rollout's fields mean.
//!
//! Always true:
//! - S1. A slot is either in the hash table under its id, or in `free`.

use hashbrown::HashTable;

use super::frame_size::FrameSizes;
use super::hash::mix;
use super::keyed::NO_LIST;
use super::postings::Place;
use crate::format::entry::Has;
use crate::ids::{Location, Lsn, RolloutId};

/// One rollout in the slab. Its born step and version are those of its posting list, its created step and group those of
/// its lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: RolloutId,
    pub(super) insert: Location,
    pub(super) old: Location,
    pub(super) insert_lsn: Lsn,
    pub(super) old_lsn: Lsn,
    pub(super) token_count: u32,
    pub(super) place: Place,
    /// Its list among those by created step, and among those by group; no list once the slot is free.
    pub(super) created: u32,
    pub(super) group: u32,
    pub(super) sizes: FrameSizes,
    /// The bits of [`Has`].
    pub(super) has: u8,
}

impl Slot {
    pub(super) fn has(&self) -> Has {
        Has(u16::from(self.has))
    }

    pub(super) fn add_has(&mut self, fact: Has) {
        self.has |= bits(fact);
    }
}

/// The bits of the facts that an index keeps: all that are known.
pub(super) fn bits(has: Has) -> u8 {
    u8::try_from(has.0 & Has::KNOWN.0).unwrap_or_default()
}

const _: () = assert!(Has::KNOWN.0 <= u8::MAX as u16, "what is known fits in a slot's bits");

const _: () = assert!(size_of::<Slot>() <= 64, "a slot fits in a cache line");

/// Slots that the slab grows by at least.
const GROWTH_MIN: usize = 256;

/// Rollouts by slot number and by id.
#[derive(Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
}

impl Slab {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Slots in memory, used or free.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        /// A slot's number and a byte of its hash.
        const TABLE_ENTRY_BYTES: usize = 5;
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * size_of::<u32>()
            + self.by_id.capacity() * TABLE_ENTRY_BYTES
    }

    /// The slots in use, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_id.iter().copied()
    }

    pub(super) fn find(&self, id: RolloutId) -> Option<u32> {
        self.by_id.find(mix(id.get()), |slot| self.slot(*slot).id == id).copied()
    }

    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Adds a rollout whose id is not there yet.
    pub(super) fn add(&mut self, filled: Slot) -> u32 {
        debug_assert!(self.find(filled.id).is_none(), "rollout {} is there already", filled.id);
        let slot = if let Some(slot) = self.free.pop() {
            *self.slot_mut(slot) = filled;
            slot
        } else {
            if self.slots.len() == self.slots.capacity() {
                // By an eighth: doubling would leave half of the largest part of the index empty.
                self.slots.reserve_exact((self.slots.len() / 8).max(GROWTH_MIN));
            }
            self.slots.push(filled);
            u32::try_from(self.slots.len() - 1).expect("4 billion rollouts are beyond what the index is built for")
        };
        let slots = &self.slots;
        self.by_id.insert_unique(mix(filled.id.get()), slot, |slot| mix(slots[*slot as usize].id.get()));
        slot
    }

    /// Takes a rollout out; its slot is used again.
    pub(super) fn remove(&mut self, slot: u32) {
        let hash = mix(self.slot(slot).id.get());
        if let Ok(found) = self.by_id.find_entry(hash, |candidate| *candidate == slot) {
            found.remove();
            self.free.push(slot);
            let freed = self.slot_mut(slot);
            (freed.created, freed.group) = (NO_LIST, NO_LIST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::at;

    fn slot(id: u64) -> Slot {
        Slot {
            id: RolloutId::new(id),
            insert: at(1, 2),
            old: at(1, 2),
            insert_lsn: Lsn::new(id),
            old_lsn: Lsn::NONE,
            token_count: 0,
            place: Place { list: 0, position: 0 },
            created: NO_LIST,
            group: NO_LIST,
            sizes: FrameSizes::default(),
            has: 0,
        }
    }

    #[test]
    fn a_slot_is_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 64);
    }

    #[test]
    fn s1_slots_of_removed_rollouts_are_used_again() {
        let mut slab = Slab::default();
        for round in 0..5 {
            let slots: Vec<u32> = (0..1_000).map(|id| slab.add(slot(id * 7 + round))).collect();
            assert_eq!((slab.slots.len(), slab.len(), slab.free.len()), (1_000, 1_000, 0));
            for (id, slot) in (0..).zip(&slots) {
                assert_eq!(slab.find(RolloutId::new(id * 7 + round)), Some(*slot));
                slab.remove(*slot);
                assert_eq!(slab.find(RolloutId::new(id * 7 + round)), None);
            }
        }
        assert_eq!(slab.iter().count(), 0);
    }
}
