//! What stands in a store's directory of who owns it: the lock file, and claims that have not become it.
//!
//! Always true:
//! - S1. Whoever looks may come between a claim and its rename: one that is gone when it is read is looked for again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Error, Result};
use crate::format::names::{LOCK, parse_claim_file_name};

use super::note::Note;

/// Longest text that is read from a lock file, in bytes.
const NOTE_BYTES_MAX: u64 = 4096;

/// One name under which an owner may stand.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) path: PathBuf,
    pub(super) term: u64,
    pub(super) text: String,
    pub(super) note: Option<Note>,
}

impl Seen {
    /// The lock file and unfinished claims, if there are any.
    pub(super) fn all(disk: &dyn Disk, dir: &Path) -> Result<Vec<Self>> {
        // A claim that was listed and is gone got the lock's name this moment, or was withdrawn: another look tells.
        const LOOKS_MAX: u32 = 10;
        let mut looks = 1;
        loop {
            match Self::listed(disk, dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && looks < LOOKS_MAX => looks += 1,
                listed => return listed.map_err(|error| Error::io("read the lock of", dir, error)),
            }
        }
    }

    fn listed(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Self>> {
        let names = disk.list(dir)?;
        let mut all = Vec::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            let claimed = parse_claim_file_name(name);
            if name != LOCK && claimed.is_none() {
                continue;
            }
            let path = dir.join(name);
            let text = read_text(disk, &path)?;
            let note = Note::parse(&text);
            let term = claimed.or(note.as_ref().map(|note| note.term)).unwrap_or(0);
            all.push(Self { path, term, text, note });
        }
        Ok(all)
    }

    /// The one that tells who the owner is: of the latest term, and the lock file before a claim of the same one, which
    /// came too late. A claim that was withdrawn says nothing of the owner.
    pub(super) fn owner(all: &[Self]) -> Option<&Self> {
        let counts = |seen: &&Self| seen.is_lock() || !seen.is_released();
        all.iter().filter(counts).max_by_key(|seen| (seen.term, seen.is_lock()))
    }

    fn is_lock(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == LOCK)
    }

    pub(super) fn is_released(&self) -> bool {
        self.note.as_ref().is_some_and(|note| note.released)
    }
}

pub(super) fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let file: Arc<dyn DiskFile> = disk.open(path, Access::Read)?;
    let len = usize::try_from(file.len()?.min(NOTE_BYTES_MAX)).unwrap_or(0);
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
