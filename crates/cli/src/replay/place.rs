//! Where a replay keeps its things: the store, its checkpoint, and the note of a resume.
//!
//! May touch the note, and nothing else. Knows nothing of what a store holds.
//!
//! Always true:
//! - N1. The note is wholly there or absent, and durable before the restore that it is written for.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::progress::Progress;
use crate::exit::{Failure, Outcome, note};
use crate::text;

/// Longest note that is read, in bytes. A note holds a few counts.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// The paths of one replay.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) store: PathBuf,
    pub(super) checkpoint: PathBuf,
    note: PathBuf,
}

/// What the replay knew when it began a resume, kept outside the store: the restore takes the store's own record of it
/// back to the checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResumeNote {
    /// Lines played before the resume: where the store's record stands until the restore.
    pub(super) lines_before: u64,
    /// The record to go on from once the restore is done.
    pub(super) then: Progress,
}

impl Place {
    /// The place of a store directory; a fresh temporary one, told on standard error, where none is named.
    pub(super) fn new(store: Option<&Path>) -> Outcome<Self> {
        if let Some(store) = store {
            return Self::at(store);
        }
        let failed = |error| Failure::io("make a directory in", &std::env::temp_dir(), &error);
        let folder = tempfile::Builder::new().prefix("rollstore-replay-").tempdir().map_err(failed)?.keep();
        let store = folder.join("store");
        note(&format!("the store is {}", text::path(&store)));
        Self::at(&store)
    }

    fn at(store: &Path) -> Outcome<Self> {
        let absolute = std::path::absolute(store).map_err(|error| Failure::io("find", store, &error))?;
        let Some(name) = absolute.file_name() else {
            return Err(Failure::could_not_look(format!("{} is no directory's name", text::path(store))));
        };
        let beside = |suffix: &str| {
            let mut name = OsString::from(name);
            name.push(suffix);
            absolute.with_file_name(name)
        };
        let (checkpoint, note) = (beside(".checkpoint"), beside(".resume.json"));
        Ok(Self { store: absolute, checkpoint, note })
    }

    /// Writes the note and makes it durable.
    pub(super) fn write_note(&self, resume: &ResumeNote) -> Outcome {
        let folder = self.folder();
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(resume)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.note)?;
            sync_folder(folder)
        };
        write().map_err(|error| Failure::io("write", &self.note, &error))
    }

    /// The note, if there is one.
    pub(super) fn read_note(&self) -> Outcome<Option<ResumeNote>> {
        let failed = |error: &io::Error| Failure::io("read", &self.note, error);
        match fs::metadata(&self.note) {
            Ok(metadata) if metadata.len() > NOTE_BYTES_MAX => {
                return Err(failed(&io::Error::other("too long for the note of a resume")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        }
        let json = fs::read(&self.note).map_err(|error| failed(&error))?;
        serde_json::from_slice(&json).map(Some).map_err(|error| failed(&error.into()))
    }

    /// Removes the note, if there is one. A note that comes back after power loss is told by its lines to be old.
    pub(super) fn remove_note(&self) -> Outcome {
        match fs::remove_file(&self.note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io("remove", &self.note, &error)),
            _ => Ok(()),
        }
    }

    fn folder(&self) -> &Path {
        self.note.parent().unwrap_or(Path::new("."))
    }
}

/// Makes a rename in the folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[expect(clippy::disallowed_types, reason = "the note is no part of a store")]
    let folder = fs::File::open(folder)?;
    folder.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_and_goes_when_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(Some(&folder.path().join("run"))).unwrap();
        assert!(place.read_note().unwrap().is_none());
        let mut then = Progress::default();
        then.totals.inserted = 7;
        place.write_note(&ResumeNote { lines_before: 12, then }).unwrap();
        let note = place.read_note().unwrap().unwrap();
        assert_eq!((note.lines_before, note.then), (12, then));
        place.remove_note().unwrap();
        place.remove_note().unwrap();
        assert!(place.read_note().unwrap().is_none());
    }

    #[test]
    fn a_broken_note_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(Some(&folder.path().join("run"))).unwrap();
        fs::write(folder.path().join("run.resume.json"), "{").unwrap();
        let error = format!("{:?}", place.read_note().unwrap_err());
        assert!(error.contains("run.resume.json"), "{error}");
    }
}
