//! Names of simulated files: a tree of directories, with the entries that are durable and those that are not yet.
//!
//! May touch `content`. Knows nothing of faults.
//!
//! Always true:
//! - T1. The live entries are the durable ones with all pending changes, in order.
//! - T2. A change becomes durable as a whole, and after every earlier change of the same names.
//! - T3. A directory has one name, so that walking from the root ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::content::Content;

/// The identity of a file or directory, whatever its names.
pub(super) type Inode = u64;

/// The root directory.
pub(super) const ROOT: Inode = 0;

/// What stands behind an inode.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Content),
    Directory(Directory),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    pub(super) live: BTreeMap<OsString, Inode>,
    pub(super) durable: BTreeMap<OsString, Inode>,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) dir: Inode,
    pub(super) name: OsString,
}

/// Names that change together: each slot, and what stands there afterwards.
#[derive(Debug, Clone)]
pub(super) struct Renaming {
    pub(super) seq: u64,
    pub(super) changes: Vec<(Slot, Option<Inode>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<Inode, Node>,
    pub(super) pending: Vec<Renaming>,
    pub(super) next_inode: Inode,
    next_seq: u64,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node::Directory(Directory::default());
        Self { nodes: BTreeMap::from([(ROOT, root)]), pending: Vec::new(), next_inode: ROOT + 1, next_seq: 0 }
    }
}

impl Tree {
    /// The next sequence number of a pending change.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    /// What stands at a path.
    pub(super) fn find(&self, path: &Path) -> io::Result<Inode> {
        normal(path).into_iter().try_fold(ROOT, |dir, name| {
            self.directory(dir)?.live.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    /// The slot that a path names, whether something stands there or not.
    pub(super) fn slot(&self, path: &Path) -> io::Result<Slot> {
        let mut names = normal(path);
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let dir = self.find(&names.iter().collect::<PathBuf>())?;
        self.directory(dir)?;
        Ok(Slot { dir, name })
    }

    pub(super) fn at(&self, slot: &Slot) -> Option<Inode> {
        self.directory(slot.dir).ok()?.live.get(&slot.name).copied()
    }

    pub(super) fn directory(&self, inode: Inode) -> io::Result<&Directory> {
        match self.nodes.get(&inode) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn is_directory(&self, inode: Inode) -> bool {
        self.directory(inode).is_ok()
    }

    pub(super) fn file(&self, inode: Inode) -> io::Result<&Content> {
        match self.nodes.get(&inode) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file_mut(&mut self, inode: Inode) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Adds a node under a free name.
    pub(super) fn add(&mut self, slot: Slot, node: Node) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.nodes.insert(inode, node);
        self.change(vec![(slot, Some(inode))]);
        inode
    }

    /// Changes names, all of them or, after a crash, none.
    pub(super) fn change(&mut self, changes: Vec<(Slot, Option<Inode>)>) {
        for (slot, inode) in &changes {
            if let Some(Node::Directory(directory)) = self.nodes.get_mut(&slot.dir) {
                set(&mut directory.live, &slot.name, *inode);
            }
        }
        let seq = self.next_seq();
        self.pending.push(Renaming { seq, changes });
    }

    /// Makes the entries of a directory durable, with whatever they depend on.
    pub(super) fn sync_dir(&mut self, dir: Inode) {
        // From the last to the first: a change needs all earlier ones of its slots, in other directories too (T2).
        let mut needed = BTreeSet::new();
        let mut synced = Vec::new();
        for renaming in std::mem::take(&mut self.pending).into_iter().rev() {
            let slots = || renaming.changes.iter().map(|(slot, _)| slot);
            if slots().any(|slot| slot.dir == dir || needed.contains(slot)) {
                needed.extend(slots().cloned());
                synced.push(renaming);
            } else {
                self.pending.push(renaming);
            }
        }
        self.pending.reverse();
        for renaming in synced.iter().rev() {
            make_durable(&mut self.nodes, renaming);
        }
        self.forget_unnamed();
    }

    /// Bytes of all files that have a name or are open.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<Inode> =
            self.directories().flat_map(|directory| directory.live.values().copied()).collect();
        self.nodes
            .iter()
            .map(|(inode, node)| match node {
                Node::File(content) if named.contains(inode) || content.is_open() => content.cached.len() as u64,
                _ => 0,
            })
            .sum()
    }

    /// Drops files that nothing can reach any more, now or after a crash.
    pub(super) fn forget_unnamed(&mut self) {
        let named: BTreeSet<Inode> = self
            .directories()
            .flat_map(|directory| directory.live.values().chain(directory.durable.values()).copied())
            .chain(self.pending.iter().flat_map(|renaming| renaming.changes.iter().filter_map(|(_, inode)| *inode)))
            .collect();
        self.nodes.retain(|inode, node| match node {
            Node::File(content) => named.contains(inode) || content.is_open() || content.is_locked(),
            Node::Directory(_) => true,
        });
    }

    /// A hash of all names and of the bytes that are read under them.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut unvisited = vec![ROOT];
        while let Some(inode) = unvisited.pop() {
            match self.nodes.get(&inode) {
                Some(Node::File(content)) => (content.cached.len(), crc32fast::hash(&content.cached)).hash(&mut hasher),
                Some(Node::Directory(directory)) => {
                    directory.live.keys().collect::<Vec<_>>().hash(&mut hasher);
                    unvisited.extend(directory.live.values());
                }
                None => {}
            }
        }
        hasher.finish()
    }

    fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.nodes.values().filter_map(|node| match node {
            Node::Directory(directory) => Some(directory),
            Node::File(_) => None,
        })
    }
}

/// Carries a change of names over to the durable entries.
pub(super) fn make_durable(nodes: &mut BTreeMap<Inode, Node>, renaming: &Renaming) {
    for (slot, inode) in &renaming.changes {
        if let Some(Node::Directory(directory)) = nodes.get_mut(&slot.dir) {
            set(&mut directory.durable, &slot.name, *inode);
        }
    }
}

fn set(entries: &mut BTreeMap<OsString, Inode>, name: &OsStr, inode: Option<Inode>) {
    match inode {
        Some(inode) => entries.insert(name.to_owned(), inode),
        None => entries.remove(name),
    };
}

/// Whether a path lies in another one, or is the same.
pub(super) fn lies_in(path: &Path, outer: &Path) -> bool {
    normal(path).starts_with(&normal(outer))
}

/// The names in a path from the root on, without `.` and `..`.
fn normal(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}
