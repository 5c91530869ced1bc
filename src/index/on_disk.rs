//! The index on disk: a redb file of rows, and the check that it is exactly what was flushed.
//!
//! May touch `disk`, `format::resume` and redb. No type of redb leaves the index. Knows of the log but numbers: LSNs, segments.
//!
//! Always true:
//! - K1. A flush is one durable transaction: after a crash the file holds the flushes up to one of them, whole.
//! - K2. Every call into redb is caught: a panic inside rejects or fails the index and does not end the process.
//! - K3. A file opened for reading alone is not written, even where redb must repair what it sees.
//! - K4. What `load` gives is what was flushed last: each page's and each row's checksum holds, the rows add up to the
//!   totals beside them, and each points into the listed segments and below the applied LSN.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, Durability, ReadableDatabase, StorageBackend, Table, TableDefinition};

use super::backend::{CoveredFile, OpenFile};
use super::guard::{Failure, drop_guarded, guarded, reject};
use super::memory::{Changes, MemoryIndex};
use super::meta::{self, Identity, IndexMeta, Totals};
use super::row::Row;
use crate::disk::{Access, Disk};
use crate::error::{Error, ErrorKind, Result};
use crate::format::resume::Resume;
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::limits;
use crate::planted::{Bug, planted};
use crate::sync::Pace;

const ROLLOUTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rollouts");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const META_KEY: &str = "index";

/// Why an index on disk is of no use. The index is then rebuilt from the log: this is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected(pub(crate) String);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the log says, and an index must agree with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) identity: Identity,
    /// The last frame that the log is known to have.
    pub(crate) log_end: Lsn,
    /// The segments that the manifest lists.
    pub(crate) segments: &'a BTreeSet<SegmentId>,
}

/// An index as loaded from disk.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) index: MemoryIndex,
    pub(crate) meta: IndexMeta,
    /// Where to flush to; `None` where the file was opened for reading alone.
    pub(crate) disk: Option<DiskIndex>,
}

/// How an index file is read and written.
#[derive(Debug, Clone)]
pub(crate) struct FileOptions {
    /// Memory for its pages.
    pub(crate) cache_bytes: usize,
    pub(crate) pace: Arc<Pace>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { cache_bytes: limits::INDEX_CACHE_BYTES_DEFAULT, pace: Arc::default() }
    }
}

/// A piece of what one flush writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    pub(crate) changes: Changes,
    /// With the last piece: what all of them amount to.
    pub(crate) last: Option<IndexMeta>,
}

/// An index file that is open for flushes.
pub(crate) struct DiskIndex {
    /// `None` after a failed flush: what the file holds is not known then.
    db: Option<Database>,
    path: PathBuf,
    totals: Totals,
}

impl fmt::Debug for DiskIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskIndex").field("path", &self.path).field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl DiskIndex {
    /// Creates an index that covers nothing, in the place of any file of that name.
    ///
    /// A crash in the middle leaves a file that `load` rejects, or one that covers nothing: the log fills in both.
    ///
    /// # Errors
    /// `Full` or `Io` where the disk fails.
    pub(crate) fn create(disk: &dyn Disk, path: &Path, identity: Identity, options: &FileOptions) -> Result<Self> {
        match disk.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", path, error)),
            _ => {}
        }
        let file = disk.create(path).map_err(|error| Error::io("create", path, error))?;
        let db = guarded(|| open_database(OpenFile::new(file, &options.pace), options.cache_bytes))
            .map_err(|failure| failure.into_error(path))?;
        let mut index = Self { db: Some(db), path: path.to_owned(), totals: Totals::default() };
        index.flush(&Changes::default(), &IndexMeta::of_nothing(identity))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(dir).map_err(|error| Error::io("sync directory", dir, error))?;
        Ok(index)
    }

    /// Writes changed rows and how much of the log they cover, in one durable transaction.
    ///
    /// The log must be durable up to `meta.applied_lsn` before this is called.
    ///
    /// # Errors
    /// As for [`Self::flush_parts`].
    pub(crate) fn flush(&mut self, changes: &Changes, meta: &IndexMeta) -> Result<()> {
        self.flush_parts(|| Ok(Part { changes: changes.clone(), last: Some(meta.clone()) }))
    }

    /// The same, piece by piece: a row in a later piece takes the place of the one in an earlier piece. Memory is needed for
    /// one piece at a time.
    ///
    /// The log must be durable up to `applied_lsn` before the last piece is given.
    ///
    /// # Errors
    /// `Full` or `Io` where the disk fails or redb does; the error of `next`. The file is closed then and later flushes fail
    /// too: create a new one, and flush every row into it.
    pub(crate) fn flush_parts(&mut self, next: impl FnMut() -> Result<Part>) -> Result<()> {
        let Some(db) = self.db.take() else {
            let message = "the index file was closed after a failed flush; it is rebuilt at the next open";
            return Err(Error::new(ErrorKind::Io, message).at(&self.path));
        };
        let totals = self.totals;
        match guarded(|| write(&db, next, totals)) {
            Ok(totals) => {
                (self.db, self.totals) = (Some(db), totals);
                Ok(())
            }
            Err(failure) => {
                drop_guarded(db);
                Err(failure.into_error(&self.path))
            }
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Rejected> {
        let read = || self.db.as_ref().ok_or(reject("closed")).and_then(read);
        guarded(read).map_err(|failure| Rejected(failure.to_string()))
    }

    /// Closes the file. Dropping it does the same, but tells no error.
    ///
    /// # Errors
    /// `Full` or `Io` where the last writes fail; what was flushed is safe all the same.
    pub(crate) fn close(mut self) -> Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        guarded(|| Ok(db.close()?)).map_err(|failure| failure.into_error(&self.path))
    }
}

impl Drop for DiskIndex {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            drop_guarded(db);
        }
    }
}

/// An index on disk whose meta record was read, and its rows not yet.
#[derive(Debug)]
pub(crate) struct StoredIndex {
    file: DiskIndex,
    access: Access,
    meta: IndexMeta,
    /// What the rows must add up to.
    stated: Totals,
}

/// Opens an index on disk, or says why it is of no use.
pub(crate) fn open(
    disk: &dyn Disk,
    path: &Path,
    access: Access,
    options: &FileOptions,
) -> Result<StoredIndex, Rejected> {
    let rejected = |what: &str, error: io::Error| Rejected(format!("{what}: {error}"));
    let file = disk.open(path, access).map_err(|error| rejected("will not open", error))?;
    // Redb would make a new database of an empty file.
    if file.is_empty().map_err(|error| rejected("has no length", error))? {
        return Err(Rejected("empty".to_owned()));
    }
    let opened = match access {
        Access::ReadWrite => guarded(|| open_database(OpenFile::new(file, &options.pace), options.cache_bytes)),
        Access::Read => guarded(|| open_database(CoveredFile::new(file)?, options.cache_bytes)),
    };
    let db = opened.map_err(|failure| Rejected(format!("will not open: {failure}")))?;
    // From here on the file is closed under guard, whatever happens.
    let file = DiskIndex { db: Some(db), path: path.to_owned(), totals: Totals::default() };
    let (meta, stated) = file.read(read_meta)?;
    Ok(StoredIndex { file, access, meta, stated })
}

impl StoredIndex {
    /// Where a recovery may begin in the segment that was being written to.
    pub(crate) fn resume(&self) -> Option<&Resume> {
        self.meta.resume.as_ref()
    }

    /// Loads the rows, or says why they are of no use. Reads everything once.
    pub(crate) fn load(self, expected: &Expected<'_>) -> Result<Loaded, Rejected> {
        let Self { mut file, access, meta, stated } = self;
        check_meta(&meta, expected).map_err(|failure| Rejected(failure.to_string()))?;
        let index = file.read(|db| rows::read(db, &meta, stated, expected))?;
        file.totals = stated;
        Ok(Loaded { index, meta, disk: (access == Access::ReadWrite).then_some(file) })
    }
}

/// Opens an existing database, or makes one in an empty file. Every page's checksum is verified first: redb trusts
/// pages when it reads them, and may panic over damaged ones, which only a program that unwinds survives.
fn open_database(backend: impl StorageBackend, cache_bytes: usize) -> Result<Database, Failure> {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes).set_check_integrity_on_open(true);
    Ok(builder.create_with_backend(backend)?)
}

fn write(db: &Database, mut next: impl FnMut() -> Result<Part>, mut totals: Totals) -> Result<Totals, Failure> {
    let mut transaction = db.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut rollouts = transaction.open_table(ROLLOUTS)?;
        let meta = loop {
            let Part { changes, last } = next().map_err(Failure::Source)?;
            put(&mut rollouts, &changes, &mut totals)?;
            if let Some(meta) = last {
                break meta;
            }
        };
        transaction.open_table(META)?.insert(META_KEY, meta::encode(&meta, totals).as_slice())?;
    }
    transaction.commit()?;
    Ok(totals)
}

fn put(rollouts: &mut Table<'_, u64, &[u8]>, changes: &Changes, totals: &mut Totals) -> Result<(), Failure> {
    // In the order of ids, so that a page is found, changed and checksummed once.
    let mut upserts: Vec<&Row> = changes.upserts.iter().collect();
    upserts.sort_unstable_by_key(|row| row.entry.id);
    let mut bytes = Vec::new();
    for row in upserts {
        row.encode(&mut bytes);
        if let Some(old) = rollouts.insert(row.entry.id.get(), bytes.as_slice())? {
            totals.remove(old.value());
        }
        totals.add(&bytes);
    }
    for id in &changes.removed {
        if let Some(old) = rollouts.remove(id.get())? {
            totals.remove(old.value());
        }
    }
    Ok(())
}

fn read_meta(db: &Database) -> Result<(IndexMeta, Totals), Failure> {
    let stored = db.begin_read()?.open_table(META)?.get(META_KEY)?.ok_or(reject("no meta record"))?;
    meta::decode(stored.value()).map_err(|what| reject(format!("meta record: {what}")))
}

fn check_meta(meta: &IndexMeta, expected: &Expected<'_>) -> Result<(), Failure> {
    let (found, wanted) = (meta.identity, expected.identity);
    if found.store != wanted.store {
        return Err(reject("belongs to another store"));
    }
    if found.epoch != wanted.epoch {
        return Err(reject(format!("is of epoch {}, the store is at {}", found.epoch, wanted.epoch)));
    }
    if meta.applied_lsn > expected.log_end && !planted(Bug::BelieveIndexAhead) {
        return Err(reject(format!("covers LSN {}, the log ends at {}", meta.applied_lsn, expected.log_end)));
    }
    for (segment, piece) in &meta.pieces {
        check_frame(piece.id, *segment, piece.lsn, meta, expected)?;
    }
    match meta.covered.iter().find(|segment| !expected.segments.contains(segment)) {
        Some(segment) => Err(reject(format!("covers segment {segment}, which is not listed"))),
        None => Ok(()),
    }
}

fn check_row(row: &Row, key: u64, meta: &IndexMeta, expected: &Expected<'_>) -> Result<(), Failure> {
    let id = row.entry.id;
    if id.get() != key {
        return Err(reject(format!("row {key} is of rollout {id}")));
    }
    row.frames().try_for_each(|(at, lsn)| check_frame(id, at.segment, lsn, meta, expected))
}

fn check_frame(
    id: RolloutId,
    segment: SegmentId,
    lsn: Lsn,
    meta: &IndexMeta,
    expected: &Expected<'_>,
) -> Result<(), Failure> {
    if !expected.segments.contains(&segment) {
        return Err(reject(format!("rollout {id} lies in segment {segment}, which is not listed")));
    }
    if lsn > meta.applied_lsn {
        return Err(reject(format!("rollout {id} has LSN {lsn}, beyond the applied {}", meta.applied_lsn)));
    }
    Ok(())
}

mod rows;

#[cfg(test)]
mod tests;
