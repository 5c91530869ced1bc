//! Files from one directory to another: by hard link, or by copy where the file system cannot.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::format::manifest::{SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::planted::{Bug, planted};

/// Brings segments into a directory and counts what had to be copied.
#[derive(Debug)]
pub(crate) struct Transfer<'a> {
    disk: &'a dyn Disk,
    from: &'a Path,
    to: &'a Path,
    /// `None` as long as every segment could be linked.
    pub(crate) copied_bytes: Option<u64>,
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, from: &'a Path, to: &'a Path) -> Self {
        Self { disk, from, to, copied_bytes: None }
    }

    /// Brings one finished segment; its bytes are durable when this returns, its name once the directory is synced.
    pub(crate) fn bring(&mut self, record: &SegmentRecord) -> Result<()> {
        let name = segment_file_name(record.id);
        let len = match record.state {
            SegmentState::Sealed { len, .. } => len,
            SegmentState::Cut { end, .. } => end,
            SegmentState::Active => return Err(Error::invalid("a segment that is being written to cannot be copied")),
        };
        self.bring_file(&name, &name, len)
    }

    /// Brings one file under a name of its own, with its first `len` bytes at least.
    pub(crate) fn bring_file(&mut self, name: &str, new_name: &str, len: u64) -> Result<()> {
        let (from, to) = (self.from.join(name), self.to.join(new_name));
        // A link can fail for many reasons (another file system, a limit, no such thing): all of them mean copying.
        let Err(error) = self.disk.hard_link(&from, &to) else { return Ok(()) };
        if self.copied_bytes.is_none() {
            tracing::info!(%error, from = %from.display(), "files cannot be linked and are copied");
        }
        self.copy(&from, &to, len).map_err(|error| Error::io(format_args!("copy {len} bytes to"), &to, error))?;
        *self.copied_bytes.get_or_insert(0) += len;
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path, len: u64) -> io::Result<()> {
        const CHUNK_BYTES: u64 = 4 << 20;
        let (source, target) = (self.disk.open(from, Access::Read)?, self.disk.create(to)?);
        let mut done = 0;
        while done < len {
            let mut buffer = vec![0; usize::try_from(CHUNK_BYTES.min(len - done)).unwrap_or(0)];
            source.read_exact_at(&mut buffer, done)?;
            target.write_all_vectored_at(&mut [IoSlice::new(&buffer)], done)?;
            done += buffer.len() as u64;
        }
        if planted(Bug::NameCheckpointBeforeSync) { Ok(()) } else { target.sync_data() }
    }
}

/// The parent of a path that has none written: the working directory.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes the name of `path` durable, and those of the directories above it: any of them may be as new as it is.
pub(crate) fn sync_names_above(disk: &dyn Disk, path: &Path) -> Result<()> {
    let mut below = path.to_owned();
    loop {
        let above = parent(&below);
        match disk.sync_dir(&above) {
            // Who may not open a directory made nothing in it. The nearest one is always ours.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && below != path => return Ok(()),
            synced => synced.map_err(|error| Error::io("sync directory", &above, error))?,
        }
        if above.parent().is_none() || above == Path::new(".") {
            return Ok(());
        }
        below = above;
    }
}
