//! A disk whose log syncs wait a little for company, so that batches of several threads gather behind one.
//!
//! Nothing depends on who comes: a sync that waited in vain begins all the same. Tests that need company count it.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rollstore::disk::map::Map;
use rollstore::disk::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

/// Offset of a segment's first frame: what lies before is its header, which is synced alone.
const FRAMES_OFFSET: u64 = 4096;

/// How long a sync waits for other threads before it begins alone: long enough for a busy machine to run them all.
const PATIENCE: Duration = Duration::from_millis(200);

/// A disk whose log syncs let other threads write first.
#[derive(Debug, Clone)]
pub struct GroupingDisk {
    inner: Arc<dyn Disk>,
    company: Arc<Company>,
}

#[derive(Debug)]
struct Company {
    wanted: u64,
    writes: AtomicU64,
    failed: AtomicBool,
}

impl Company {
    fn wrote(&self, ok: bool) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_or(!ok, Ordering::Relaxed);
    }

    fn wait(&self) {
        // The header of a new segment is synced before any frame: there is nothing to wait for then.
        let alone = |writes| writes > 0 && writes < self.wanted && !self.failed.load(Ordering::Relaxed);
        let began = Instant::now();
        while alone(self.writes.load(Ordering::Relaxed)) && began.elapsed() < PATIENCE {
            thread::yield_now();
        }
        self.writes.store(0, Ordering::Relaxed);
    }
}

impl GroupingDisk {
    /// Lets each log sync of `inner` begin once so many writes came, or nobody came for long enough.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, writes: u64) -> Self {
        let company = Company { wanted: writes, writes: AtomicU64::new(0), failed: AtomicBool::new(false) };
        Self { inner, company: Arc::new(company) }
    }

    fn file(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seg-")) {
            return Arc::new(LogFile { inner: file, company: Arc::clone(&self.company) });
        }
        file
    }
}

impl Disk for GroupingDisk {
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
    company: Arc<Company>,
}

impl DiskFile for LogFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, offset)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let written = self.inner.write_all_vectored_at(buffers, offset);
        if offset >= FRAMES_OFFSET {
            self.company.wrote(written.is_ok());
        }
        written
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.company.wait();
        self.inner.sync_data()
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        self.inner.map(capacity)
    }
}
