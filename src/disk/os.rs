//! The real file system.
//!
//! May touch `std::fs`, rustix and libc. Knows nothing of what the bytes mean.
//!
//! Always true:
//! - O1. A call that was interrupted by a signal goes on; a partial write goes on; a write of nothing is an error.
//! - O2. New files and directories get the permissions that the umask leaves, so that a group can share a store.
//! - O3. A lock file is changed only by the one who holds its lock.
//! - O4. A forked child has no part in a lock that its parent held.

#![expect(clippy::disallowed_types, reason = "this is the one place where real files are opened")]

mod fork;
mod network;
#[cfg(target_os = "linux")]
mod write_out;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use self::fork::NotInherited;
use self::network::network_name;
use super::map::Map;
use super::{Access, Disk, DiskFile, DiskLock, EntryKind, FileSystem, LockError};

/// Longest owner text that is read from a lock that someone else holds, in bytes. It only serves a message.
const OWNER_BYTES_MAX: usize = 4096;

/// How often a held lock's file is read before its owner counts as unknown.
const OWNER_READS_MAX: u32 = 50;

/// The real file system, through the operating system.
///
/// # How do I write a file that survives power loss?
/// ```
/// use rollstore::disk::{Disk, os::OsDisk};
/// # let dir = std::env::temp_dir().join(format!("rollstore-os-doc-{}", std::process::id()));
/// OsDisk.create_dir_all(&dir)?;
/// let file = OsDisk.create(&dir.join("note"))?;
/// file.write_all_vectored_at(&mut [std::io::IoSlice::new(b"hello")], 0)?;
/// file.sync_data()?; // its bytes
/// OsDisk.sync_dir(&dir)?; // its name
/// # OsDisk.remove_file(&dir.join("note"))?;
/// # OsDisk.remove_dir(&dir)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|error| explain(error, path))?;
        Ok(Arc::new(OsFile { file }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        // A pipe of this name must not make us wait for someone to write into it.
        let no_wait = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).write(access == Access::ReadWrite).custom_flags(no_wait).open(path);
        let file = opened.map_err(|error| explain(error, path))?;
        Ok(Arc::new(OsFile { file }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path).map_err(|error| explain(error, path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(or_here(dir))?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn entry_kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(EntryKind::File)),
            Ok(metadata) if metadata.is_dir() => Ok(Some(EntryKind::Directory)),
            Ok(_) => Ok(Some(EntryKind::Other)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(metadata.is_symlink()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(target_os = "linux")]
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};

        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(|errno| match errno {
            Errno::NOSYS | Errno::INVAL => io::ErrorKind::Unsupported.into(),
            other => other.into(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn exchange(&self, _a: &Path, _b: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        fs::hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match File::open(or_here(dir))?.sync_all() {
            // Some network file systems have no sync of directories and write names through: there is nothing to wait for.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP)) => Ok(()),
            result => result,
        }
    }

    fn lock(&self, path: &Path, owner: &str) -> Result<Box<dyn DiskLock>, LockError> {
        // A lock file that is a link could make us truncate any file of this user.
        let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(no_follow)
            .open(path)
            .map_err(|error| explain(error, path))?;
        // Before it is locked: a child forked in between would share the lock.
        let file = NotInherited::new(file);
        match file.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(owner_text(file.file()))),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(no_lock(error))),
        }
        // Absolute, so that a process that changes its working directory does not lose sight of its lock.
        let lock = OsLock { file, path: std::path::absolute(path)? };
        lock.write_owner(owner)?;
        Ok(Box::new(lock))
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        let statfs = rustix::fs::statfs(or_here(path))?;
        Ok(network_name(&statfs).map_or(FileSystem::Local, |name| FileSystem::Network(name.to_owned())))
    }
}

/// The name of this machine, as the system knows it.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The directory of a bare file name is the empty path, which the system does not take for the working directory.
fn or_here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

/// An open file of the real file system.
#[derive(Debug)]
struct OsFile {
    file: File,
}

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut offset = offset;
        let mut rest = buffers;
        // Advancing drops empty buffers at the front, so that a write of 0 bytes can only mean that nothing fits.
        IoSlice::advance_slices(&mut rest, 0);
        while let Some(first) = rest.first() {
            let written = match first.get(..PORTION_BYTES) {
                Some(part) => rustix::io::pwritev(&self.file, &[IoSlice::new(part)], offset),
                None => rustix::io::pwritev(&self.file, &rest[..portion(rest)], offset),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut rest, written);
                    if !rest.is_empty() {
                        write_out::begin(&self.file, offset..offset + written as u64);
                    }
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut offset = offset;
        for buffer in buffers.iter() {
            self.file.write_all_at(buffer, offset)?;
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// `fdatasync` on Linux, which takes the length with it; `F_FULLFSYNC` on macOS, since its `fsync` stops at the
    /// drive's cache.
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn begin_write_out(&self, bytes: Range<u64>) {
        write_out::begin(&self.file, bytes);
    }

    #[cfg(target_os = "linux")]
    fn write_out(&self, bytes: Range<u64>) -> io::Result<()> {
        write_out::write_out(&self.file, bytes)
    }

    #[cfg(target_os = "linux")]
    fn release_pages(&self, bytes: Range<u64>) {
        // A length of none would reach to the end of the file.
        if let Some(len) = bytes.end.checked_sub(bytes.start).and_then(NonZeroU64::new) {
            // A file system that takes no advice goes without.
            let _ = rustix::fs::fadvise(&self.file, bytes.start, Some(len), rustix::fs::Advice::DontNeed);
        }
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        match Map::of(&self.file, capacity) {
            Ok(map) => Ok(Some(map)),
            Err(error) => {
                // A limit on address space or a file system without maps: copies serve as well, only slower.
                tracing::debug!(capacity, %error, "file cannot be mapped, reading copies instead");
                Ok(None)
            }
        }
    }
}

/// Bytes of a long write after which the disk may begin: enough for it to be busy while the next ones are copied.
const PORTION_BYTES: usize = 512 << 10;

/// How many of these buffers one call takes.
#[cfg(target_os = "linux")]
fn portion(buffers: &[IoSlice<'_>]) -> usize {
    /// `UIO_MAXIOV` of the kernel.
    const BUFFERS_MAX: usize = 1024;
    let mut bytes = 0;
    let fits = |buffer: &&IoSlice<'_>| {
        bytes += buffer.len();
        bytes <= PORTION_BYTES
    };
    buffers.iter().take(BUFFERS_MAX).take_while(fits).count().max(1)
}

/// A `flock` on a file.
#[derive(Debug)]
struct OsLock {
    file: NotInherited,
    path: PathBuf,
}

impl OsLock {
    /// Replaces the text in the lock file. Empties the file first: a shorter text must not end in the rest of a longer one.
    fn write_owner(&self, owner: &str) -> io::Result<()> {
        let file = self.file.file();
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the lock is not a regular file"));
        }
        if !self.is_current() {
            return Err(io::Error::other("the lock file was replaced while it was being locked"));
        }
        file.set_len(0)?;
        file.write_all_at(owner.as_bytes(), 0)
    }
}

impl DiskLock for OsLock {
    fn is_current(&self) -> bool {
        let (Ok(held), Ok(named)) = (self.file.file().metadata(), fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // By name, and not by closing alone: a child that was forked in the instant of the opening has a part in it.
        if self.file.is_ours() {
            // Nothing is left to do if this fails: closing the file follows.
            let _ = self.file.file().unlock();
        }
    }
}

/// What the holder of a lock wrote into its file; empty where it cannot be read.
fn owner_text(file: &File) -> String {
    let mut text = vec![0; OWNER_BYTES_MAX];
    let mut len = 0;
    // A holder that took the lock this very moment gets another one to write who it is.
    for _ in 0..OWNER_READS_MAX {
        len = file.read_at(&mut text, 0).unwrap_or(0);
        if len > 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    text.truncate(len);
    String::from_utf8_lossy(&text).into_owned()
}

/// Adds to a refusal who owns what may not be touched, and with which mode: the next thing that anyone would look up.
fn explain(error: io::Error, path: &Path) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let Some((path, found)) = path.ancestors().find_map(|path| Some((path, fs::metadata(or_here(path)).ok()?))) else {
        return error;
    };
    let (path, owner, mode) = (path.display(), found.uid(), found.mode() & 0o7777);
    io::Error::new(error.kind(), format!("{error}; {path} belongs to uid {owner} and has mode {mode:04o}"))
}

/// "Operation is not supported", as the kernel says it to itself: some cluster file systems let it out.
const ENOTSUPP: Errno = Errno::from_raw_os_error(524);

/// Tells "this file system has no locks" from other failures, in the one kind that callers look for.
fn no_lock(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK | Errno::INVAL | ENOTSUPP) => {
            io::Error::new(io::ErrorKind::Unsupported, error)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
