//! One number for all frame headers of a segment.

use crate::format::frame::HEADER_BYTES;

/// A running hash over frame headers, in the order of the file.
///
/// Starts at `0xcbf29ce484222325`. For each header in turn, for each of its sixteen little-endian u64 words:
/// `hash = (hash ^ word) * 0x100000001b3` modulo 2⁶⁴, then `hash = hash ^ (hash >> 32)`. Each step can be undone, so two
/// sequences that differ in one word never meet; it is no defence against an adversary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderHash(u64);

impl Default for HeaderHash {
    fn default() -> Self {
        Self::new()
    }
}

impl HeaderHash {
    /// The hash of no headers.
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Takes in the next header.
    pub(crate) fn update(&mut self, header: &[u8; HEADER_BYTES]) {
        let (words, _) = header.as_chunks::<8>();
        for word in words {
            let mixed = (self.0 ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    /// The hash of the headers so far.
    pub(crate) const fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(headers: &[[u8; HEADER_BYTES]]) -> u64 {
        let mut hash = HeaderHash::new();
        for header in headers {
            hash.update(header);
        }
        hash.finish()
    }

    #[test]
    fn the_hash_is_that_of_the_format() {
        assert_eq!(hash(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(&[[0; HEADER_BYTES]]), 0xf1f7_b859_92dc_f730);
    }

    #[test]
    fn order_number_and_each_bit_of_the_headers_count() {
        let (a, b) = ([1; HEADER_BYTES], [2; HEADER_BYTES]);
        assert_ne!(hash(&[a, b]), hash(&[b, a]));
        assert_ne!(hash(&[a]), hash(&[a, a]));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = a;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash(&[flipped, b]), hash(&[a, b]), "bit {bit}");
        }
    }
}
