//! A disk that calls the test around each operation: to do something at that moment, to hold the operation back, to fail it.
//!
//! Always true:
//! - A hook runs in the operation's thread, with nothing held.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::map::Map;
use rollstore::disk::sim::OpKind;
use rollstore::disk::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

/// One operation, as a hook sees it.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// What is done.
    pub kind: OpKind,
    /// The file or directory.
    pub path: &'a Path,
    /// Where a read or a write begins; 0 for any other operation.
    pub offset: u64,
}

impl Operation<'_> {
    /// Whether it writes to a segment of the log or syncs one.
    #[must_use]
    pub fn is_of_log(&self) -> bool {
        let is_segment = self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seg-"));
        is_segment && matches!(self.kind, OpKind::Write | OpKind::SyncData)
    }
}

/// What a test does around operations. A closure is what it does before each.
pub trait Hook: Send + Sync {
    /// Called before an operation. An error is the operation's, which is not tried then.
    ///
    /// # Errors
    /// What the operation is to fail with.
    fn before(&self, operation: Operation<'_>) -> io::Result<()>;

    /// Called after an operation, with whether it succeeded.
    fn after(&self, _operation: Operation<'_>, _succeeded: bool) {}
}

impl<F: Fn(OpKind, &Path) -> io::Result<()> + Send + Sync> Hook for F {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self(operation.kind, operation.path)
    }
}

/// Runs an operation between its hooks.
fn around<T>(hook: &dyn Hook, operation: Operation<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    hook.before(operation)?;
    let result = act();
    hook.after(operation, result.is_ok());
    result
}

/// A disk with a hook around each operation. Clones share it.
#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Disk>,
    hook: Arc<dyn Hook>,
}

impl Hooked {
    /// Calls `before` before each operation on `inner`, with its kind and the path; an error is the operation's.
    pub fn new(inner: Arc<dyn Disk>, before: impl Fn(OpKind, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::with(inner, before)
    }

    /// Calls `hook` around each operation on `inner`.
    pub fn with(inner: Arc<dyn Disk>, hook: impl Hook + 'static) -> Self {
        Self { inner, hook: Arc::new(hook) }
    }

    fn around<T>(&self, kind: OpKind, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        around(&*self.hook, Operation { kind, path, offset: 0 }, act)
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
        self.around(OpKind::Create, path, || Ok(self.file(self.inner.create(path)?, path)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.around(OpKind::Open, path, || Ok(self.file(self.inner.open(path, access)?, path)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.around(OpKind::CreateDir, path, || self.inner.create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.around(OpKind::List, dir, || self.inner.list(dir))
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.around(OpKind::EntryKind, path, || self.inner.entry_kind(path))
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        self.around(OpKind::EntryKind, path, || self.inner.is_link(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.around(OpKind::Rename, from, || self.inner.rename(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.around(OpKind::Exchange, a, || self.inner.exchange(a, b))
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.around(OpKind::HardLink, existing, || self.inner.hard_link(existing, new))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.around(OpKind::RemoveFile, path, || self.inner.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.around(OpKind::RemoveDir, path, || self.inner.remove_dir(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.around(OpKind::SyncDir, dir, || self.inner.sync_dir(dir))
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        let operation = Operation { kind: OpKind::Lock, path, offset: 0 };
        self.hook.before(operation)?;
        let lock = self.inner.lock(path, owner);
        self.hook.after(operation, lock.is_ok());
        lock
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
    hook: Arc<dyn Hook>,
    path: PathBuf,
}

impl HookedFile {
    fn around<T>(&self, kind: OpKind, offset: u64, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        around(&*self.hook, Operation { kind, path: &self.path, offset }, act)
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookedFile").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl DiskFile for HookedFile {
    fn len(&self) -> io::Result<u64> {
        self.around(OpKind::Len, 0, || self.inner.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.around(OpKind::Read, offset, || self.inner.read_exact_at(buffer, offset))
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.around(OpKind::Write, offset, || self.inner.write_all_vectored_at(buffers, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.around(OpKind::SetLen, 0, || self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.around(OpKind::SyncData, 0, || self.inner.sync_data())
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        self.around(OpKind::Map, 0, || self.inner.map(capacity))
    }
}
