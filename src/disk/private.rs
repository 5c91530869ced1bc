//! Private maps: a file's bytes, and writes that stay in the process.
//!
//! May touch `std::fs`, rustix and memmap2. Knows nothing of what the bytes mean.
//!
//! Always true:
//! - P1. A private map is of the very file that the bytes were lent from, not of another one under its name.
//! - P2. No write into it reaches the file, or any other map of it.

#![expect(unsafe_code, reason = "a map is unsound where somebody changes its file; the block proves that nobody does")]
#![expect(clippy::disallowed_types, reason = "this is one of the places where files are opened and maps are made")]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::OFlags;

/// Which file it is, whatever its name: as long as a map of it lives, no other file has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// A range of a file, copied page by page as it is written to.
#[derive(Debug)]
pub(crate) struct Private(MmapMut);

impl Private {
    /// Maps a range of the file at `path`, if it is still this file and can be mapped. Nobody may write to the range any
    /// more, and the file must reach beyond it.
    pub(super) fn of(path: &Path, identity: Identity, range: Range<usize>) -> Option<Self> {
        // Another file of this name may be a pipe, which must not make us wait.
        let no_wait = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path).ok()?;
        if Identity::of(&file).ok()? != identity {
            return None;
        }
        let mut options = MmapOptions::new();
        options.offset(range.start as u64).len(range.len());
        // SAFETY: the bytes stay what they are unless this map changes them, because the caller vouches that the range lies
        // within the file and is never written again, and files that were mapped are never truncated (M3).
        unsafe { options.map_copy(&file) }.ok().map(Self)
    }
}

impl Deref for Private {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Private {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::disk::map::Map;

    #[test]
    fn writes_reach_neither_the_file_nor_another_map() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [7; 10_000]).unwrap();
        let map = Map::of(file.as_file(), 1 << 20).unwrap();
        map.publish(10_000);
        let lent = map.get(100..9_000).unwrap();
        let mut one = map.private(file.path(), lent).unwrap();
        let other = map.private(file.path(), &lent[1..]).unwrap();
        one.fill(9);
        assert!(one.iter().all(|byte| *byte == 9) && one.len() == 8_900);
        assert!(lent.iter().chain(&*other).all(|byte| *byte == 7));
        assert_eq!(fs::read(file.path()).unwrap(), [7; 10_000]);
        // The file grows behind the range, as a segment does that is still written to.
        file.as_file().write_all_at(&[8; 5_000], 10_000).unwrap();
        assert!(one.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn another_file_of_the_name_is_not_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        let map = Map::of(&File::open(&path).unwrap(), 100).unwrap();
        map.publish(100);
        fs::remove_file(&path).unwrap();
        let lent = map.get(0..100).unwrap();
        assert!(map.private(&path, lent).is_none(), "no file");
        fs::write(&path, [9; 100]).unwrap();
        assert!(map.private(&path, lent).is_none(), "another file");
        assert_eq!(lent, [7; 100]);
    }

    #[test]
    fn bytes_that_the_map_did_not_lend_are_not_mapped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [7; 100]).unwrap();
        let map = Map::of(file.as_file(), 100).unwrap();
        map.publish(50);
        assert!(map.private(file.path(), &[7; 10]).is_none());
        assert!(map.private(file.path(), &[]).is_none());
    }
}
