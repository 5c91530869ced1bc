//! The checkpoint beside the store that an upload reads, and the directory that a restore fetches into.
//!
//! Always true:
//! - B1. Nothing but directories of names that this crate made is ever removed.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rollstore::{Result, RolloutStore};

use crate::fetch::file_error;
use crate::random_name;

/// Names of such checkpoints: `rollouts.uploading-` and a random end.
const UPLOADING: &str = ".uploading-";

/// Those that this process uses. A store has one process that writes, so that any other is a crash's.
static IN_USE: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// A checkpoint beside the store, on its file system, removed when dropped.
#[derive(Debug)]
pub(crate) struct Saved(PathBuf);

impl Saved {
    pub(crate) fn of(store: &RolloutStore) -> Result<Self> {
        let start = with_suffix(store.dir(), UPLOADING);
        let saved = {
            let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = in_use.get_or_insert_default();
            remove_left_over(&start, in_use);
            let dir = with_suffix(&start, &random_name());
            in_use.insert(dir.clone());
            Self(dir)
        };
        store.checkpoint(saved.dir())?;
        Ok(saved)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        remove(&self.0);
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.get_or_insert_default().remove(&self.0);
    }
}

/// Removes what uploads of this store left when they were killed, unfinished ones (`.tmp`) too.
fn remove_left_over(start: &Path, in_use: &HashSet<PathBuf>) {
    let (Some(above), Some(start)) = (start.parent(), start.file_name().and_then(|name| name.to_str())) else { return };
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    let Ok(entries) = fs::read_dir(above) else { return };
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(start));
        let path = above.join(&name);
        let used =
            |dir: &PathBuf| dir.file_name() == Some(&name) || with_suffix(dir, ".tmp").file_name() == Some(&name);
        if is_ours && !in_use.iter().any(used) {
            remove(&path);
        }
    }
}

fn remove(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), %error, "could not remove the checkpoint that was uploaded");
        }
        _ => {}
    }
}

/// Removes what killed uploads to a directory left there before a moment: files that were written under a name with `#` and a
/// number behind it, to be renamed, which no listing of objects shows.
pub(crate) fn remove_staged(dir: &Path, before: SystemTime) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let end = name.to_str().and_then(|name| name.rsplit_once('#')).map(|(_, end)| end);
        let is_staged = end.is_some_and(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()));
        let is_old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|written| written < before);
        if is_staged
            && is_old
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::warn!(file = %entry.path().display(), %error, "could not remove what a killed upload left");
        }
    }
}

/// The directory that a restore fetches into: it stays where one ends early, so that the next one goes on.
pub(crate) fn fetching(dir: &Path) -> PathBuf {
    with_suffix(&dir.components().collect::<PathBuf>(), ".fetching")
}

/// Makes a directory that a checkpoint is fetched into, without files that the checkpoint has not.
pub(crate) fn prepare(dir: &Path, expected: &HashSet<String>) -> Result<()> {
    let failed = |error| file_error(dir, &error);
    fs::create_dir_all(dir).map_err(failed)?;
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_str().is_some_and(|name| expected.contains(name)) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes the directory once its checkpoint is restored.
pub(crate) fn finished(dir: &Path) {
    remove(dir);
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
