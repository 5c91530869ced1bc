//! Checkpoints: a directory that is the store as of one moment, complete or absent.
//!
//! Always true:
//! - K1. A checkpoint gets its name only once every byte and name in it is durable.
//! - K2. Only a checkpoint of the same run is ever replaced.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, EntryKind};
use crate::error::{Error, Result};
use crate::format::checkpointed::Note;
use crate::format::manifest::{Manifest, ManifestKind};
use crate::format::names::{
    CHECKPOINTED, INDEX, LOCK, UNFINISHED_CHECKPOINTED, manifest_file_name, segment_file_name, unfinished_file_name,
};
use crate::recovery::manifests::{self, Listing};
use crate::store::RolloutStore;
use crate::store::last_checkpoint;
use crate::store::transfer::{Transfer, parent, sync_names_above};

/// How a checkpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointed {
    /// Every segment is a hard link: no data was copied.
    Linked,
    /// The file system could not link: so many bytes were copied.
    Copied {
        /// Bytes copied.
        bytes: u64,
    },
}

impl RolloutStore {
    /// Writes a checkpoint: everything committed until now, in a directory of its own that opens read-only as it is and
    /// that [`RolloutStore::restore`] brings back. Segments are hard-linked where the file system can. A checkpoint of
    /// the same run at that path is replaced in one step.
    ///
    /// Others may read and write meanwhile.
    ///
    /// # Errors
    /// `Invalid` where something else stands at the path; `Full`, `Poisoned`, `Io`. No half checkpoint is left under the
    /// path then.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpointed> {
        let (core, dir) = (&self.core, &named(dir.as_ref())?);
        let _hurry = core.pace.hurry();
        // One at a time: two of the same path would write into one unfinished directory.
        let _alone = core.checkpointing.lock();
        let manifest = {
            let mut writer = core.lock_writer()?;
            writer.seal_all(core)?;
            writer.manifest.clone()
        };
        let disk = &*core.disk;
        let replaces = check_target(disk, dir, &manifest)?;
        let target_parent = parent(dir);
        disk.create_dir_all(&target_parent).map_err(|error| Error::io("create directory", &target_parent, error))?;
        let unfinished = beside(dir, ".tmp");
        check_unfinished(disk, &unfinished)?;
        // The directory itself may stay, and names that a file system keeps in it for a while: they are in nobody's way.
        clear_left_over(disk, &unfinished).map_err(|error| Error::io("clear", &unfinished, error))?;
        let note = last_checkpoint::note(&manifest);
        let made = write(disk, &core.dir, &unfinished, manifest, &note).inspect_err(|_| {
            // What could not be finished must not be taken for anything; it is in nobody's way if it stays.
            let _ = remove_store(disk, &unfinished);
        })?;
        name(disk, &unfinished, dir, replaces)?;
        // Until then a power cut may bring the names from before back, and with them the checkpoint that was replaced.
        sync_names_above(disk, dir)?;
        if replaces && let Err(error) = remove_store(disk, &unfinished) {
            tracing::warn!(dir = %unfinished.display(), %error, "could not remove the checkpoint that was replaced");
        }
        last_checkpoint::write(disk, &core.dir, &note);
        *core.last_checkpoint.lock() = Some(note);
        Ok(made)
    }
}

/// The path up to its last name, without a slash or dot behind it: other names are made of it.
fn named(dir: &Path) -> Result<PathBuf> {
    let path: PathBuf = dir.components().collect();
    if path.file_name().is_none() {
        let what = format!("\"{}\" ends in no name that a checkpoint could have; choose another path", dir.display());
        return Err(Error::invalid(what).at(dir));
    }
    Ok(path)
}

/// Writes everything into a directory of another name.
fn write(disk: &dyn Disk, store: &Path, unfinished: &Path, manifest: Manifest, note: &Note) -> Result<Checkpointed> {
    disk.create_dir_all(unfinished).map_err(|error| Error::io("create directory", unfinished, error))?;
    let mut transfer = Transfer::new(disk, store, unfinished);
    manifest.segments.iter().try_for_each(|record| transfer.bring(record))?;
    let made = transfer.copied_bytes.map_or(Checkpointed::Linked, |bytes| Checkpointed::Copied { bytes });
    last_checkpoint::write(disk, unfinished, note);
    // Writing the manifest syncs the directory, and with it the names of the segments.
    manifests::write(disk, unfinished, &Manifest { kind: ManifestKind::Checkpoint, owner: 0, ..manifest })?;
    Ok(made)
}

/// Gives the finished directory its name, and the unfinished one to the checkpoint that it takes the place of.
fn name(disk: &dyn Disk, unfinished: &Path, dir: &Path, replaces: bool) -> Result<()> {
    let failed = |error| Error::io("name the checkpoint", dir, error);
    if !replaces {
        return disk.rename(unfinished, dir).map_err(failed);
    }
    match disk.exchange(unfinished, dir) {
        Ok(()) => Ok(()),
        // Without an exchange there is a moment with neither name; never one with half a checkpoint.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            // Under the unfinished name, which is ours alone: a checkpoint that someone keeps as ".old" stays.
            let old = beside(unfinished, ".old");
            check_unfinished(disk, &old)?;
            clear_left_over(disk, &old).and_then(|()| remove_store(disk, &old)).map_err(failed)?;
            disk.rename(dir, &old).map_err(failed)?;
            if let Err(error) = disk.rename(unfinished, dir) {
                // Better the checkpoint before than none.
                let _ = disk.rename(&old, dir);
                return Err(failed(error));
            }
            disk.rename(&old, unfinished).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether a checkpoint of the same run stands at the path; anything else there is an error.
fn check_target(disk: &dyn Disk, dir: &Path, ours: &Manifest) -> Result<bool> {
    let refuse = |what: &str| Error::invalid(format!("{} {what}; choose another path", dir.display())).at(dir);
    let failed = |error| Error::io("look at", dir, error);
    if disk.is_link(dir).map_err(failed)? {
        // Exchanged with a directory, it would take what it leads to for the checkpoint that is replaced.
        return Err(refuse("is a link"));
    }
    match disk.entry_kind(dir).map_err(failed)? {
        None => return Ok(false),
        Some(EntryKind::Directory) => {}
        Some(_) => return Err(refuse("is not a directory")),
    }
    if let Some(name) = Listing::read(disk, dir)?.stranger() {
        return Err(refuse(&format!("holds {}, which is no checkpoint's", name.display())));
    }
    match manifests::newest(disk, dir)? {
        Some(theirs) if theirs.kind == ManifestKind::Live => Err(refuse("is a store")),
        Some(theirs) if theirs.run_uuid != ours.run_uuid => Err(refuse("is a checkpoint of another run")),
        Some(_) => Ok(true),
        None => Err(refuse("exists and is no checkpoint")),
    }
}

/// Refuses to clear a directory that is somebody's: an unfinished checkpoint holds nothing foreign and was never locked.
fn check_unfinished(disk: &dyn Disk, unfinished: &Path) -> Result<()> {
    let lock = unfinished.join(LOCK);
    let locked = disk.entry_kind(&lock).map_err(|error| Error::io("look at", &lock, error))?.is_some();
    if !locked && Listing::read(disk, unfinished)?.stranger().is_none() {
        return Ok(());
    }
    let name = unfinished.display();
    let what = format!("{name} is in use, and a checkpoint has this name until it is finished; choose another path");
    Err(Error::invalid(what).at(unfinished))
}

/// A name beside `dir`.
fn beside(dir: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = dir.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes the files that an earlier checkpoint left under a name of ours. It may have been named last, and not durably: the names
/// are made so first, or a power cut would bring it back under the checkpoint's name with its files gone.
fn clear_left_over(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    if disk.entry_kind(dir)?.is_some() {
        disk.sync_dir(&parent(dir))?;
    }
    clear_store(disk, dir)
}

/// Removes a directory of store files; other names in it are left, and it with them.
fn remove_store(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    clear_store(disk, dir)?;
    if disk.entry_kind(dir)?.is_none() { Ok(()) } else { disk.remove_dir(dir) }
}

/// Removes the store files in a directory.
fn clear_store(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    if disk.is_link(dir)? {
        return Err(io::Error::other("it is a link, and what it leads to may be anyone's"));
    }
    if disk.entry_kind(dir)?.is_none() {
        return Ok(());
    }
    let listing = Listing::read(disk, dir).map_err(io::Error::other)?;
    let segments = listing.segments.iter().map(|segment| segment_file_name(*segment));
    let generations = listing.generations.iter().map(|generation| manifest_file_name(*generation));
    let derived = [INDEX, CHECKPOINTED, UNFINISHED_CHECKPOINTED].map(str::to_owned);
    let unfinished = listing.unfinished.iter().map(|owner| unfinished_file_name(*owner));
    for name in generations.chain(segments).chain(unfinished).chain(derived) {
        match disk.remove_file(&dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}
