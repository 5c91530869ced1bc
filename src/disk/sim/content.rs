//! The bytes of one simulated file: what is durable, what is read, and what lies between.
//!
//! May touch nothing. Knows nothing of names.
//!
//! Always true:
//! - F1. The bytes that are read are the durable ones with all changes since, in order, lost ones included.
//! - F2. The pending changes are those that a crash may keep or lose, in the order of their sequence numbers.

use std::io;
use std::sync::{Arc, Weak};

/// Greatest length of a simulated file, in bytes. Its holes take memory, so a wild offset must not take all of it.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 32;

/// A change that no sync has made durable.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its place among all pending changes of the disk, those of names included.
    pub(super) seq: u64,
    pub(super) change: Change,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

impl Change {
    /// Makes the change, with at most `limit` bytes of a write.
    pub(super) fn apply(&self, file: &mut Vec<u8>, limit: usize) {
        match self {
            Self::Write { offset, bytes } => {
                let bytes = &bytes[..bytes.len().min(limit)];
                let end = offset + bytes.len();
                if !bytes.is_empty() && file.len() < end {
                    file.resize(end, 0);
                }
                if let Some(target) = file.get_mut(*offset..end) {
                    target.copy_from_slice(bytes);
                }
            }
            Self::SetLen(len) => file.resize(*len, 0),
        }
    }
}

/// One simulated file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// What a crash leaves whatever happens.
    pub(super) durable: Arc<Vec<u8>>,
    /// What is read while the power lasts.
    pub(super) cached: Arc<Vec<u8>>,
    pub(super) pending: Vec<Pending>,
    /// Shared with every open handle, so that its count tells whether the file is in use without a name.
    pub(super) open: Arc<()>,
    /// Alive while somebody holds the lock on this file.
    pub(super) lock: Weak<()>,
}

impl Content {
    /// A file with nothing but durable bytes.
    pub(super) fn durable(bytes: Arc<Vec<u8>>) -> Self {
        Self { durable: Arc::clone(&bytes), cached: bytes, ..Self::default() }
    }

    /// Makes a change that is not durable yet.
    pub(super) fn change(&mut self, seq: u64, change: Change) {
        change.apply(Arc::make_mut(&mut self.cached), usize::MAX);
        self.pending.push(Pending { seq, change });
    }

    /// Makes all pending changes durable.
    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for pending in self.pending.drain(..) {
            pending.change.apply(durable, usize::MAX);
        }
    }

    /// What a failed sync does: the written bytes are taken for clean and are never written again. Changes of length
    /// belong to the file system's own journal and stay pending.
    pub(super) fn lose_writes(&mut self) {
        self.pending.retain(|pending| matches!(pending.change, Change::SetLen(_)));
    }

    pub(super) fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    pub(super) fn is_locked(&self) -> bool {
        self.lock.strong_count() > 0
    }
}

/// A copy has the same bytes, pending changes included, but nobody has it open or locked.
impl Clone for Content {
    fn clone(&self) -> Self {
        Self {
            durable: Arc::clone(&self.durable),
            cached: Arc::clone(&self.cached),
            pending: self.pending.clone(),
            ..Self::default()
        }
    }
}

/// The end of a range of bytes, as memory counts them.
pub(super) fn end_of(offset: u64, len: u64) -> io::Result<usize> {
    let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(io::ErrorKind::FileTooLarge)?;
    usize::try_from(end).map_err(|_| io::ErrorKind::FileTooLarge.into())
}
