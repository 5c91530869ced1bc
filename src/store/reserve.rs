//! A file whose space is given up where the disk is full: enough to seal, to write a manifest, to retire.
//!
//! Always true:
//! - R1. What grows the store never takes the reserve; what closes it, opens it or frees space may.
//! - R2. An operation is tried again once at most, and only one that may be repeated.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::{Access, Disk};
use crate::error::{ErrorKind, Result};
use crate::format::names::RESERVE;

/// The file `RESERVE` of one store.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// A reserve of so many bytes in the store's directory; 0 for none.
    pub(crate) fn new(dir: &Path, bytes: u64) -> Self {
        Self { path: dir.join(RESERVE), bytes }
    }

    /// Writes the file where it is not there whole. Where there is no space for it, there is none.
    pub(crate) fn make(&self, disk: &dyn Disk) {
        if self.bytes == 0 || self.stands(disk) {
            return;
        }
        if let Err(error) = self.write(disk) {
            tracing::info!(path = %self.path.display(), %error, "no space is kept in reserve");
            let _ = disk.remove_file(&self.path);
        }
    }

    /// Gives the space up. False where there was none.
    fn release(&self, disk: &dyn Disk) -> bool {
        self.bytes > 0 && disk.remove_file(&self.path).is_ok()
    }

    /// Does what frees space or ends; once more, with the space of the reserve, where there was none.
    pub(crate) fn retry<T>(&self, disk: &dyn Disk, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        match act() {
            Err(error) if error.kind() == ErrorKind::Full && self.release(disk) => {
                tracing::warn!(%error, "the disk is full; the reserve is given up");
                act()
            }
            done => done,
        }
    }

    fn stands(&self, disk: &dyn Disk) -> bool {
        let len = disk.open(&self.path, Access::Read).and_then(|file| file.len());
        len.is_ok_and(|len| len >= self.bytes)
    }

    fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        match disk.remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(&self.path)?;
        let zeros = vec![0; usize::try_from(CHUNK_BYTES.min(self.bytes)).unwrap_or_default()];
        let mut done = 0;
        while done < self.bytes {
            let some = usize::try_from(self.bytes - done).unwrap_or(usize::MAX).min(zeros.len());
            file.write_all_vectored_at(&mut [IoSlice::new(zeros.get(..some).unwrap_or_default())], done)?;
            done += some as u64;
        }
        // A file system may find out only now that it has no space.
        file.sync_data()
    }
}
