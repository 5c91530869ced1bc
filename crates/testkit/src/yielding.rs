//! A disk that gives way around each operation on the log, so that a scheduler can run other threads there.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::map::Map;
use rollstore::disk::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

/// A disk that calls a function before and after it writes to a segment or syncs one.
#[derive(Clone)]
pub struct YieldingDisk {
    inner: Arc<dyn Disk>,
    give_way: fn(),
}

impl fmt::Debug for YieldingDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YieldingDisk").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl YieldingDisk {
    /// Calls `give_way` around each write and sync of a segment on `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, give_way: fn()) -> Self {
        Self { inner, give_way }
    }

    fn file(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seg-")) {
            return Arc::new(LogFile { inner: file, give_way: self.give_way });
        }
        file
    }
}

impl Disk for YieldingDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.create(path)?, path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.open(path, access)?, path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.inner.entry_kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.inner.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.inner.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        self.inner.lock(path, owner)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.inner.file_system(path)
    }
}

#[derive(Debug)]
struct LogFile {
    inner: Arc<dyn DiskFile>,
    give_way: fn(),
}

impl DiskFile for LogFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, offset)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        (self.give_way)();
        let written = self.inner.write_all_vectored_at(buffers, offset);
        (self.give_way)();
        written
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        (self.give_way)();
        let synced = self.inner.sync_data();
        (self.give_way)();
        synced
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        self.inner.map(capacity)
    }
}
