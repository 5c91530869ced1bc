//! Counts the syncs that this process makes, whoever makes them.
//!
//! The program defines the C library's names itself: a symbol of the executable goes before one of a shared library, for
//! Rust's standard library and for the C and C++ peers that are linked in. Each counts and makes the system call. A peer
//! that made its system calls without the C library would not be counted; under `strace -f -c` none of them does.

#![allow(unsafe_code, reason = "symbols and system calls; each block says why it is sound")]

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// `fsync`, `fdatasync`, `msync` with `MS_SYNC`: what waits for the device.
static WAITED: AtomicU64 = AtomicU64::new(0);
/// `sync_file_range`: starts or awaits write-back, promises nothing.
static HINTED: AtomicU64 = AtomicU64::new(0);

/// Syncs since the program began that waited for the device.
pub(crate) fn waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

/// Calls since the program began that only hurry write-back.
pub(crate) fn hinted() -> u64 {
    HINTED.load(Ordering::Relaxed)
}

fn status(returned: c_long) -> c_int {
    // A sync gives 0 or -1.
    c_int::try_from(returned).unwrap_or(-1)
}

// SAFETY: the name and signature are those of the C library's function, and so is what it does.
#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    WAITED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the call takes a descriptor and touches no memory.
    status(unsafe { libc::syscall(libc::SYS_fsync, file) })
}

// SAFETY: as for `fsync`.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    WAITED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the call takes a descriptor and touches no memory.
    status(unsafe { libc::syscall(libc::SYS_fdatasync, file) })
}

// SAFETY: as for `fsync`.
#[unsafe(no_mangle)]
extern "C" fn msync(start: *mut c_void, length: usize, flags: c_int) -> c_int {
    if flags & libc::MS_SYNC != 0 {
        WAITED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the range is the caller's; the kernel refuses one that is not mapped.
    status(unsafe { libc::syscall(libc::SYS_msync, start, length, flags) })
}

// SAFETY: as for `fsync`.
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(file: c_int, offset: i64, length: i64, flags: libc::c_uint) -> c_int {
    HINTED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the call takes a descriptor and numbers, and touches no memory.
    status(unsafe { libc::syscall(libc::SYS_sync_file_range, file, offset, length, flags) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_types, reason = "what is tested is that the standard library's own sync is seen")]
    fn a_sync_of_the_standard_library_is_counted() {
        let file = std::fs::File::from(std::os::fd::OwnedFd::from(tempfile::tempfile().unwrap()));
        let before = waited();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert!(waited() >= before + 2);
    }
}
