//! Open files and held locks of the simulated disk.
//!
//! May touch `state` and `content`. Knows nothing of names, beyond the one that it was opened by.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use super::super::map::Map;
use super::super::recorder::{OpKind, Request};
use super::super::{Access, DiskFile, DiskLock};
use super::Machine;
use super::content::{Change, end_of};
use super::state::{Extent, State};
use super::tree::Inode;

/// An open file of a simulated disk.
pub(super) struct SimFile {
    pub(super) machine: Arc<Machine>,
    pub(super) inode: Inode,
    pub(super) path: PathBuf,
    pub(super) access: Access,
    /// Keeps the file's bytes when its last name goes.
    pub(super) _open: Arc<()>,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Writes as much as is asked for and fits. A write that ends early is an error after the fact, as on a real disk.
    fn write(&self, state: &mut State, extent: Extent, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let end = end_of(offset, bytes.len() as u64)?;
        let start = end - bytes.len();
        let room = state.free_bytes();
        let seq = state.tree.next_seq();
        let content = state.tree.file_mut(self.inode)?;
        let asked = if extent == Extent::Half { bytes.len() / 2 } else { bytes.len() };
        let fitting_end = match room.and_then(|room| usize::try_from(room).ok()) {
            Some(room) => end.min(content.cached.len().saturating_add(room)),
            None => end,
        };
        let written = asked.min(fitting_end.saturating_sub(start));
        if written > 0 {
            content.change(seq, Change::Write { offset: start, bytes: bytes[..written].into() });
        }
        if written < asked {
            Err(rustix::io::Errno::NOSPC.into())
        } else if extent == Extent::Half {
            Err(io::ErrorKind::WriteZero.into())
        } else {
            Ok(())
        }
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.machine
            .run(Request::new(OpKind::Len, &self.path), |state, _| Ok(state.tree.file(self.inode)?.cached.len() as u64))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let len = buffer.len() as u64;
        self.machine.run(Request::bytes(OpKind::Read, &self.path, offset, len), |state, _| {
            let past_end = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let end = end_of(offset, len).map_err(|_| past_end())?;
            let bytes = &state.tree.file(self.inode)?.cached;
            buffer.copy_from_slice(bytes.get(end - buffer.len()..end).ok_or_else(past_end)?);
            Ok(())
        })
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = buffers.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat();
        let request = Request::bytes(OpKind::Write, &self.path, offset, bytes.len() as u64);
        self.machine.run(request, |state, extent| self.write(state, extent, &bytes, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.machine.run(Request::bytes(OpKind::SetLen, &self.path, len, 0), |state, _| {
            self.check_writable()?;
            let end = end_of(len, 0)?;
            let room = state.free_bytes();
            let seq = state.tree.next_seq();
            let content = state.tree.file_mut(self.inode)?;
            let growth = end.saturating_sub(content.cached.len()) as u64;
            if room.is_some_and(|room| growth > room) {
                return Err(rustix::io::Errno::NOSPC.into());
            }
            content.change(seq, Change::SetLen(end));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.machine.run(Request::new(OpKind::SyncData, &self.path), |state, extent| {
            let content = state.tree.file_mut(self.inode)?;
            match extent {
                Extent::Whole | Extent::Half => content.sync(),
                Extent::Harm => content.lose_writes(),
                Extent::Underway => {}
            }
            Ok(())
        })
    }

    fn map(&self, _capacity: u64) -> io::Result<Option<Map>> {
        self.machine.run(Request::new(OpKind::Map, &self.path), |_, _| Ok(None))
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, inode, access, .. } = self;
        f.debug_struct("SimFile").field("path", path).field("inode", inode).field("access", access).finish()
    }
}

/// A held lock of a simulated disk.
pub(super) struct SimLock {
    pub(super) machine: Arc<Machine>,
    pub(super) inode: Inode,
    pub(super) path: PathBuf,
    /// The file knows of it weakly: the lock is free once it is gone.
    pub(super) _token: Arc<()>,
}

impl DiskLock for SimLock {
    fn is_current(&self) -> bool {
        let state = self.machine.state.lock();
        !state.dead && state.tree.find(&self.path).is_ok_and(|inode| inode == self.inode)
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLock").field("path", &self.path).field("inode", &self.inode).finish_non_exhaustive()
    }
}
