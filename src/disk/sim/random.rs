//! Random numbers that are the same everywhere for a seed.
//!
//! May touch nothing. Knows nothing of what is drawn.

/// `SplitMix64`: small, without bad seeds, and good enough to choose sectors with.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True half of the time.
    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// A number from 0 to `max`, both included. The bias of the remainder is far below what a test could see.
    pub(super) fn up_to(&mut self, max: usize) -> usize {
        let range = (max as u64).saturating_add(1);
        usize::try_from(self.next() % range).unwrap_or(max)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            piece.copy_from_slice(&random[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_stay_in_range() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.up_to(6)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for number in 0..=6 {
            assert!(draw(3).contains(&number));
        }
        assert!(draw(3).iter().all(|number| *number <= 6));
    }
}
