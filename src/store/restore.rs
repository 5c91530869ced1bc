//! Restore: the state of a checkpoint, under a new epoch.
//!
//! Always true:
//! - Q1. The next manifest generation is the moment: before it the store is as it was, from it on it is the checkpoint's.
//! - Q2. LSNs, segment numbers and versions go on above everything that the abandoned future may have used.

use std::io;
use std::path::Path;

use crate::disk::os::OsDisk;
use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Error, ErrorKind, Result};
use crate::format::checkpointed::Note;
use crate::format::manifest::{Manifest, ManifestKind, SegmentRecord};
use crate::format::names::segment_file_name;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::index::FileOptions;
use crate::log::segment::ReadMode;
use crate::planted::{Bug, planted};
use crate::recovery::manifests::{self, Listing};
use crate::recovery::{Base, Request, Survey, epoch};
use crate::store::last_checkpoint;
use crate::store::open::{check_empty, no_store};
use crate::store::options::Options;
use crate::store::owner::{LockKind, Owner};
use crate::store::transfer::{Transfer, sync_names_above};
use crate::store::{RolloutStore, random};

impl RolloutStore {
    /// Brings a checkpoint back into `dir`: a fresh directory, or a store of the same run, whose state since the
    /// checkpoint is abandoned. What was fresh at the checkpoint is fresh again, since the trainer has those weights
    /// again; nothing of the abandoned future can look fresh. The store must not be open.
    ///
    /// # How do I resume exactly where my trainer's checkpoint is?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// # let (run, saved) = (dir.path().join("rollouts"), dir.path().join("ckpt-100"));
    /// let store = RolloutStore::options().window(8).open(&run)?;
    /// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5][..], 0))?;
    /// store.checkpoint(&saved)?;
    /// store.advance_ref_version(137, None)?;         // a future that will be abandoned
    /// store.close()?;
    ///
    /// RolloutStore::restore(&saved, &run)?;
    /// let store = RolloutStore::options().resume_step(100).open(&run)?;
    /// assert!(store.get(1.into())?.unwrap().staleness(100).is_fresh());
    /// assert!(store.advance_ref_version(100, None)? > 1, "version 1 is not used twice");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` where there is no checkpoint, `Invalid` for a store of another run or something else, `Locked` while
    /// the store is open, `Damaged`, `Full`, `Io`. Before its last step nothing of the old store has changed.
    pub fn restore(checkpoint: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<()> {
        restore(&OsDisk, LockKind::File, checkpoint.as_ref(), dir.as_ref())
    }
}

impl Options {
    /// [`RolloutStore::restore`] on the file system and with the lock of these options.
    ///
    /// # Errors
    /// As for [`RolloutStore::restore`].
    pub fn restore(&self, checkpoint: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<()> {
        restore(&*self.disk, self.lock, checkpoint.as_ref(), dir.as_ref())
    }
}

fn restore(disk: &dyn Disk, lock: LockKind, checkpoint: &Path, dir: &Path) -> Result<()> {
    let saved = manifests::newest(disk, checkpoint)?.ok_or_else(|| no_store(checkpoint))?;
    if saved.kind != ManifestKind::Checkpoint {
        return Err(Error::invalid(format!("{} is a store, not a checkpoint", checkpoint.display())).at(checkpoint));
    }
    // A damaged checkpoint must not take the place of anything.
    survey(disk, checkpoint, &saved)?;
    disk.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
    // Twice: no lock file is left where nothing is to be restored to, and what the lock guards is believed only under it.
    let (old, _) = target(disk, dir, &saved)?;
    let owner = Owner::take(disk, dir, lock, old.map_or(0, |old| old.owner))?;
    // A process that was killed may have left names that are seen and not durable: nothing may be removed by a manifest
    // that a power cut would take back.
    disk.sync_dir(dir).map_err(|error| Error::io("sync directory", dir, error))?;
    let (old, listing) = target(disk, dir, &saved)?;

    let mut next = next_manifest(disk, dir, &saved, old.as_ref(), &listing)?;
    owner.claim(dir, &mut next)?;
    let mut transfer = Transfer::new(disk, checkpoint, dir);
    for record in &next.segments {
        if !stands_already(disk, dir, record, old.as_ref())? {
            transfer.bring(record)?;
        }
    }
    disk.sync_dir(dir).map_err(|error| Error::io("sync directory", dir, error))?;
    if planted(Bug::UnlinkBeforeManifest) {
        manifests::remove_orphans(disk, dir, &next)?;
    }
    manifests::write(disk, dir, &next)?;
    sync_names_above(disk, dir)?;
    if let Some(note) = last_checkpoint::read(disk, checkpoint, &saved) {
        last_checkpoint::write(disk, dir, &Note { epoch: next.epoch, ..note });
    }
    owner.check_before_acknowledging(disk, dir)?;

    // The older generations tell of the abandoned future: none of them may be fallen back to.
    manifests::remove_past(disk, dir, &next)?;
    manifests::remove_orphans(disk, dir, &next)?;
    drop(owner);
    Ok(())
}

fn survey(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<Survey> {
    let read_mode = ReadMode { mapped: false, recheck_always: false };
    let request = Request { disk, dir, access: Access::Read, read_mode, index_file: &FileOptions::default() };
    Survey::read(&request, manifest.clone(), &Base::default())
}

/// The store that the checkpoint takes the place of, if there is one, and the names in its directory.
fn target(disk: &dyn Disk, dir: &Path, saved: &Manifest) -> Result<(Option<Manifest>, Listing)> {
    let listing = Listing::read(disk, dir)?;
    let old = if is_unfinished(disk, dir, saved, &listing)? { None } else { manifests::newest(disk, dir)? };
    check_target(dir, saved, old.as_ref())?;
    if old.is_none() {
        check_empty(&listing, dir)?;
    }
    Ok((old, listing))
}

/// Whether a restore of this checkpoint into a fresh directory ended before its last step: there are segments of the
/// checkpoint, some of them perhaps cut short, no others, and no manifest.
fn is_unfinished(disk: &dyn Disk, dir: &Path, saved: &Manifest, listing: &Listing) -> Result<bool> {
    if !listing.generations.is_empty() {
        return Ok(false);
    }
    for id in &listing.segments {
        let Some(record) = saved.segments.iter().find(|record| record.id == *id) else { return Ok(false) };
        let path = dir.join(segment_file_name(*id));
        let file = disk.open(&path, Access::Read).map_err(|error| Error::io("open segment", &path, error))?;
        if read_header(&*file, &path)?.is_some_and(|header| header.salt != record.salt) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_target(dir: &Path, saved: &Manifest, old: Option<&Manifest>) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(format!("{} {what}; restore elsewhere", dir.display())).at(dir));
    match old {
        Some(old) if old.kind == ManifestKind::Checkpoint => refuse("is a checkpoint itself"),
        Some(old) if old.run_uuid != saved.run_uuid => refuse("is a store of another run"),
        _ => Ok(()),
    }
}

/// The generation that makes the store the checkpoint's.
fn next_manifest(
    disk: &dyn Disk,
    dir: &Path,
    saved: &Manifest,
    old: Option<&Manifest>,
    listing: &Listing,
) -> Result<Manifest> {
    let mut next = saved.clone();
    next.kind = ManifestKind::Live;
    next.generation = listing.generations.first().copied().unwrap_or(0).max(saved.generation) + 1;
    next.owner = old.map_or(0, |old| old.owner);
    next.store_uuid = old.map_or_else(random::uuid, |old| old.store_uuid);
    next.next_segment_id = listing.next_segment(old.unwrap_or(saved)).0.max(saved.next_segment_id);
    next.options = old.map_or(saved.options, |old| old.options);
    epoch::begin(&mut next, &[saved, old.unwrap_or(saved)]);
    if let Some(old) = old {
        // Ids that the abandoned future handed out may still be under way in some worker.
        let id_ceiling = match survey(disk, dir, old) {
            Ok(survey) => survey.end_state().id_ceiling,
            Err(error) if error.kind() == ErrorKind::Damaged => {
                tracing::warn!(%error, "the store to be replaced is damaged; ids of its last segment may be handed out again");
                old.state.id_ceiling
            }
            Err(error) => return Err(error),
        };
        next.state.id_ceiling = next.state.id_ceiling.max(id_ceiling);
    }
    Ok(next)
}

/// Whether the store already is made of this very segment. Any other file of its number is removed: a restore that lost
/// power may have left the length of a file without its bytes.
fn stands_already(disk: &dyn Disk, dir: &Path, record: &SegmentRecord, old: Option<&Manifest>) -> Result<bool> {
    let path = dir.join(segment_file_name(record.id));
    let file = match disk.open(&path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("open segment", &path, error)),
    };
    let header = read_header(&*file, &path)?;
    let len = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
    if old.is_some_and(|old| old.segments.iter().any(|listed| listed.id == record.id)) {
        if header.is_some_and(|header| header.salt == record.salt) && record.has_len(len) {
            return Ok(true);
        }
        let message = format!("{} is another segment than the checkpoint's of that number", path.display());
        return Err(Error::invalid(format!("{message}; restore into a fresh directory")).at(&path));
    }
    disk.remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
    Ok(false)
}

/// The header of a segment file; `None` where the file is short or begins with something else. A file that cannot be read
/// may be any segment.
fn read_header(file: &dyn DiskFile, path: &Path) -> Result<Option<SegmentHeader>> {
    let mut header = vec![0; SEGMENT_HEADER_BYTES];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(SegmentHeader::decode(&header).ok()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::io("read the segment header", path, error)),
    }
}
