//! Which operation fails, and how.
//!
//! May touch nothing. Knows operations by their number, or by their kind and the name of their file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::super::recorder::OpKind;
use super::io_error;

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The medium does not answer. A data sync loses the unsynced bytes of its file for good (they can still be read).
    Eio,
    /// No space. Operations that need none pass unharmed; a data sync that fails so loses bytes as with [`Self::Eio`].
    Enospc,
    /// A write writes its first half and then fails. Operations other than writes pass unharmed.
    ShortWrite,
    /// The power goes in the middle of the operation: what it changes is under way and may be found after the crash or
    /// not. All later operations fail.
    PowerCut,
    /// The operation is refused with this kind of error and changes nothing, but that a data sync loses bytes as with
    /// [`Self::Eio`].
    Other(io::ErrorKind),
}

/// What becomes of one operation.
#[derive(Debug)]
pub(super) enum Verdict {
    Pass,
    /// Write half, then fail.
    Halve,
    Refuse(io::Error),
    /// Do it, make nothing durable, and then cut the power.
    CutPower,
}

/// The faults that wait for their operation.
#[derive(Debug, Default)]
pub(super) struct Faults {
    at: BTreeMap<u64, Fault>,
    from: Option<(u64, Fault)>,
    next: Option<(OpKind, String, Fault)>,
}

impl Faults {
    pub(super) fn fail_at(&mut self, number: u64, fault: Fault) {
        self.at.insert(number, fault);
    }

    pub(super) fn fail_from(&mut self, number: u64, fault: Fault) {
        self.from = Some((number, fault));
    }

    pub(super) fn fail_next(&mut self, kind: OpKind, name: &str, fault: Fault) {
        self.next = Some((kind, name.to_owned(), fault));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What becomes of the operation with this number, of this kind, on this file.
    pub(super) fn verdict(&mut self, number: u64, kind: OpKind, path: &Path) -> Verdict {
        let lasting = self.from.filter(|(first, _)| number >= *first).map(|(_, fault)| fault);
        let is_next = |(of, name, _): &mut (OpKind, String, Fault)| *of == kind && path.ends_with(name.as_str());
        let next = self.next.take_if(is_next).map(|(_, _, fault)| fault);
        match self.at.remove(&number).or(next).or(lasting) {
            Some(Fault::Eio) => Verdict::Refuse(io_error()),
            Some(Fault::Enospc) if takes_space(kind) => Verdict::Refuse(rustix::io::Errno::NOSPC.into()),
            Some(Fault::ShortWrite) if kind == OpKind::Write => Verdict::Halve,
            Some(Fault::PowerCut) => Verdict::CutPower,
            Some(Fault::Other(kind)) => Verdict::Refuse(kind.into()),
            Some(Fault::Enospc | Fault::ShortWrite) | None => Verdict::Pass,
        }
    }
}

/// Whether an operation can fail for want of space: it writes, makes a name, or allocates what was written before.
fn takes_space(kind: OpKind) -> bool {
    kind.changes_disk() && !matches!(kind, OpKind::RemoveFile | OpKind::RemoveDir | OpKind::SyncDir)
}
