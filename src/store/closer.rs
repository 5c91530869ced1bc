//! The end of an open store: by the call, or with the last handle.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::store::core::Core;
use crate::sync::Mutex;
use crate::sync::thread::JoinHandle;

/// What the last handle does.
#[derive(Debug)]
pub(crate) struct Closer {
    pub(super) core: Arc<Core>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Closer {
    /// Closes the store for all its handles; without `flush` as a crash would, but for the lock and the threads.
    pub(super) fn close(&self, flush: bool) -> Result<()> {
        let core = &self.core;
        if std::process::id() != core.pid {
            // A forked child must not touch what its parent writes, and dropping the index file would.
            std::mem::forget(Arc::clone(core));
            return Ok(());
        }
        // Held to the end: a second close must not return before the store is closed.
        let mut threads = self.threads.lock();
        if core.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let _hurry = core.pace.hurry();
        core.flusher.waker.stop();
        core.syncer.waker.stop();
        core.compactor.waker.stop();
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
        let result = if flush && !core.read_only { self.flush() } else { Ok(()) };
        core.flusher.discard();
        let owner = core.lock.lock().take();
        if let Some(owner) = owner.filter(|_| !flush) {
            owner.vanish();
        }
        result
    }

    fn flush(&self) -> Result<()> {
        let core = &self.core;
        core.group.check()?;
        let mut writer = core.writer.lock();
        writer.close(core)?;
        drop(writer);
        if let Err(error) = core.flusher.flush(core).and_then(|()| core.flusher.close()) {
            tracing::warn!(%error, "the index was not written at close; the next open rebuilds it");
        }
        Ok(())
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Err(error) = self.close(true) {
            tracing::warn!(%error, "the store was not closed cleanly; the next open recovers it");
        }
    }
}
