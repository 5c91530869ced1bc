//! A disk that calls the test before each operation: to do something at that moment, or to hold the operation back.
//!
//! Always true:
//! - The hook runs before the operation, in its thread, with nothing held.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::map::Map;
use rollstore::disk::sim::OpKind;
use rollstore::disk::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

type Hook = dyn Fn(OpKind, &Path) -> io::Result<()> + Send + Sync;

/// A disk with a hook before each operation. Clones share it.
#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Disk>,
    hook: Arc<Hook>,
}

impl Hooked {
    /// Calls `hook` before each operation on `inner`, with its kind and the path; an error is the operation's.
    pub fn new(inner: Arc<dyn Disk>, hook: impl Fn(OpKind, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { inner, hook: Arc::new(hook) }
    }

    fn file(&self, inner: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile { inner, hook: Arc::clone(&self.hook), path: path.to_owned() })
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Disk for Hooked {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(OpKind::Create, path)?;
        Ok(self.file(self.inner.create(path)?, path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(OpKind::Open, path)?;
        Ok(self.file(self.inner.open(path, access)?, path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        (self.hook)(OpKind::CreateDir, path)?;
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        (self.hook)(OpKind::List, dir)?;
        self.inner.list(dir)
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        (self.hook)(OpKind::EntryKind, path)?;
        self.inner.entry_kind(path)
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        (self.hook)(OpKind::EntryKind, path)?;
        self.inner.is_link(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(OpKind::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        (self.hook)(OpKind::Exchange, a)?;
        self.inner.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        (self.hook)(OpKind::HardLink, existing)?;
        self.inner.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        (self.hook)(OpKind::RemoveFile, path)?;
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(OpKind::RemoveDir, path)?;
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(OpKind::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        (self.hook)(OpKind::Lock, path)?;
        self.inner.lock(path, owner)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.inner.file_system(path)
    }
}

struct HookedFile {
    inner: Arc<dyn DiskFile>,
    hook: Arc<Hook>,
    path: PathBuf,
}

impl HookedFile {
    fn call(&self, kind: OpKind) -> io::Result<()> {
        (self.hook)(kind, &self.path)
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookedFile").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl DiskFile for HookedFile {
    fn len(&self) -> io::Result<u64> {
        self.call(OpKind::Len)?;
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.call(OpKind::Read)?;
        self.inner.read_exact_at(buffer, offset)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.call(OpKind::Write)?;
        self.inner.write_all_vectored_at(buffers, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(OpKind::SetLen)?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(OpKind::SyncData)?;
        self.inner.sync_data()
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        self.call(OpKind::Map)?;
        self.inner.map(capacity)
    }
}
