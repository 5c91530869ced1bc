//! A disk that counts and traces what another one is asked to do.
//!
//! May touch nothing but the disk that it wraps. Knows nothing of how that one works.
//!
//! Always true:
//! - C1. Every call goes to the wrapped disk once, with the same arguments, and its result comes back unchanged; maps
//!   alone may be refused.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::map::Map;
pub use super::recorder::{Op, OpCounts, OpKind, TRACE_OPS_MAX};
use super::recorder::{Recorder, Request};
use super::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

/// A disk that counts and traces what another one is asked to do. Clones share their counts.
///
/// # How many bytes does this read?
/// ```
/// use std::sync::Arc;
/// use rollstore::disk::{Access, Disk, counting::CountingDisk, os::OsDisk};
/// let disk = CountingDisk::new(Arc::new(OsDisk));
/// disk.open("Cargo.toml".as_ref(), Access::Read)?.read_exact_at(&mut [0; 10], 0)?;
/// assert_eq!(disk.counts().read_bytes, 10);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct CountingDisk {
    inner: Arc<dyn Disk>,
    recorder: Arc<Recorder>,
    maps: bool,
}

impl CountingDisk {
    /// Counts what `inner` is asked to do through this disk.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self { inner, recorder: Arc::default(), maps: true }
    }

    /// Refuses maps, so that every byte that is read goes through a counted read.
    #[must_use]
    pub fn without_maps(self) -> Self {
        Self { maps: false, ..self }
    }

    /// How many operations succeeded since the start or the last [`Self::clear`].
    #[must_use]
    pub fn counts(&self) -> OpCounts {
        self.recorder.counts()
    }

    /// The operations since the start or the last [`Self::clear`], in the order of their ends.
    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        self.recorder.trace()
    }

    /// The tick that the next begin or end of an operation gets: compare it with [`Op::begun`] and [`Op::ended`].
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.recorder.tick()
    }

    /// Forgets counts and trace. Numbers and ticks go on.
    pub fn clear(&self) {
        self.recorder.clear();
    }

    fn file(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        let recorder = Arc::clone(&self.recorder);
        Arc::new(CountingFile { inner: file, recorder, path: path.to_owned(), maps: self.maps })
    }

    fn run<T, E>(&self, kind: OpKind, path: &Path, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.recorder.run(Request::new(kind, path), act)
    }
}

impl Disk for CountingDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.run(OpKind::Create, path, || self.inner.create(path))?;
        Ok(self.file(file, path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.run(OpKind::Open, path, || self.inner.open(path, access))?;
        Ok(self.file(file, path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::CreateDir, path, || self.inner.create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.run(OpKind::List, dir, || self.inner.list(dir))
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.run(OpKind::EntryKind, path, || self.inner.entry_kind(path))
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        self.run(OpKind::EntryKind, path, || self.inner.is_link(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(OpKind::Rename, from, || self.inner.rename(from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.run(OpKind::Exchange, a, || self.inner.exchange(a, b))
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.run(OpKind::HardLink, existing, || self.inner.hard_link(existing, new))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::RemoveFile, path, || self.inner.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::RemoveDir, path, || self.inner.remove_dir(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(OpKind::SyncDir, dir, || self.inner.sync_dir(dir))
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        self.run(OpKind::Lock, path, || self.inner.lock(path, owner))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.inner.file_system(path)
    }
}

#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn DiskFile>,
    recorder: Arc<Recorder>,
    path: PathBuf,
    maps: bool,
}

impl DiskFile for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.recorder.run(Request::new(OpKind::Len, &self.path), || self.inner.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let request = Request::bytes(OpKind::Read, &self.path, offset, buffer.len() as u64);
        self.recorder.run(request, || self.inner.read_exact_at(buffer, offset))
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let request = Request::bytes(OpKind::Write, &self.path, offset, len);
        self.recorder.run(request, || self.inner.write_all_vectored_at(buffers, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let request = Request::bytes(OpKind::SetLen, &self.path, len, 0);
        self.recorder.run(request, || self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.recorder.run(Request::new(OpKind::SyncData, &self.path), || self.inner.sync_data())
    }

    fn begin_write_out(&self, bytes: Range<u64>) {
        self.inner.begin_write_out(bytes);
    }

    fn write_out(&self, bytes: Range<u64>) -> io::Result<()> {
        self.inner.write_out(bytes)
    }

    fn release_pages(&self, bytes: Range<u64>) {
        self.inner.release_pages(bytes);
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        let map = || if self.maps { self.inner.map(capacity) } else { Ok(None) };
        self.recorder.run(Request::new(OpKind::Map, &self.path), map)
    }
}

#[cfg(test)]
mod tests {
    use super::super::os::OsDisk;
    use super::*;

    #[test]
    fn real_files_are_counted_and_traced_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk = CountingDisk::new(Arc::new(OsDisk));
        let file = disk.create(&path).unwrap();
        file.write_all_vectored_at(&mut [IoSlice::new(b"ab"), IoSlice::new(b"cde")], 7).unwrap();
        file.sync_data().unwrap();
        let synced = disk.tick();
        file.read_exact_at(&mut [0; 4], 8).unwrap();
        file.read_exact_at(&mut [0; 4], 100).unwrap_err();

        let counts = disk.counts();
        assert_eq!((counts.creates, counts.writes, counts.write_bytes, counts.syncs), (1, 1, 5, 1));
        assert_eq!((counts.reads, counts.read_bytes), (1, 4), "a failed read moved nothing");
        let trace = disk.trace();
        let kinds: Vec<OpKind> = trace.iter().map(|op| op.kind).collect();
        assert_eq!(kinds, [OpKind::Create, OpKind::Write, OpKind::SyncData, OpKind::Read, OpKind::Read]);
        let [_, write, sync, _, failed] = &trace[..] else { panic!("five operations") };
        assert_eq!((write.offset, write.len, &write.path), (7, 5, &path));
        assert!(write.ended < sync.begun && sync.ended < synced);
        assert!(sync.ok && !failed.ok);
    }

    #[test]
    fn maps_are_refused_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk = CountingDisk::new(Arc::new(OsDisk));
        assert!(disk.create(&path).unwrap().map(4096).unwrap().is_some());
        let disk = disk.without_maps();
        assert!(disk.open(&path, Access::Read).unwrap().map(4096).unwrap().is_none());
        assert_eq!(disk.counts().maps, 2);
    }
}
