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

/// Slots that the slab grows by: one list that grows would hold room for an eighth or more besides, and leave a hole in the
/// process's memory each time it moves.
const CHUNK_SLOTS: usize = 1024;

/// Rollouts by slot number and by id.
#[derive(Debug, Default)]
pub(super) struct Slab {
    /// All of [`CHUNK_SLOTS`] but the last one.
    chunks: Vec<Vec<Slot>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
}

impl Slab {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Slots in memory, used or free.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK_SLOTS + last.len())
    }

    /// Makes room for so many rollouts more, so that the table is not made again and again while they come.
    pub(super) fn reserve(&mut self, count: usize) {
        let chunks = &self.chunks;
        self.by_id.reserve(count, |slot| mix(at(chunks, *slot).id.get()));
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS * size_of::<Slot>()
            + self.chunks.capacity() * size_of::<Vec<Slot>>()
            + self.free.capacity() * size_of::<u32>()
            + self.by_id.allocation_size()
    }

    /// The slots in use, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_id.iter().copied()
    }

    pub(super) fn find(&self, id: RolloutId) -> Option<u32> {
        let hash = mix(id.get());
        self.by_id.find(hash, |slot| self.slot(*slot).id == id).copied()
    }

    pub(super) fn slot(&self, slot: u32) -> &Slot {
        at(&self.chunks, slot)
    }

    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        let slot = slot as usize;
        &mut self.chunks[slot / CHUNK_SLOTS][slot % CHUNK_SLOTS]
    }

    /// Adds a rollout whose id is not there yet.
    pub(super) fn add(&mut self, filled: Slot) -> u32 {
        debug_assert!(self.find(filled.id).is_none(), "rollout {} is there already", filled.id);
        let slot = if let Some(slot) = self.free.pop() {
            *self.slot_mut(slot) = filled;
            slot
        } else {
            let slot = self.capacity();
            if slot.is_multiple_of(CHUNK_SLOTS) {
                self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
            }
            self.chunks[slot / CHUNK_SLOTS].push(filled);
            u32::try_from(slot).expect("4 billion rollouts are beyond what the index is built for")
        };
        let chunks = &self.chunks;
        let hash = mix(filled.id.get());
        self.by_id.insert_unique(hash, slot, |slot| mix(at(chunks, *slot).id.get()));
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

fn at(chunks: &[Vec<Slot>], slot: u32) -> &Slot {
    let slot = slot as usize;
    &chunks[slot / CHUNK_SLOTS][slot % CHUNK_SLOTS]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::at as location;

    fn slot(id: u64) -> Slot {
        Slot {
            id: RolloutId::new(id),
            insert: location(1, 2),
            old: location(1, 2),
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
            let slots: Vec<u32> = (0..3_000).map(|id| slab.add(slot(id * 7 + round))).collect();
            assert_eq!((slab.capacity(), slab.len(), slab.free.len()), (3_000, 3_000, 0));
            for (id, slot) in (0..).zip(&slots) {
                assert_eq!(slab.find(RolloutId::new(id * 7 + round)), Some(*slot));
                slab.remove(*slot);
                assert_eq!(slab.find(RolloutId::new(id * 7 + round)), None);
            }
        }
        assert_eq!(slab.iter().count(), 0);
    }
}
