//! One read-only map of one file.
//!
//! May touch memmap2. Knows nothing of what the bytes mean.
//!
//! Always true:
//! - M1. Only bytes below the published length are handed out; the published length never shrinks and never passes the
//!   map's end.
//! - M2. The owner publishes only bytes that were written already and that nobody will write again.
//! - M3. A truncation by somebody else breaks M2 from outside: touching the lost pages is a SIGBUS, which ends the
//!   process. No check in here can prevent it, so files that were mapped are never truncated by this crate, and their
//!   names are removed rather than their bytes.

#![expect(unsafe_code, reason = "reading mapped memory is a raw pointer access; each block proves itself")]
#![expect(clippy::disallowed_types, reason = "this is the one place where maps are made")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::private::{Identity, Private};

/// A read-only map of a file. It may reach beyond the file's end: what lies there cannot be reached through it.
///
/// The map keeps the file's bytes alive after the file was closed and after its name was removed.
#[derive(Debug)]
pub struct Map {
    memory: MmapRaw,
    file: Identity,
    published_bytes: AtomicU64,
}

impl Map {
    /// Maps the first `capacity_bytes` of a file, of which nothing is published yet.
    pub(super) fn of(file: &File, capacity_bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(capacity_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = MmapOptions::new().len(len).map_raw_read_only(file)?;
        Ok(Self { memory, file: Identity::of(file)?, published_bytes: AtomicU64::new(0) })
    }

    /// Bytes that the map can hold in all.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        // Lossless: no supported machine has addresses of more than 64 bits.
        self.memory.len() as u64
    }

    /// Lets readers reach the bytes below `len_bytes`. A smaller length than before changes nothing, and one beyond the
    /// map's end stops there.
    ///
    /// The caller vouches that the file is at least that long, and that those bytes never change again (M2).
    pub(crate) fn publish(&self, len_bytes: u64) {
        // Release: whoever sees the new length also sees the writes that it stands for.
        self.published_bytes.fetch_max(len_bytes.min(self.capacity_bytes()), Ordering::Release);
    }

    /// The bytes of a range; `None` where any of them is not published, or the range runs backwards.
    pub(crate) fn get(&self, range: Range<u64>) -> Option<&[u8]> {
        let (start, len) = self.published(&range)?;
        // SAFETY: in bounds because start <= start + len <= the published length <= the map's length (`published`, M1),
        // and one map is one allocation.
        let first = unsafe { self.memory.as_ptr().add(start) };
        // SAFETY: aligned because u8 is; in bounds and non-null because `first` starts `len` bytes of a live map; valid
        // because published bytes lie below the file's end; unchanged because published bytes are never written again
        // (M2); borrowed from `self`, so the map outlives the slice.
        Some(unsafe { slice::from_raw_parts(first, len) })
    }

    /// A private map of bytes that this map lent, which may be written to. `path` is the name that the file was opened by:
    /// `None` where that is no longer this file, or it cannot be mapped, or the bytes are others or none at all.
    pub(crate) fn private(&self, path: &Path, lent: &[u8]) -> Option<Private> {
        let start = lent.as_ptr().addr().checked_sub(self.memory.as_ptr().addr())?;
        let end = start.checked_add(lent.len()).filter(|end| *end > start)?;
        // Published bytes are never written again (M2), and lie below the file's end.
        self.get(start as u64..end as u64)?;
        Private::of(path, self.file, start..end)
    }

    /// Asks the processor for the cache lines of a published range that begins at a multiple of 64, so that reads that come
    /// soon wait for one trip to memory and not for one after the other. Does nothing where the target has no such word.
    pub(crate) fn prefetch(&self, range: Range<u64>) {
        const LINE_BYTES: usize = 64;
        for line in self.get(range).unwrap_or_default().chunks(LINE_BYTES) {
            prefetch_line(line);
        }
    }

    /// Reads the pages of a published range into memory, so that an unreadable medium is an error here and not a SIGBUS
    /// at the first touch.
    ///
    /// Does nothing on systems that cannot do it (anything but Linux, and Linux before 5.14).
    pub(crate) fn populate(&self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = self.published(&range) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("bytes {} to {} of the map are not published", range.start, range.end),
            ));
        };
        if len == 0 { Ok(()) } else { populate_pages(&self.memory, start, len) }
    }

    /// Start and length of a range that lies below the published length.
    fn published(&self, range: &Range<u64>) -> Option<(usize, usize)> {
        let published = self.published_bytes.load(Ordering::Acquire);
        let len = range.end.checked_sub(range.start)?;
        if range.end > published {
            return None;
        }
        Some((usize::try_from(range.start).ok()?, usize::try_from(len).ok()?))
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch_line(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: a hint that reads nothing and faults at no address; every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_line(_line: &[u8]) {}

#[cfg(target_os = "linux")]
fn populate_pages(map: &MmapRaw, start: usize, len: usize) -> io::Result<()> {
    use rustix::io::Errno;

    let Err(error) = map.advise_range(memmap2::Advice::PopulateRead, start, len) else { return Ok(()) };
    match Errno::from_io_error(&error) {
        // The kernel does not know the advice: the pages are then read at their first touch, as ever.
        Some(Errno::INVAL | Errno::NOSYS) => Ok(()),
        // The kernel's word for "this touch would have been a SIGBUS".
        Some(Errno::FAULT | Errno::HWPOISON) => Err(Errno::IO.into()),
        _ => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn populate_pages(_map: &MmapRaw, _start: usize, _len: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn bytes_written_after_mapping_are_seen_once_published() {
        let file = tempfile::tempfile().unwrap();
        let map = Map::of(&file, 1 << 20).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        assert_eq!(map.get(0..5), None);
        map.publish(5);
        assert_eq!(map.get(0..5), Some(&b"hello"[..]));

        // The file grows over a page boundary after the first read.
        file.write_all_at(&[7; 10_000], 5).unwrap();
        map.publish(10_005);
        assert_eq!(map.get(4_000..10_005).unwrap(), &[7; 6_005]);
    }

    #[test]
    fn nothing_beyond_the_published_length_is_handed_out() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        let map = Map::of(&file, 8192).unwrap();
        map.publish(100);
        assert_eq!(map.get(0..100).unwrap().len(), 100);
        assert_eq!(map.get(100..100).unwrap().len(), 0);
        assert_eq!(map.get(0..101), None);
        assert_eq!(map.get(100..101), None);
        assert_eq!(map.get(u64::MAX..u64::MAX), None);
        let (start, end) = (50, 20);
        assert_eq!(map.get(start..end), None, "a range that runs backwards");
    }

    #[test]
    fn the_published_length_only_grows_and_ends_with_the_map() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let map = Map::of(&file, 4096).unwrap();
        map.publish(200);
        map.publish(100);
        assert!(map.get(0..200).is_some());
        map.publish(u64::MAX);
        assert!(map.get(0..4096).is_some());
        assert_eq!(map.get(0..4097), None);
    }

    #[test]
    fn a_map_may_be_shared_between_threads() {
        fn shared<T: Send + Sync + std::fmt::Debug>() {}
        shared::<Map>();
    }

    #[test]
    fn populating_takes_published_ranges_alone() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let map = Map::of(&file, 1 << 20).unwrap();
        map.publish(10_000);
        map.populate(4_100..9_999).unwrap();
        map.populate(0..0).unwrap();
        assert_eq!(map.populate(0..10_001).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn populating_lost_pages_is_an_error_and_no_signal() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100_000).unwrap();
        let map = Map::of(&file, 100_000).unwrap();
        map.publish(100_000);
        file.set_len(0).unwrap();
        let error = map.populate(50_000..60_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    }
}
