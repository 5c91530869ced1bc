//! What the tests of this room share.

use rkyv::util::AlignedVec;

/// The bytes in hexadecimal, as golden values are written.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Calls `check` with the bytes and each single bit of them flipped in turn.
pub(super) fn for_each_bit_flip(bytes: &[u8], mut check: impl FnMut(usize, &[u8])) {
    let mut flipped = aligned(bytes);
    for bit in 0..bytes.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(bit, &flipped);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

/// A copy at an address that an archive can be read at.
pub(super) fn aligned(bytes: &[u8]) -> AlignedVec {
    let mut copy = AlignedVec::new();
    copy.extend_from_slice(bytes);
    copy
}
