//! The peers, one file each, behind one trait: the same operations under the same guarantee.
//!
//! May touch the peers' libraries and their directories. Knows nothing of what is measured.
//!
//! Always true:
//! - E1. What an operation wrote is on the device when it returns: it survives power loss.
//! - E2. Secondary indexes on (version, id) and (born step, id) change in the same commit as the records.
//! - E3. A reader sees one committed state for each call, where the peer has snapshots.

mod files;
#[cfg(feature = "peers")]
mod fjall;
mod keys;
#[cfg(feature = "peers")]
mod lmdb;
mod raw;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rollstore;
#[cfg(feature = "peers")]
mod sled;
#[cfg(feature = "peers")]
mod sqlite;

use std::path::Path;

use crate::content::Record;
use crate::outcome::Outcome;

/// Deletes of one durable commit.
pub(crate) const DELETE_BATCH: usize = 4096;

/// What a peer cannot do, or cannot do in the time of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    All,
    /// It has no indexes: no scans, no deletes.
    WritesAndReads,
}

/// A store that is open for writing.
pub(crate) trait Peer {
    /// Adds records that are not there.
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome;

    /// Gives records that are there new values, versions and born steps.
    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome;

    /// Makes ready for [`Peer::stale`] with this bound; not measured.
    fn before_stale(&mut self, _version_below: u64) -> Outcome {
        Ok(())
    }

    /// The ids of the records with a version below the bound.
    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>>;

    /// The ids of the records born before the step.
    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>>;

    /// Takes records away.
    fn delete(&mut self, ids: &[u64]) -> Outcome;

    /// Takes away the records created before a step: all of `ids`. A peer without a word for it looks up what was born before
    /// the step, as it does for a scan, and is told which others were recomputed since.
    fn delete_created_before(&mut self, step: u64, ids: &[u64]) -> Outcome {
        std::hint::black_box(self.out_of_window(step)?);
        ids.chunks(DELETE_BATCH).try_for_each(|batch| self.delete(batch))
    }

    /// Gives the space of what was taken away back, as far as the peer can.
    fn reclaim(&mut self) -> Outcome;

    /// Something that reads, for one thread.
    fn reader(&self) -> Outcome<Box<dyn Reader>>;

    /// Writes everything behind and closes.
    fn close(self: Box<Self>) -> Outcome;
}

/// Reads, from one thread of several.
pub(crate) trait Reader: Send {
    /// Calls `each` with the values of every record that is there, in the order of the ids.
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome;
}

type Opened = Outcome<Box<dyn Peer>>;

/// Makes names in a directory durable.
#[cfg(feature = "peers")]
#[expect(clippy::disallowed_types, reason = "a directory of a peer")]
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

/// A kind of peer.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name in results.
    pub(crate) name: &'static str,
    /// How it is used, in full.
    pub(crate) settings: &'static str,
    pub(crate) scope: Scope,
    /// It is given a part of the records, one in so many: it would need hours for all.
    pub(crate) one_in: u64,
    open: fn(&Path) -> Opened,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    /// Opens a store in this directory, or makes one.
    pub(crate) fn open(self, dir: &Path) -> Opened {
        (self.open)(dir)
    }
}

/// All that this program was built with; the first is the one whose benchmark this is.
pub(crate) const ALL: &[Kind] = &[
    rollstore::KIND,
    raw::KIND,
    files::KIND,
    #[cfg(feature = "peers")]
    lmdb::KIND,
    #[cfg(feature = "peers")]
    redb::KIND,
    #[cfg(feature = "peers")]
    fjall::KIND,
    #[cfg(feature = "rocksdb")]
    rocksdb::KIND,
    #[cfg(feature = "peers")]
    sqlite::KIND,
    #[cfg(feature = "peers")]
    sled::KIND,
];

/// The peer of this name.
pub(crate) fn named(name: &str) -> Outcome<Kind> {
    ALL.iter().copied().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|kind| kind.name).collect();
        format!("no peer {name:?}; this program was built with {}", names.join(", ")).into()
    })
}

#[cfg(test)]
mod tests;
