//! A fast fixed mixer of 64-bit numbers, and the hasher built on it.
//!
//! May touch nothing. The mixer's numbers are part of the on-disk index (row digests): they are never changed.

use std::hash::{BuildHasherDefault, Hasher};

/// A bijection of the 64-bit numbers whose every output bit depends on every input bit: the finaliser of `SplitMix64`.
pub(super) const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A 64-bit digest of some bytes and their length.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    // The golden ratio is the seed: it keeps a run of zero words from being a fixed point of the mixer.
    let seed = 0x9e37_79b9_7f4a_7c15_u64;
    let (words, tail) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(seed, |hash, word| mix(hash ^ u64::from_le_bytes(*word)).wrapping_add(seed));
    let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    mix(mix(hash ^ last) ^ bytes.len() as u64)
}

/// Hash maps keyed by rollout ids and slots. The keys come from the trainer itself, so that a fixed mixer does.
pub(crate) type BuildIdHasher = BuildHasherDefault<IdHasher>;

/// A hasher for keys that are one number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0 ^ digest(bytes));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_sees_every_bit_and_the_length() {
        let bytes: Vec<u8> = (0..83).collect();
        let whole = digest(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert_ne!(digest(&flipped), whole, "bit {bit} of byte {at}");
            }
        }
        assert_ne!(digest(&[0; 8]), digest(&[0; 9]));
        assert_ne!(digest(&[]), digest(&[0; 8]));
    }

    #[test]
    fn neighbouring_ids_land_far_apart() {
        let low_bits: std::collections::HashSet<u64> = (0..1024).map(|id| mix(id) & 0xffff).collect();
        assert!(low_bits.len() > 1000, "{} distinct of 1024", low_bits.len());
    }

    #[test]
    fn the_mixer_is_the_one_on_disk() {
        assert_eq!((mix(0), mix(1)), (0, 0x5692_161d_100b_05e5));
    }
}
