//! Files, maps, locks and syncs: the only way to bytes on a medium.
//!
//! May touch `std::fs`, memmap2 and rustix (in [`os`] and [`map`] alone). Knows nothing of frames, segments or
//! rollouts. Everything above reaches files through [`Disk`], redb's index file included, so that a simulated disk
//! sees, counts and fails every operation.
//!
//! What is assumed of the medium:
//! - A1. Bytes for which `sync_data` returned Ok survive power loss. After a failed sync nothing is assumed.
//! - A2. A directory entry survives power loss only after `sync_dir` of its directory.
//! - A3. A rename replaces its target at once: a reader sees the old file or the new one.
//! - A4. Bytes never written by this process are not touched by a crash.

#![expect(clippy::missing_errors_doc, reason = "every call fails as the operating system does, with its error")]

pub mod aligned;
#[cfg(feature = "sim")]
pub mod counting;
pub mod map;
pub mod os;
pub(crate) mod private;
#[cfg(feature = "sim")]
mod recorder;
#[cfg(feature = "sim")]
pub mod sim;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading alone: needs no write permission anywhere and touches nothing.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// What stands behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a socket, a device.
    Other,
}

/// The kind of file system that holds a path: decides between mapped and copying reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    /// One machine's own disk or memory: maps are coherent with writes.
    Local,
    /// Shared between machines (NFS, Lustre, GPFS, FUSE …); the name is for messages.
    Network(String),
}

/// Why a lock was not had.
#[derive(Debug)]
pub enum LockError {
    /// Someone holds it; the text is what the holder wrote into the file.
    Held(String),
    /// The file system has no working lock, or another failure.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An exclusive lock, let go when dropped. The file stays: unlinking it would let two holders in.
pub trait DiskLock: Send + Sync + fmt::Debug {
    /// Whether the lock file is still the one at its path: false once it was deleted, replaced or its directory renamed.
    fn is_current(&self) -> bool;
}

/// An open file. All access is positioned, so that one handle serves many threads.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on; an `UnexpectedEof` error where the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `buffers`, one after the other, at `offset`: loops over partial writes and over the system's limit
    /// of buffers a call. After an error any part of them may have been written.
    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Sets the length; new bytes read as zero.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the file's bytes and its length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Begins to write out these bytes of the file, and waits for nothing: the disk works while the caller goes on. Advice: a
    /// system without it does nothing, and whatever fails, [`Self::write_out`] or the next sync tells.
    fn begin_write_out(&self, _bytes: Range<u64>) {}

    /// Writes out these bytes of the file, and waits until the disk has them: a later sync, of this file or one beside it,
    /// then finds little left to do. It makes nothing durable, and a system without such a call does nothing. An error is
    /// told once, here or by the next sync: the file may then lack anything written since the last sync.
    fn write_out(&self, _bytes: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    /// Lets go of what the system keeps in memory of these bytes of the file, as far as they are written out and not mapped.
    /// Advice: a system without it does nothing. It takes time by the length, whatever is kept.
    fn release_pages(&self, _bytes: Range<u64>) {}

    /// Maps `capacity` bytes for reading, which may reach beyond the end of the file: the bytes up to the file's length
    /// may be read, those beyond must not be touched until the file has grown over them. `None` where this file cannot
    /// be mapped: the caller then reads copies.
    fn map(&self, capacity: u64) -> io::Result<Option<map::Map>>;

    /// Whether there is nothing in the file.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file system. Paths are the caller's own, absolute or relative to the working directory.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a file for reading and writing; an `AlreadyExists` error where the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a directory and its missing parents; Ok where it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// What stands at a path, following links; `None` where nothing does.
    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>>;

    /// Whether a name is a symbolic link. False, as here, on a file system that has none.
    fn is_link(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(false)
    }

    /// Renames a file, replacing one of the new name, or a directory, whose new name must be free.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Swaps what stands at two paths in one step; an `Unsupported` error where the system cannot.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock on a file, which is created if missing, without waiting, and writes `owner` into it.
    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError>;

    /// A path that means the same whatever becomes the working directory: itself where the disk knows none.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// The kind of file system that holds an existing path.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
}
