//! Where something is made: beside its name, which it gets when it is whole.
//!
//! May touch directories. Knows nothing of stores.
//!
//! Always true:
//! - P1. The name is free until the whole stands there, on disk.
//! - P2. One at a time makes what is to have the name: a second is told so.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::{Disk, DiskLock, EntryKind, LockError};

use crate::error::{Error, Result};

/// A directory beside the name: `.NAME.making`, with a lock, and in it what is being made. A process that is killed leaves it
/// to the next one.
#[derive(Debug)]
pub(crate) struct Place {
    disk: Arc<dyn Disk>,
    name: PathBuf,
    work: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl Place {
    /// Refuses a name that is taken. An empty directory gives way.
    pub(crate) fn check_free(disk: &dyn Disk, name: &Path) -> Result<()> {
        let kind = disk.entry_kind(name).map_err(Error::io("look at", name))?;
        let is_empty = || Ok::<_, Error>(disk.list(name).map_err(Error::io("look into", name))?.is_empty());
        match kind {
            None => Ok(()),
            Some(EntryKind::Directory) if is_empty()? => Ok(()),
            Some(_) => {
                // Who was killed after the naming left no more than its lock.
                let work = work_of(name);
                if matches!(disk.entry_kind(&made_in(&work)), Ok(None)) {
                    let _ = remove_tree(disk, &work);
                }
                Err(Error::Exists(name.to_owned()))
            }
        }
    }

    /// Takes the place, with what another process left there.
    pub(crate) fn take(disk: &Arc<dyn Disk>, name: &Path) -> Result<Self> {
        let work = work_of(name);
        disk.create_dir_all(&work).map_err(Error::io("create", &work))?;
        let busy = |holder| Error::Busy { path: work.clone(), holder };
        let lock = match disk.lock(&work.join("LOCK"), &format!("process {}", std::process::id())) {
            Ok(lock) => lock,
            Err(LockError::Held(holder)) => return Err(busy(holder)),
            Err(LockError::Io(error)) => return Err(Error::io("lock", &work)(error)),
        };
        if !lock.is_current() {
            return Err(busy("it came to its end just now".to_owned()));
        }
        let place = Self { disk: Arc::clone(disk), name: name.to_owned(), work, _lock: lock };
        // Between the first look and the lock another may have come to its end.
        Self::check_free(&**disk, name)?;
        Ok(place)
    }

    /// What is being made.
    pub(crate) fn made(&self) -> PathBuf {
        made_in(&self.work)
    }

    /// Gives it the name. What is left of the place is then to be given up.
    pub(crate) fn name(&self) -> Result<()> {
        let (disk, made, above) = (&*self.disk, self.made(), above(&self.name));
        disk.sync_dir(&made).map_err(Error::io("sync", &made))?;
        if disk.entry_kind(&self.name).map_err(Error::io("look at", &self.name))?.is_some() {
            disk.remove_dir(&self.name).map_err(Error::io("replace", &self.name))?;
        }
        disk.rename(&made, &self.name).map_err(Error::io("name", &self.name))?;
        disk.sync_dir(&above).map_err(Error::io("sync", &above))
    }

    /// Removes everything that does not have the name.
    pub(crate) fn give_up(self) {
        // What is left over harms nobody, and the next call takes it up, or away.
        let _ = remove_tree(&*self.disk, &self.work);
    }

    /// Removes what another call left that made something else.
    pub(crate) fn keep(&self, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
        let made = self.made();
        if self.disk.entry_kind(&made).map_err(Error::io("look at", &made))?.is_none() {
            return Ok(());
        }
        let names = self.disk.list(&made).map_err(Error::io("look into", &made))?;
        let others = names.iter().filter(|name| !name.to_str().is_some_and(&is_wanted));
        others.map(|name| made.join(name)).try_for_each(|other| self.remove(&other))
    }

    /// Removes a part of what is being made.
    pub(crate) fn remove(&self, dir: &Path) -> Result<()> {
        remove_tree(&*self.disk, dir).map_err(Error::io("remove", dir))
    }
}

fn work_of(name: &Path) -> PathBuf {
    above(name).join(format!(".{}.making", name.file_name().unwrap_or_default().to_string_lossy()))
}

fn made_in(work: &Path) -> PathBuf {
    work.join("made")
}

/// The directory that holds a name.
fn above(path: &Path) -> PathBuf {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Removes what stands at a path, a directory with all that is in it; Ok where nothing does.
fn remove_tree(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.entry_kind(path)? {
        None => Ok(()),
        Some(EntryKind::Directory) if !disk.is_link(path)? => {
            for name in disk.list(path)? {
                remove_tree(disk, &path.join(name))?;
            }
            disk.remove_dir(path)
        }
        Some(_) => disk.remove_file(path),
    }
}
