//! What the power leaves behind: one tree of durable things, drawn from what was durable and what was pending.
//!
//! May touch `content`, `tree` and `random`. Knows nothing of how the pending changes came about.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::content::{Change, Content, Pending};
use super::random::Random;
use super::tree::{Directory, Node, ROOT, Renaming, Tree, make_durable};

/// Bytes that a medium writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Which of all possible remains a crash leaves: the same operations and the same image give the same disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashImage {
    /// Chooses among the images of a style.
    pub seed: u64,
    /// What kind of loss there is.
    pub style: ImageStyle,
}

/// What becomes of the changes that no sync made durable.
///
/// Unless it says otherwise, a style that chooses leaves each unsynced name change with chance one half, after the
/// earlier ones of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageStyle {
    /// All of them are lost.
    NothingUnsynced,
    /// All of them survive.
    Everything,
    /// The first ones survive, of names and bytes alike, in the order in which they were made; the last of these, where it
    /// is a write, survives up to some byte.
    Prefix,
    /// Each sector of 512 bytes of each write survives or not. The file has any of the lengths that it had since its
    /// last sync, whatever became of its bytes.
    TornSectors,
    /// As [`Self::TornSectors`], byte by byte.
    TornBytes,
    /// The length survives. Sectors that did not are zeros where the file was not as long before.
    ZeroFilled,
    /// The length survives. Sectors that did not are random bytes where the file was not as long before.
    Garbage,
}

impl ImageStyle {
    /// All styles, for a loop over them.
    pub const ALL: [Self; 7] = [
        Self::NothingUnsynced,
        Self::Everything,
        Self::Prefix,
        Self::TornSectors,
        Self::TornBytes,
        Self::ZeroFilled,
        Self::Garbage,
    ];
}

/// What survives the crash: an image with its choices under way.
struct Drawing {
    style: ImageStyle,
    random: Random,
    /// First sequence number that does not survive whole; for `Prefix` alone.
    cut_seq: u64,
}

/// The tree that is found after the power was cut.
pub(super) fn draw(tree: &Tree, image: CrashImage) -> Tree {
    let mut random = Random::new(image.seed);
    let cut_seq = cut(tree, &mut random);
    let mut drawing = Drawing { style: image.style, random, cut_seq };

    let mut nodes = tree.nodes.clone();
    for renaming in drawing.surviving_names(tree) {
        make_durable(&mut nodes, renaming);
    }
    let mut found = Tree::default();
    found.next_inode = tree.next_inode;
    let mut unvisited = BTreeSet::from([ROOT]);
    while let Some(inode) = unvisited.pop_first() {
        let node = match nodes.get(&inode) {
            Some(Node::Directory(directory)) => {
                // A file of two names is drawn once.
                unvisited.extend(directory.durable.values().filter(|inode| !found.nodes.contains_key(inode)));
                let durable = directory.durable.clone();
                Node::Directory(Directory { live: durable.clone(), durable })
            }
            Some(Node::File(content)) => Node::File(Content::durable(drawing.bytes(content))),
            None => continue,
        };
        found.nodes.insert(inode, node);
    }
    found
}

/// The first sequence number that a prefix leaves out: any of the pending ones, or one beyond.
fn cut(tree: &Tree, random: &mut Random) -> u64 {
    let writes = tree.nodes.values().flat_map(|node| match node {
        Node::File(content) => &content.pending[..],
        Node::Directory(_) => &[],
    });
    let mut seqs: Vec<u64> = writes.map(|pending| pending.seq).collect();
    seqs.extend(tree.pending.iter().map(|renaming| renaming.seq));
    seqs.sort_unstable();
    seqs.get(random.up_to(seqs.len())).copied().unwrap_or(u64::MAX)
}

impl Drawing {
    /// The name changes that survive, in order.
    fn surviving_names<'a>(&mut self, tree: &'a Tree) -> Vec<&'a Renaming> {
        // A change needs the earlier ones of its names: once one is lost, all later ones of its slots are.
        let mut lost_slots = BTreeSet::new();
        let mut surviving = Vec::new();
        for renaming in &tree.pending {
            let drawn = match self.style {
                ImageStyle::NothingUnsynced => false,
                ImageStyle::Everything => true,
                ImageStyle::Prefix => renaming.seq < self.cut_seq,
                _ => self.random.coin(),
            };
            if drawn && !renaming.changes.iter().any(|(slot, _)| lost_slots.contains(slot)) {
                surviving.push(renaming);
            } else {
                lost_slots.extend(renaming.changes.iter().map(|(slot, _)| slot));
            }
        }
        surviving
    }

    /// The bytes that are left of a file.
    fn bytes(&mut self, content: &Content) -> Arc<Vec<u8>> {
        if content.pending.is_empty() || self.style == ImageStyle::NothingUnsynced {
            return Arc::clone(&content.durable);
        }
        let mut file = content.durable.to_vec();
        match self.style {
            ImageStyle::NothingUnsynced => {}
            ImageStyle::Everything => {
                content.pending.iter().for_each(|pending| pending.change.apply(&mut file, usize::MAX));
            }
            ImageStyle::Prefix => self.prefix(&mut file, &content.pending),
            ImageStyle::TornBytes => self.torn(&mut file, &content.pending, 1),
            ImageStyle::TornSectors | ImageStyle::ZeroFilled | ImageStyle::Garbage => {
                self.torn(&mut file, &content.pending, SECTOR_BYTES);
            }
        }
        Arc::new(file)
    }

    fn prefix(&mut self, file: &mut Vec<u8>, pending: &[Pending]) {
        for Pending { seq, change } in pending {
            if *seq < self.cut_seq {
                change.apply(file, usize::MAX);
            } else if let (true, Change::Write { bytes, .. }) = (*seq == self.cut_seq, change) {
                change.apply(file, self.random.up_to(bytes.len()));
            }
        }
    }

    fn torn(&mut self, file: &mut Vec<u8>, pending: &[Pending], grain: usize) {
        let lengths = lengths(file.len(), pending);
        let last = lengths.len() - 1;
        let keeps_length = matches!(self.style, ImageStyle::ZeroFilled | ImageStyle::Garbage);
        let chosen = if keeps_length { last } else { self.random.up_to(last) };

        // Below the floor lie bytes that were there before: what does not survive over them leaves them as they were.
        let mut floor = file.len();
        file.resize(lengths.iter().copied().max().unwrap_or(0), 0);
        for (index, Pending { change, .. }) in pending.iter().enumerate() {
            match change {
                Change::Write { offset, bytes } => self.scatter(file, *offset, bytes, grain, floor),
                Change::SetLen(len) if index < chosen => {
                    floor = floor.min(*len);
                    file[*len..].fill(0);
                }
                Change::SetLen(_) => {}
            }
        }
        file.truncate(lengths[chosen]);
    }

    /// Writes `bytes` at `offset`, of which each piece of the medium survives or not.
    fn scatter(&mut self, file: &mut [u8], offset: usize, bytes: &[u8], grain: usize, floor: usize) {
        let mut start = offset;
        let end = offset + bytes.len();
        while start < end {
            let next = end.min((start / grain + 1) * grain);
            if self.random.coin() {
                file[start..next].copy_from_slice(&bytes[start - offset..next - offset]);
            } else {
                let unwritten = &mut file[start.max(floor).min(next)..next];
                match self.style {
                    ImageStyle::ZeroFilled => unwritten.fill(0),
                    ImageStyle::Garbage => self.random.fill(unwritten),
                    _ => {}
                }
            }
            start = next;
        }
    }
}

/// The lengths that a file had: before its pending changes, and after each.
fn lengths(durable: usize, pending: &[Pending]) -> Vec<usize> {
    let mut lengths = vec![durable];
    let mut len = durable;
    for Pending { change, .. } in pending {
        len = match change {
            Change::Write { bytes, .. } if bytes.is_empty() => len,
            Change::Write { offset, bytes } => len.max(offset + bytes.len()),
            Change::SetLen(len) => *len,
        };
        lengths.push(len);
    }
    lengths
}
