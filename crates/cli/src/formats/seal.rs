//! The checksum of a whole file, which stands in the file itself: eight hexadecimal digits that count as zeros.

use std::io::{self, Read};

/// Bytes of the digits.
pub(super) const DIGITS: usize = 8;

/// What stands in place of the digits while the sum is taken.
pub(super) const ZEROS: &str = "00000000";

/// What the digits are called in every format.
pub(super) const NAME: &str = "rollstore.crc32";

/// The digits of a checksum.
pub(super) fn digits(crc32: u32) -> String {
    format!("{crc32:08x}")
}

/// The checksum of what is read, of which the digits lie at `at`, and what these say; `None` where they are no digits.
pub(super) fn sum(mut reader: impl Read, at: u64, mut progress: impl FnMut(u64)) -> io::Result<(u32, Option<u32>)> {
    const CHUNK_BYTES: usize = 1 << 20;
    let (mut hasher, mut chunk, mut start) = (crc32fast::Hasher::new(), vec![0; CHUNK_BYTES], 0_u64);
    let mut said = Vec::with_capacity(DIGITS);
    loop {
        let bytes = match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = &mut chunk[..bytes];
        for (place, byte) in (start..).zip(read.iter_mut()).skip(before(start, at)).take(DIGITS) {
            if (at..at + DIGITS as u64).contains(&place) {
                said.push(std::mem::replace(byte, b'0'));
            }
        }
        hasher.update(read);
        start += bytes as u64;
        progress(start);
    }
    let said = std::str::from_utf8(&said).ok().filter(|said| said.len() == DIGITS);
    Ok((hasher.finalize(), said.and_then(|said| u32::from_str_radix(said, 16).ok())))
}

/// Bytes of a piece that begins at `start` which lie before `at`.
fn before(start: u64, at: u64) -> usize {
    usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a byte at a time: the digits are split between pieces.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.take(1).read(buffer).inspect(|read| self.0 = &self.0[*read..])
        }
    }

    #[test]
    fn the_digits_count_as_zeros_wherever_they_lie() {
        let crc = crc32fast::hash(b"head 00000000 tail");
        assert_eq!(sum(&b"head 0012abcd tail"[..], 5, |_| {}).unwrap(), (crc, Some(0x0012_abcd)));
        assert_eq!(sum(Slowly(b"head 0012abcd tail"), 5, |_| {}).unwrap(), (crc, Some(0x0012_abcd)));
        assert_eq!(sum(&b"head 0012ab"[..], 5, |_| {}).unwrap().1, None);
        assert_eq!(sum(&b"head 0012xxxx tail"[..], 5, |_| {}).unwrap().1, None);
    }
}
