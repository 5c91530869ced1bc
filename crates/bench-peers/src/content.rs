//! What is written: ids, steps, versions, lengths and values, all functions of a record's number, so that every read can be
//! checked without keeping what was written.
//!
//! Values come from one pool of random log-probs whose mantissas are full of entropy: nothing here compresses.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// Values in the pool: 16 MiB, more than the caches hold, little beside a store.
const POOL_VALUES: usize = 4 << 20;

/// Records are spread evenly over so many steps and versions.
pub(crate) const STEPS: u64 = 100;

/// The step at which measured recomputes happen, far beyond [`STEPS`]: what they touch is in no scan afterwards.
pub(crate) const RECOMPUTE_STEP: u64 = 1000;

/// A cheap mixer of bits: one round of splitmix64.
pub(crate) fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A number below `bound`, by a hash of `number`.
pub(crate) fn below(number: u64, bound: u64) -> u64 {
    ((u128::from(mix(number)) * u128::from(bound)) >> 64) as u64
}

/// How long records are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Lengths {
    /// All of so many values.
    Fixed(usize),
    /// Log-normal with a median of 2,048 tokens and sigma 1.2, held between 128 and 32,768.
    LogNormal,
}

impl Lengths {
    const LEAST: f64 = 128.0;
    const MOST: f64 = 32_768.0;
    const MEDIAN: f64 = 2048.0;
    const SIGMA: f64 = 1.2;

    /// The length of this record, in values.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held between the limits above")]
    pub(crate) fn of(self, number: u64) -> usize {
        match self {
            Self::Fixed(values) => values,
            Self::LogNormal => {
                // Box and Muller's transform of two uniform numbers.
                let (first, second) = (unit(mix(number ^ 0x51)), unit(mix(number ^ 0xA7)));
                let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
                (Self::MEDIAN * (Self::SIGMA * normal).exp()).clamp(Self::LEAST, Self::MOST) as usize
            }
        }
    }
}

/// A number in (0, 1].
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// One rollout as every peer is given it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Its id.
    pub(crate) id: u64,
    /// The step from which its values count as fresh.
    pub(crate) born_step: u64,
    /// The version that made its values.
    pub(crate) version: u64,
    /// Its values.
    pub(crate) values: &'a [f32],
}

/// The records of one run.
#[derive(Debug)]
pub(crate) struct Content {
    pool: Vec<f32>,
    /// How many there are.
    pub(crate) count: u64,
    lengths: Lengths,
    random_ids: bool,
}

impl Content {
    pub(crate) fn new(count: u64, lengths: Lengths, random_ids: bool) -> Self {
        let mut random = StdRng::seed_from_u64(7);
        // Minus an exponential variable: what log-probs look like, and never above 0.
        let pool = (0..POOL_VALUES).map(|_| (1.0 - random.random::<f32>()).ln()).collect();
        Self { pool, count, lengths, random_ids }
    }

    /// The id of a record: its number, or a hash of it.
    pub(crate) fn id(&self, number: u64) -> u64 {
        // Positive as i64, since that is all that SQLite has.
        if self.random_ids { mix(number ^ 0x00AB_CDEF) >> 1 } else { number }
    }

    pub(crate) fn ids(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
        numbers.into_iter().map(|number| self.id(number)).collect()
    }

    /// The step a record is born at: the first records are the oldest.
    pub(crate) fn born_step(&self, number: u64) -> u64 {
        number * STEPS / self.count
    }

    /// The version of a record: scattered, so that no scan can profit from the order of writing.
    pub(crate) fn version(number: u64) -> u64 {
        below(number ^ 0x5555, STEPS)
    }

    /// The values that a record is inserted with.
    pub(crate) fn values(&self, number: u64) -> &[f32] {
        self.slice(number, self.lengths.of(number))
    }

    /// The values that a record is recomputed with: others, as many.
    pub(crate) fn recomputed_values(&self, number: u64) -> &[f32] {
        self.slice(number ^ 0xF00D_0000_0000, self.lengths.of(number))
    }

    fn slice(&self, seed: u64, length: usize) -> &[f32] {
        let start = usize::try_from(below(seed, (self.pool.len() - length) as u64)).unwrap_or_default();
        &self.pool[start..start + length]
    }

    pub(crate) fn record(&self, number: u64) -> Record<'_> {
        let (born_step, version) = (self.born_step(number), Self::version(number));
        Record { id: self.id(number), born_step, version, values: self.values(number) }
    }

    pub(crate) fn recomputed(&self, number: u64) -> Record<'_> {
        let values = self.recomputed_values(number);
        Record { id: self.id(number), born_step: RECOMPUTE_STEP, version: RECOMPUTE_STEP, values }
    }

    /// Bytes of the values of these records.
    pub(crate) fn bytes(&self, numbers: impl IntoIterator<Item = u64>) -> u64 {
        numbers.into_iter().map(|number| 4 * self.lengths.of(number) as u64).sum()
    }

    /// The record numbers in a random order.
    pub(crate) fn shuffled(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.count).collect();
        numbers.sort_by_key(|number| mix(number ^ 0x77));
        numbers
    }
}

/// The sum of values as bytes, in thirty-two lanes: as fast as memory gives it, and the same for aligned and unaligned.
pub(crate) fn sum(bytes: &[u8]) -> f32 {
    let mut lanes = [0.0_f32; 32];
    let (chunks, rest) = bytes.as_chunks::<128>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk.as_chunks::<4>().0).for_each(|(lane, value)| *lane += f32::from_le_bytes(*value));
    }
    lanes.iter().sum::<f32>() + rest.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).sum::<f32>()
}

/// The first value.
pub(crate) fn first(bytes: &[u8]) -> f32 {
    bytes.first_chunk::<4>().map_or(f32::NAN, |value| f32::from_le_bytes(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_normal_lengths_spread_around_their_median_within_the_limits() {
        let lengths: Vec<usize> = (0..10_000).map(|number| Lengths::LogNormal.of(number)).collect();
        let short = lengths.iter().filter(|length| **length < 2048).count();
        assert!((4800..5200).contains(&short), "{short} of 10,000 below the median");
        assert!(lengths.iter().all(|length| (128..=32_768).contains(length)));
        assert!(lengths.contains(&32_768) && lengths.contains(&128), "both ends are reached");
    }

    #[test]
    fn a_sum_is_the_same_wherever_the_bytes_lie() {
        let values: Vec<f32> = (0..1001_u16).map(f32::from).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&values);
        let shifted = [&[0_u8][..], bytes].concat();
        assert_eq!(sum(bytes), 500_500.0);
        assert_eq!(sum(&shifted[1..]), 500_500.0);
    }

    #[test]
    fn random_ids_differ() {
        let content = Content::new(50_000, Lengths::Fixed(4), true);
        let ids: std::collections::HashSet<u64> = content.ids(0..50_000).into_iter().collect();
        assert_eq!(ids.len(), 50_000);
    }
}
