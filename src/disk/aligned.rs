//! Heap bytes at a fixed alignment, for reads that copy.
//!
//! May touch nothing. Knows nothing of files.
//!
//! Always true:
//! - B1. The first byte lies at a multiple of [`AlignedBuf::ALIGN_BYTES`] in memory, so that arrays which are aligned in
//!   the file are aligned in the copy.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

/// Bytes on the heap whose first one is aligned to 64.
///
/// # How do I get an aligned copy of a range of a file?
/// ```
/// use rollstore::disk::aligned::AlignedBuf;
/// let mut copy = AlignedBuf::zeroed(1000);
/// copy[..3].copy_from_slice(&[1, 2, 3]);
/// assert_eq!(copy.as_ptr().addr() % AlignedBuf::ALIGN_BYTES, 0);
/// ```
pub struct AlignedBuf {
    /// Longer than what is shown by up to `ALIGN_BYTES - 1`. Never grows, since its bytes would then move.
    bytes: Vec<u8>,
    shown: Range<usize>,
}

impl AlignedBuf {
    /// The alignment of the first byte, which is also that of frames and columns in a segment.
    pub const ALIGN_BYTES: usize = 64;

    /// A buffer of `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len.saturating_add(Self::ALIGN_BYTES - 1)];
        let start = bytes.as_ptr().addr().wrapping_neg() % Self::ALIGN_BYTES;
        Self { bytes, shown: start..start + len }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.shown.clone()]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.shown.clone()]
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned_and_exact() {
        // Held together, so that the allocator hands out many different addresses.
        let buffers: Vec<_> = (0..300).map(AlignedBuf::zeroed).collect();
        for (len, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % AlignedBuf::ALIGN_BYTES, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_moved_buffer_keeps_its_address_and_bytes() {
        let mut buffer = AlignedBuf::zeroed(100);
        buffer.fill(9);
        let address = buffer.as_ptr();
        let moved = Box::new(buffer);
        assert_eq!(moved.as_ptr(), address);
        assert_eq!(&moved[..], &[9; 100]);
    }
}
