//! A file that appears under its name whole, or not at all.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::exit::{Failure, Outcome};
use crate::text;

/// An open file that is no part of a store.
#[expect(clippy::disallowed_types, reason = "dumps lie outside of stores, and faults of their disk need no simulation")]
pub(crate) type File = std::fs::File;

/// A file being written under a temporary name beside its own. Dropped before it is kept, it is removed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl OutputFile {
    /// Begins a file that will be called `path`; one that is there is replaced when this one is whole.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        if path.is_dir() {
            return Err(Failure::could_not_look(format!("{} is a directory; name a file", text::path(path))));
        }
        // What a program that makes files makes them with; the system takes away what the user's mask says.
        let permissions = Permissions::from_mode(0o666);
        let named = tempfile::Builder::new().prefix(".rollstore-").permissions(permissions).tempfile_in(folder(path));
        let file = named.map_err(|error| Failure::io("create a file beside", path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The name that the file will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The file, for one piece after the other.
    pub(crate) fn buffered(&mut self) -> impl Write {
        const BUFFER_BYTES: usize = 1 << 20;
        BufWriter::with_capacity(BUFFER_BYTES, self.file.as_file())
    }

    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::io("write", &self.path, error)
    }

    /// Gives the file its name, once all of it is on disk.
    pub(crate) fn keep(self) -> Outcome {
        let Self { path, file } = self;
        file.as_file().sync_all().map_err(|error| Failure::io("sync", &path, &error))?;
        file.persist(&path).map_err(|error| Failure::io("name", &path, &error.error))?;
        sync_folder(&path)
    }
}

/// Makes the name durable too: otherwise it may vanish with the power.
pub(crate) fn sync_folder(path: &Path) -> Outcome {
    let folder = folder(path);
    let synced = OpenOptions::new().read(true).open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::io("sync", folder, &error))
}

/// The directory that a name stands in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
