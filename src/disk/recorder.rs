//! What a disk was asked to do: counts, and a trace of single operations.
//!
//! May touch nothing. Knows nothing of how the operations are done.
//!
//! Always true:
//! - R1. An operation is counted, by its kind and bytes, only when it succeeded; the trace tells the failed ones too.
//! - R2. The trace stands in the order of ends. Ticks order all begins and ends of one recorder among each other.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::sync::Mutex;

/// Operations that a trace keeps, the newest ones: a long benchmark must not fill the memory.
pub const TRACE_OPS_MAX: usize = 1 << 20;

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is named after the method of `Disk`, `DiskFile` or `DiskLock`")]
pub enum OpKind {
    Create,
    Open,
    Len,
    Read,
    Write,
    SetLen,
    SyncData,
    Map,
    CreateDir,
    List,
    EntryKind,
    Rename,
    Exchange,
    HardLink,
    RemoveFile,
    RemoveDir,
    SyncDir,
    Lock,
}

impl OpKind {
    /// Whether an operation of this kind may change the disk: the points at which a power cut can leave something new.
    #[must_use]
    pub fn changes_disk(self) -> bool {
        !matches!(self, Self::Open | Self::Len | Self::Read | Self::Map | Self::List | Self::EntryKind)
    }
}

/// One operation that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op {
    /// Its place in the order of begins, from 0: the number that faults are aimed by.
    pub number: u64,
    /// Tick at which it began.
    pub begun: u64,
    /// Tick at which it ended.
    pub ended: u64,
    /// What it did.
    pub kind: OpKind,
    /// The path it was called with; for an operation on an open file, the path that was opened. The first of two.
    pub path: PathBuf,
    /// First byte of a read or write, the new length of a `SetLen`, else 0.
    pub offset: u64,
    /// Bytes that a read or write was asked to move, else 0.
    pub len: u64,
    /// Whether it returned Ok.
    pub ok: bool,
}

/// How many operations succeeded, by kind, and the bytes that they moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpCounts {
    /// Reads; what is read through a map is not seen.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Changes of a file's length.
    pub set_lens: u64,
    /// Data syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub dir_syncs: u64,
    /// Files created.
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Maps asked for.
    pub maps: u64,
    /// Renames and exchanges.
    pub renames: u64,
    /// Hard links made.
    pub links: u64,
    /// Files and directories removed.
    pub removes: u64,
    /// Directories created (or found) and listed, lengths and kinds asked for, locks taken.
    pub others: u64,
}

impl OpCounts {
    fn add(&mut self, kind: OpKind, len: u64) {
        let count = match kind {
            OpKind::Read => {
                self.read_bytes += len;
                &mut self.reads
            }
            OpKind::Write => {
                self.write_bytes += len;
                &mut self.writes
            }
            OpKind::SetLen => &mut self.set_lens,
            OpKind::SyncData => &mut self.syncs,
            OpKind::SyncDir => &mut self.dir_syncs,
            OpKind::Create => &mut self.creates,
            OpKind::Open => &mut self.opens,
            OpKind::Map => &mut self.maps,
            OpKind::Rename | OpKind::Exchange => &mut self.renames,
            OpKind::HardLink => &mut self.links,
            OpKind::RemoveFile | OpKind::RemoveDir => &mut self.removes,
            OpKind::CreateDir | OpKind::List | OpKind::EntryKind | OpKind::Len | OpKind::Lock => &mut self.others,
        };
        *count += 1;
    }
}

/// What one operation is about, before it is known how it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) kind: OpKind,
    pub(super) path: &'a Path,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl<'a> Request<'a> {
    /// A request that moves no bytes.
    pub(super) fn new(kind: OpKind, path: &'a Path) -> Self {
        Self { kind, path, offset: 0, len: 0 }
    }

    /// A request about `len` bytes from `offset` on.
    pub(super) fn bytes(kind: OpKind, path: &'a Path, offset: u64, len: u64) -> Self {
        Self { kind, path, offset, len }
    }
}

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) number: u64,
    tick: u64,
}

/// Takes down operations, from any number of threads.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    operations: u64,
    tick: u64,
    counts: OpCounts,
    trace: VecDeque<Op>,
}

impl Recorder {
    pub(super) fn begin(&self) -> Begun {
        let mut record = self.record.lock();
        let begun = Begun { number: record.operations, tick: record.tick };
        record.operations += 1;
        record.tick += 1;
        begun
    }

    pub(super) fn end(&self, begun: Begun, request: Request<'_>, ok: bool) {
        let Request { kind, path, offset, len } = request;
        let mut record = self.record.lock();
        let ended = record.tick;
        record.tick += 1;
        if ok {
            record.counts.add(kind, len);
        }
        if record.trace.len() == TRACE_OPS_MAX {
            record.trace.pop_front();
        }
        let Begun { number, tick } = begun;
        record.trace.push_back(Op { number, begun: tick, ended, kind, path: path.to_owned(), offset, len, ok });
    }

    /// Runs an operation and takes it down.
    pub(super) fn run<T, E>(&self, request: Request<'_>, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = self.begin();
        let result = act();
        self.end(begun, request, result.is_ok());
        result
    }

    pub(super) fn operations(&self) -> u64 {
        self.record.lock().operations
    }

    pub(super) fn tick(&self) -> u64 {
        self.record.lock().tick
    }

    pub(super) fn counts(&self) -> OpCounts {
        self.record.lock().counts
    }

    pub(super) fn trace(&self) -> Vec<Op> {
        self.record.lock().trace.iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        let mut record = self.record.lock();
        record.counts = OpCounts::default();
        record.trace.clear();
    }
}
