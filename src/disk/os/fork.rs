//! A forked child lets go what it inherited of a lock: else an orphan would hold it for a parent that is gone.
//!
//! May touch libc's `fork` handlers and descriptors. Knows nothing of what is locked.
//!
//! Always true:
//! - K1. In a forked child every descriptor kept here is closed before `fork` returns, and never closed again.
//! - K2. The handler runs between fork and the first instruction of the child: it touches atomics and calls `close`, which
//!   are safe there whatever other threads of the parent held.

#![expect(unsafe_code, reason = "fork handlers and descriptors that go without their owner; each block proves itself")]
#![expect(clippy::disallowed_types, reason = "a lock is an open file")]

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Locks that one process can keep from its children. A further one is kept by children too, as if there were no handler.
const DESCRIPTORS_MAX: usize = 256;

/// What stands in a place without a descriptor.
const FREE: RawFd = -1;

static DESCRIPTORS: [AtomicI32; DESCRIPTORS_MAX] = [const { AtomicI32::new(FREE) }; DESCRIPTORS_MAX];

/// An open file that a forked child does not keep.
#[derive(Debug)]
pub(super) struct NotInherited {
    file: ManuallyDrop<File>,
    /// Where the descriptor stands; `None` where the table was full.
    place: Option<&'static AtomicI32>,
    pid: u32,
}

impl NotInherited {
    pub(super) fn new(file: File) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(register);
        let descriptor = file.as_raw_fd();
        let take =
            |place: &&AtomicI32| place.compare_exchange(FREE, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let place = DESCRIPTORS.iter().find(take);
        if place.is_none() {
            tracing::warn!(max = DESCRIPTORS_MAX, "so many stores are open that a forked child will keep this lock");
        }
        Self { file: ManuallyDrop::new(file), place, pid: process::id() }
    }

    /// The file. In a forked child its descriptor is closed.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether this process opened the file, and is no forked child.
    pub(super) fn is_ours(&self) -> bool {
        process::id() == self.pid
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        match self.place {
            // The handler closed it, and the number may be another file's by now.
            Some(_) if !self.is_ours() => return,
            Some(place) => place.store(FREE, Ordering::Release),
            None => {}
        }
        // SAFETY: dropped once, because this is the destructor and nothing behind it uses the field; valid because the
        // descriptor is closed elsewhere only in a forked child (K1), which returned above.
        unsafe { ManuallyDrop::drop(&mut self.file) }
    }
}

fn register() {
    // SAFETY: `let_go` is a function without captures, so that it lives as long as the process; it does only what is safe
    // in a child of many threads (K2).
    let failed = unsafe { libc::pthread_atfork(None, None, Some(let_go)) };
    if failed != 0 {
        tracing::warn!(errno = failed, "no fork handler could be set: a forked child will keep the lock of a store");
    }
}

extern "C" fn let_go() {
    for place in &DESCRIPTORS {
        let descriptor = place.swap(FREE, Ordering::Relaxed);
        if descriptor != FREE {
            // SAFETY: open, because who closes it takes it out of the table before, and the child has no other thread;
            // owned by a `NotInherited`, which never touches it again in a child (K1).
            unsafe { libc::close(descriptor) };
        }
    }
}
