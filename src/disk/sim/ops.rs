//! The simulated disk as a `Disk`: one method for each operation on names.
//!
//! May touch `tree` and `state`. Knows nothing of how faults and images are drawn.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::recorder::{OpKind, Request};
use super::super::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};
use super::content::{Change, Content};
use super::handle::{SimFile, SimLock};
use super::state::{Extent, State};
use super::tree::{Directory, Inode, Node, Tree, lies_in};
use super::{SimDisk, io_error};

impl SimDisk {
    fn run<T, E: From<io::Error>>(
        &self,
        kind: OpKind,
        path: &Path,
        act: impl FnOnce(&mut State, Extent) -> Result<T, E>,
    ) -> Result<T, E> {
        self.machine.run(Request::new(kind, path), act)
    }

    fn handle(&self, inode: Inode, open: Arc<()>, path: &Path, access: Access) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { machine: Arc::clone(&self.machine), inode, path: path.to_owned(), access, _open: open })
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let (inode, open) = self.run(OpKind::Create, path, |state, _| {
            let inode = create_file(&mut state.tree, path)?;
            io::Result::Ok((inode, Arc::clone(&state.tree.file(inode)?.open)))
        })?;
        Ok(self.handle(inode, open, path, Access::ReadWrite))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let (inode, open) = self.run(OpKind::Open, path, |state, _| {
            let inode = state.tree.find(path)?;
            io::Result::Ok((inode, Arc::clone(&state.tree.file(inode)?.open)))
        })?;
        Ok(self.handle(inode, open, path, access))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::CreateDir, path, |state, _| {
            let tree = &mut state.tree;
            let mut prefix = PathBuf::new();
            for component in path.components() {
                prefix.push(component);
                match tree.find(&prefix) {
                    Ok(inode) => drop(tree.directory(inode)?),
                    Err(_) => drop(tree.add(tree.slot(&prefix)?, Node::Directory(Directory::default()))),
                }
            }
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.run(OpKind::List, dir, |state, _| {
            let inode = state.tree.find(dir)?;
            Ok(state.tree.directory(inode)?.live.keys().cloned().collect())
        })
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.run(OpKind::EntryKind, path, |state, _| match state.tree.find(path) {
            Ok(inode) if state.tree.is_directory(inode) => Ok(Some(EntryKind::Directory)),
            Ok(_) => Ok(Some(EntryKind::File)),
            Err(_) => Ok(None),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(OpKind::Rename, from, |state, _| rename(&mut state.tree, from, to))
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.run(OpKind::Exchange, a, |state, _| {
            if !state.options.exchange {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let tree = &mut state.tree;
            let (at_a, at_b) = (tree.find(a)?, tree.find(b)?);
            let (slot_a, slot_b) = (tree.slot(a)?, tree.slot(b)?);
            if at_a == at_b {
                return Ok(());
            }
            if lies_in(a, b) || lies_in(b, a) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            tree.change(vec![(slot_a, Some(at_b)), (slot_b, Some(at_a))]);
            Ok(())
        })
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.run(OpKind::HardLink, existing, |state, _| {
            let tree = &mut state.tree;
            let (inode, slot) = (tree.find(existing)?, tree.slot(new)?);
            if !state.options.hard_links || tree.is_directory(inode) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            if tree.at(&slot).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            tree.change(vec![(slot, Some(inode))]);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::RemoveFile, path, |state, _| {
            let tree = &mut state.tree;
            tree.file(tree.find(path)?)?;
            tree.change(vec![(tree.slot(path)?, None)]);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.run(OpKind::RemoveDir, path, |state, _| {
            let tree = &mut state.tree;
            if !tree.directory(tree.find(path)?)?.live.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            tree.change(vec![(tree.slot(path)?, None)]);
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(OpKind::SyncDir, dir, |state, extent| {
            let inode = state.tree.find(dir)?;
            state.tree.directory(inode)?;
            if extent == Extent::Whole {
                state.tree.sync_dir(inode);
            }
            Ok(())
        })
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        let (inode, token) = self.run(OpKind::Lock, path, |state, _| {
            if !state.options.locks {
                return Err(LockError::Io(io::ErrorKind::Unsupported.into()));
            }
            lock_file(&mut state.tree, path, owner)
        })?;
        Ok(Box::new(SimLock { machine: Arc::clone(&self.machine), inode, path: path.to_owned(), _token: token }))
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        let state = self.machine.state.lock();
        if state.dead {
            return Err(io_error());
        }
        state.tree.find(path)?;
        Ok(FileSystem::Local)
    }
}

fn create_file(tree: &mut Tree, path: &Path) -> io::Result<Inode> {
    let slot = tree.slot(path)?;
    if tree.at(&slot).is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(tree.add(slot, Node::File(Content::default())))
}

/// As POSIX has it: what stands at the new name is replaced if it is of the same kind and, a directory, empty.
fn rename(tree: &mut Tree, from: &Path, to: &Path) -> io::Result<()> {
    let moved = tree.find(from)?;
    let (from_slot, to_slot) = (tree.slot(from)?, tree.slot(to)?);
    let moves_directory = tree.is_directory(moved);
    if let Some(replaced) = tree.at(&to_slot) {
        if replaced == moved {
            return Ok(());
        }
        match (moves_directory, tree.directory(replaced)) {
            (true, Ok(directory)) if !directory.live.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            (true, Err(error)) => return Err(error),
            (false, Ok(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            _ => {}
        }
    }
    if moves_directory && lies_in(to, from) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    tree.change(vec![(from_slot, None), (to_slot, Some(moved))]);
    Ok(())
}

fn lock_file(tree: &mut Tree, path: &Path, owner: &str) -> Result<(Inode, Arc<()>), LockError> {
    let inode = match tree.find(path) {
        Ok(inode) => inode,
        Err(_) => create_file(tree, path)?,
    };
    let (emptied, written) = (tree.next_seq(), tree.next_seq());
    let content = tree.file_mut(inode)?;
    if content.is_locked() {
        return Err(LockError::Held(String::from_utf8_lossy(&content.cached).into_owned()));
    }
    let token: Arc<()> = Arc::default();
    content.lock = Arc::downgrade(&token);
    content.change(emptied, Change::SetLen(0));
    content.change(written, Change::Write { offset: 0, bytes: owner.as_bytes().into() });
    Ok((inode, token))
}
