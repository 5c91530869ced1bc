//! Which slots' rollouts were asked for: one bit each, which readers set side by side.
//!
//! May touch nothing. The index clears a bit when a slot goes to another rollout.
//!
//! Always true:
//! - A1. Of all who set a bit, one alone is told that it was clear.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each slot that ever held a rollout.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<AtomicU64>);

impl Asked {
    /// Whether the bit of a slot is set.
    pub(super) fn contains(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Sets the bit of a slot that was cleared once. Returns whether that was news.
    pub(super) fn set(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        self.0.get(word).is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Clears the bit of a slot, which another rollout takes.
    pub(super) fn clear(&mut self, slot: u32) {
        let (word, bit) = place(slot);
        if word >= self.0.len() {
            self.0.resize_with(word + 1, AtomicU64::default);
        }
        *self.0[word].get_mut() &= !bit;
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<AtomicU64>()
    }
}

/// The word of a slot's bit, and the bit in it.
fn place(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a1_a_bit_is_news_once_until_its_slot_is_taken_again() {
        let mut asked = Asked::default();
        assert!(!asked.set(70) && !asked.contains(70), "no rollout took the slot yet");
        (0..130).for_each(|slot| asked.clear(slot));
        for round in 0..3 {
            for slot in [0, 63, 64, 129] {
                assert!(!asked.contains(slot), "slot {slot}, round {round}");
                assert_eq!([asked.set(slot), asked.set(slot)], [true, false], "slot {slot}, round {round}");
                assert!(asked.contains(slot) && !asked.contains(slot ^ 1), "slot {slot}, round {round}");
            }
            [0, 63, 64, 129].into_iter().for_each(|slot| asked.clear(slot));
        }
    }
}
