//! Rollouts by a key that never changes while they live: the created step, or the group.
//!
//! May touch nothing. Knows slots by their numbers alone. A slot remembers its list; what leaves is only counted, and a
//! list is tidied once half of it has left.
//!
//! Always true:
//! - K1. `live` of a list is the number of slots that remember it; a list that none remembers is gone.
//! - K2. A list holds every slot that remembers it, and at most as many others, some perhaps twice.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeBounds;

/// No list: what a slot without a key remembers.
pub(super) const NO_LIST: u32 = u32::MAX;

/// Others that a list may hold before it is tidied, whatever its length.
const SURPLUS_MIN: usize = 16;

#[derive(Debug)]
struct List {
    key: u64,
    slots: Vec<u32>,
    live: u32,
}

/// All lists, by key.
#[derive(Debug, Default)]
pub(super) struct Keyed {
    lists: Vec<List>,
    free: Vec<u32>,
    by_key: BTreeMap<u64, u32>,
}

impl Keyed {
    /// Adds a slot under a key. Returns the list, which the slot must remember.
    pub(super) fn add(&mut self, key: u64, slot: u32) -> u32 {
        let list = match self.by_key.get(&key) {
            Some(list) => *list,
            None => self.new_list(key),
        };
        let members = &mut self.lists[list as usize];
        members.slots.push(slot);
        members.live += 1;
        list
    }

    /// Takes out a slot, which has forgotten its list by now; `remembers` tells the list that a slot
    /// remembers. Those that came last and leave first leave nothing to tidy.
    pub(super) fn remove(&mut self, list: u32, slot: u32, remembers: impl Fn(u32) -> u32) {
        if list == NO_LIST {
            return;
        }
        let members = &mut self.lists[list as usize];
        members.live -= 1;
        members.slots.pop_if(|last| *last == slot);
        let live = members.live as usize;
        if live == 0 {
            members.slots = Vec::new();
            self.by_key.remove(&members.key);
            self.free.push(list);
        } else if members.slots.len() > live * 2 + SURPLUS_MIN {
            members.slots.retain(|slot| remembers(*slot) == list);
            members.slots.sort_unstable();
            members.slots.dedup();
            members.slots.shrink_to(live * 2);
        }
    }

    /// Bytes of memory, of the order about so many.
    pub(super) fn memory_bytes(&self) -> usize {
        const ORDER_ENTRY_BYTES: usize = 24;
        let slots: usize = self.lists.iter().map(|list| list.slots.capacity()).sum();
        slots * size_of::<u32>() + self.lists.capacity() * size_of::<List>() + self.by_key.len() * ORDER_ENTRY_BYTES
    }

    /// The key of a list.
    pub(super) fn key(&self, list: u32) -> Option<u64> {
        self.lists.get(list as usize).map(|list| list.key)
    }

    /// How many slots have this key.
    pub(super) fn live(&self, key: u64) -> usize {
        self.by_key.get(&key).map_or(0, |list| self.lists[*list as usize].live as usize)
    }

    /// The slots under this key, ascending.
    pub(super) fn members(&self, key: u64, remembers: impl Fn(u32) -> u32) -> Vec<u32> {
        self.by_key.get(&key).map_or_else(Vec::new, |list| self.tidy(*list, remembers))
    }

    /// The slots under keys below `bound`: ascending by key, then by number.
    pub(super) fn below(&self, bound: u64, remembers: impl Fn(u32) -> u32) -> Vec<u32> {
        self.within(..bound, remembers)
    }

    /// How many slots have keys below `bound`.
    pub(super) fn count_below(&self, bound: u64) -> usize {
        self.count_within(..bound)
    }

    /// The slots under keys above `bound`: ascending by key, then by number.
    pub(super) fn above(&self, bound: u64, remembers: impl Fn(u32) -> u32) -> Vec<u32> {
        self.within((Excluded(bound), Unbounded), remembers)
    }

    /// How many slots have keys above `bound`.
    pub(super) fn count_above(&self, bound: u64) -> usize {
        self.count_within((Excluded(bound), Unbounded))
    }

    fn within(&self, keys: impl RangeBounds<u64>, remembers: impl Fn(u32) -> u32) -> Vec<u32> {
        self.by_key.range(keys).flat_map(|(_, list)| self.tidy(*list, &remembers)).collect()
    }

    fn count_within(&self, keys: impl RangeBounds<u64>) -> usize {
        self.by_key.range(keys).map(|(_, list)| self.lists[*list as usize].live as usize).sum()
    }

    fn tidy(&self, list: u32, remembers: impl Fn(u32) -> u32) -> Vec<u32> {
        let members = &self.lists[list as usize].slots;
        let mut slots: Vec<u32> = members.iter().copied().filter(|slot| remembers(*slot) == list).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    fn new_list(&mut self, key: u64) -> u32 {
        let fresh = List { key, slots: Vec::new(), live: 0 };
        let list = if let Some(list) = self.free.pop() {
            self.lists[list as usize] = fresh;
            list
        } else {
            self.lists.push(fresh);
            u32::try_from(self.lists.len() - 1).expect("there are at most as many lists as slots")
        };
        self.by_key.insert(key, list);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots as the slab keeps them: each remembers its list.
    #[derive(Default)]
    struct Model {
        keyed: Keyed,
        remembered: Vec<u32>,
    }

    impl Model {
        fn add(&mut self, key: u64, slot: usize) {
            self.remembered.resize(self.remembered.len().max(slot + 1), NO_LIST);
            self.remembered[slot] = self.keyed.add(key, u32::try_from(slot).unwrap());
        }

        fn remove(&mut self, slot: usize) {
            let list = std::mem::replace(&mut self.remembered[slot], NO_LIST);
            let remembered = &self.remembered;
            self.keyed.remove(list, u32::try_from(slot).unwrap(), |slot| remembered[slot as usize]);
        }

        fn below(&self, bound: u64) -> Vec<u32> {
            self.keyed.below(bound, |slot| self.remembered[slot as usize])
        }

        fn members(&self, key: u64) -> Vec<u32> {
            self.keyed.members(key, |slot| self.remembered[slot as usize])
        }
    }

    #[test]
    fn a_slot_that_is_used_again_stands_under_its_new_key_alone_and_once() {
        let mut model = Model::default();
        model.add(1, 0);
        model.add(1, 1);
        for _ in 0..5 {
            model.remove(0);
            model.add(1, 0);
        }
        assert_eq!((model.members(1), model.keyed.live(1)), (vec![0, 1], 2));
        model.remove(0);
        model.add(7, 0);
        assert_eq!((model.members(1), model.members(7)), (vec![1], vec![0]));
        assert_eq!((model.below(7), model.below(8)), (vec![1], vec![1, 0]));
        assert_eq!((model.keyed.count_below(7), model.keyed.count_below(8)), (1, 2));
    }

    #[test]
    fn those_that_came_last_leave_at_once() {
        let mut model = Model::default();
        (0..100).for_each(|slot| model.add(3, slot));
        (60..100).rev().for_each(|slot| model.remove(slot));
        assert_eq!(model.keyed.lists[0].slots.len(), 60);
        model.remove(0);
        assert_eq!(model.members(3), (1..60).collect::<Vec<_>>());
    }

    #[test]
    fn what_has_left_is_given_back() {
        let mut model = Model::default();
        for slot in 0..10_000 {
            model.add(3, slot);
        }
        for slot in 0..9_990 {
            model.remove(slot);
        }
        assert_eq!(model.keyed.live(3), 10);
        assert!(model.keyed.lists[0].slots.capacity() <= 64, "{}", model.keyed.lists[0].slots.capacity());
        for slot in 9_990..10_000 {
            model.remove(slot);
        }
        assert!(model.keyed.by_key.is_empty());
        model.add(4, 0);
        assert_eq!(model.keyed.lists.len(), 1, "the list's number is used again");
    }
}
