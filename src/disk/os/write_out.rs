//! Dirty pages on their way to the disk before a sync asks for them.
//!
//! May touch one system call that neither std nor rustix has. Knows nothing of what is written.

#![expect(unsafe_code, reason = "a system call through libc; the block proves itself")]
#![expect(clippy::disallowed_types, reason = "an open file is what is written out")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Begins to write out these bytes, and waits for nothing: while the caller copies what follows, the disk works already, and
/// the sync behind it waits for less. Advice: whatever fails here, the sync tells.
pub(super) fn begin(file: &File, bytes: Range<u64>) {
    let _ = sync_file_range(file, bytes, libc::SYNC_FILE_RANGE_WRITE);
}

/// Writes out what of these bytes only memory has, and waits for it. Where the file system has no such call, a sync does it
/// all.
pub(super) fn write_out(file: &File, bytes: Range<u64>) -> io::Result<()> {
    const ALL: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let Err(error) = sync_file_range(file, bytes, ALL) else { return Ok(()) };
    let has_no_call = [libc::ENOSYS, libc::EINVAL, libc::ESPIPE, libc::EOPNOTSUPP, libc::EPERM];
    if error.raw_os_error().is_some_and(|code| has_no_call.contains(&code)) { Ok(()) } else { Err(error) }
}

fn sync_file_range(file: &File, bytes: Range<u64>, flags: u32) -> io::Result<()> {
    let len = bytes.end.saturating_sub(bytes.start);
    if len == 0 {
        // To the system this would mean all that follows.
        return Ok(());
    }
    let (offset, len) = (bytes.start.try_into(), len.try_into());
    let (Ok(offset), Ok(len)) = (offset, len) else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: the descriptor is open, because it is borrowed from a file that outlives the call; the other arguments are
    // numbers, so that the call touches no memory of ours.
    let failed = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
