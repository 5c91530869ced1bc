//! The last checkpoint, told to people: a note beside the log ([`crate::format::checkpointed`]).
//!
//! Always true: no state depends on the note, and nothing fails where it cannot be written or read.

use std::io::{self, IoSlice};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::disk::{Access, Disk};
use crate::format::checkpointed::{NOTE_BYTES_MAX, Note};
use crate::format::manifest::Manifest;
use crate::format::names::{CHECKPOINTED, UNFINISHED_CHECKPOINTED};
use crate::ids::Lsn;
use crate::recovery::manifests;

/// The last checkpoint of a store since its last restore, or the one that it was restored from; of a checkpoint, itself. It is
/// told for people: after a power loss it may be the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastCheckpoint {
    /// LSN of the last frame in it.
    pub lsn: Lsn,
    /// The clock there: the highest step that the trainer had acted at.
    pub step: Option<u64>,
    /// When it was made, in whole seconds.
    pub taken_at: SystemTime,
}

impl From<&Note> for LastCheckpoint {
    fn from(note: &Note) -> Self {
        let taken_at = UNIX_EPOCH.checked_add(Duration::from_secs(note.taken_at)).unwrap_or(UNIX_EPOCH);
        Self { lsn: Lsn::new(note.lsn), step: note.step, taken_at }
    }
}

/// The note of a checkpoint of this state that is made now.
pub(crate) fn note(manifest: &Manifest) -> Note {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Note {
        run_uuid: manifest.run_uuid,
        epoch: manifest.epoch,
        lsn: manifest.state.lsn.get(),
        step: manifest.state.clock,
        taken_at: since.as_secs(),
    }
}

/// The note in a directory, if it is of this epoch: another one is of a state that was abandoned.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Option<Note> {
    let file = disk.open(&dir.join(CHECKPOINTED), Access::Read).ok()?;
    let len = file.len().ok().filter(|len| *len <= NOTE_BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let note = Note::decode(&bytes)?;
    (note.run_uuid == manifest.run_uuid && note.epoch == manifest.epoch).then_some(note)
}

/// Writes the note into a directory in place of the one before.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, note: &Note) {
    let unfinished = dir.join(UNFINISHED_CHECKPOINTED);
    let written = || -> io::Result<()> {
        manifests::remove_if_there(disk, &unfinished)?;
        let file = disk.create(&unfinished)?;
        file.write_all_vectored_at(&mut [IoSlice::new(&note.encode())], 0)?;
        file.sync_data()?;
        disk.rename(&unfinished, &dir.join(CHECKPOINTED))
    };
    if let Err(error) = written() {
        // Where it stays, the next note or the next opening takes it away.
        let _ = disk.remove_file(&unfinished);
        tracing::info!(dir = %dir.display(), %error, "the last checkpoint is not noted");
    }
}
