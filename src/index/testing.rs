//! What the tests of the index share: a disk of byte vectors, and rows that use every field.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Extra;
use super::entry::{FirstOld, KlEntry};
use super::{Entry, Row};
use crate::disk::map::Map;
use crate::disk::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};
use crate::format::clock::VersionClock;
use crate::format::counters::Counters;
use crate::format::entry::{EntryKind as FrameType, FrameEntry, Has};
use crate::format::manifest::{RetireLine, StateSnapshot};
use crate::format::resume::{BatchEnd, Resume};
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::sync::Mutex;

/// A file in memory. It can be told to fail as a full disk does, after some more operations that change it.
#[derive(Debug)]
pub(super) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    operations_left: AtomicU64,
}

impl MemoryFile {
    pub(super) fn with(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), operations_left: AtomicU64::new(u64::MAX) })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    pub(super) fn full_after(&self, operations: u64) {
        self.operations_left.store(operations, Ordering::Relaxed);
    }

    fn check_space(&self) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(1);
        let left = self.operations_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.map(|_| ()).map_err(|_| ErrorKind::StorageFull.into())
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.bytes.lock();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let source = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
        buffer.copy_from_slice(source.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.check_space()?;
        let mut bytes = self.bytes.lock();
        let mut start = usize::try_from(offset).map_err(io::Error::other)?;
        for buffer in buffers {
            let end = start + buffer.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(buffer);
            start = end;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_space()?;
        if len > 1 << 32 {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.bytes.lock().resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_space()
    }

    fn map(&self, _capacity: u64) -> io::Result<Option<Map>> {
        Ok(None)
    }
}

/// Files in memory by path.
#[derive(Debug, Default)]
pub(super) struct MemoryDisk {
    files: Mutex<HashMap<PathBuf, Arc<MemoryFile>>>,
    /// What `full_after` is called with for files that are created.
    created_full_after: Option<u64>,
}

impl MemoryDisk {
    /// A disk whose new files take so many operations.
    pub(super) fn full_after(operations: u64) -> Self {
        Self { files: Mutex::default(), created_full_after: Some(operations) }
    }

    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>) -> Arc<MemoryFile> {
        let file = MemoryFile::with(bytes);
        self.files.lock().insert(path.to_owned(), Arc::clone(&file));
        file
    }

    pub(super) fn file(&self, path: &Path) -> Option<Arc<MemoryFile>> {
        self.files.lock().get(path).cloned()
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if self.file(path).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = self.put(path, Vec::new());
        if let Some(operations) = self.created_full_after {
            file.full_after(operations);
        }
        Ok(file)
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.file(path).map(|file| file as Arc<dyn DiskFile>).ok_or(ErrorKind::NotFound.into())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(|_| ()).ok_or(ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        unsupported()
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<OsString>> {
        unsupported()
    }

    fn entry_kind(&self, _path: &Path) -> io::Result<Option<EntryKind>> {
        unsupported()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unsupported()
    }

    fn exchange(&self, _a: &Path, _b: &Path) -> io::Result<()> {
        unsupported()
    }

    fn hard_link(&self, _existing: &Path, _new: &Path) -> io::Result<()> {
        unsupported()
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        unsupported()
    }

    fn lock(&self, _path: &Path, _owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        Err(LockError::Io(ErrorKind::Unsupported.into()))
    }

    fn file_system(&self, _path: &Path) -> io::Result<FileSystem> {
        unsupported()
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(ErrorKind::Unsupported.into())
}

pub(super) fn at(segment: u32, offset_units: u32) -> Location {
    Location { segment: SegmentId(segment), offset_units }
}

/// A row whose every field is set, and differs from the rows of other numbers.
pub(super) fn rich_row(number: u64) -> Row {
    let unit = u32::try_from(number % 1000).unwrap() * 16;
    let lsn = |nth| Lsn::new(number * 10 + nth);
    let entry = Entry {
        id: RolloutId::new(number),
        insert: at(1, unit),
        old: at(2, unit),
        insert_lsn: lsn(2),
        old_lsn: lsn(5),
        created_step: number % 7,
        born_step: number % 11,
        ref_version: number % 5,
        token_count: 1000 + unit,
        insert_units: 16,
        old_units: 8,
        group: Some(number / 8),
        has: Has::OLD.with(Has::KL_REF).with(Has::USED),
    };
    let extra = Extra {
        kl: Some(KlEntry { at: at(1, unit + 1), lsn: lsn(3), units: 4, version: number % 3 }),
        first_old: Some(FirstOld { at: at(2, unit + 2), lsn: lsn(4), units: 4 }),
    };
    Row { entry, extra }
}

/// A piece of rollout `id` with this number, of the incarnation that began with `begin`.
pub(super) fn piece(id: u64, lsn: u64, begin: u64) -> FrameEntry {
    FrameEntry {
        kind: FrameType::Piece,
        id: RolloutId::new(id),
        lsn: Lsn::new(lsn),
        insert_lsn: Lsn::new(begin),
        offset_units: 7,
        frame_units: 5,
        born_step: 3,
        ref_version: 11,
        created_step: 3,
        kl_version: 2,
        token_count: 13,
        group: None,
        has: Has::default(),
    }
}

/// A place in a segment, and a state there whose every part is set.
pub(super) fn resume(segment: u32, lsn: u64) -> Resume {
    let mut ref_clock = VersionClock::new();
    ref_clock.follow(4, Some(40));
    let state = StateSnapshot {
        lsn: Lsn::new(lsn),
        clock: Some(12),
        ref_clock,
        kl_clock: VersionClock::new(),
        cursor: Some(b"cursor".to_vec()),
        id_ceiling: 77,
        counters: Counters { asked: 5, ..Counters::default() },
        retire_lines: vec![RetireLine { created_before: 3, lsn: Lsn::new(9), reason: 1 }],
        sweeps: Vec::new(),
    };
    Resume { end: BatchEnd { last: at(segment, 64), header_crc: 0x1234_5678, min_insert_lsn: Lsn::new(2) }, state }
}
