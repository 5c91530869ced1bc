//! Which shard a rollout belongs to: rendezvous hashing of its id.
//!
//! May touch nothing. Knows nothing of stores.
//!
//! Always true:
//! - R1. The shard follows from the id and the number of shards alone, on every machine and in every version.
//! - R2. One shard more takes rollouts from the others, and moves none between them.

use std::num::NonZeroU32;

use rollstore::RolloutId;

/// The shards of a run, by their numbers from 0.
///
/// # Which shard does a rollout belong to?
/// ```
/// use std::num::NonZeroU32;
/// use rollstore_shards::Router;
/// let router = Router::new(NonZeroU32::new(3).unwrap());
/// assert_eq!(router.route(7.into()), 1);
/// ```
#[derive(Debug, Clone)]
pub struct Router {
    /// The mixed number of each shard.
    shards: Vec<u64>,
}

impl Router {
    /// A router over so many shards.
    #[must_use]
    pub fn new(shards: NonZeroU32) -> Self {
        Self { shards: (0..shards.get()).map(|shard| mix(shard.into())).collect() }
    }

    /// The number of the shard that a rollout belongs to: the one with the highest `mix(id ^ mix(shard))`, the lowest
    /// number on a tie. Takes time in proportion to the number of shards: some 0.3 µs for 256 of them.
    #[must_use]
    pub fn route(&self, id: RolloutId) -> u32 {
        let (mut best, mut best_score) = (0, 0);
        for (shard, mixed) in (0..).zip(&self.shards) {
            let score = mix(id.get() ^ mixed);
            if score > best_score {
                (best, best_score) = (shard, score);
            }
        }
        best
    }
}

/// Spreads every bit of a number over all of them: the finish of `SplitMix64`.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
