//! The thread that shows that an owner lives.

use std::io::{self, IoSlice};
// Not those of the scheduler: the heartbeat follows the clock.
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::note::{Note, beat_text};
use crate::disk::DiskFile;

/// Beats until it is dropped, and says then that the store was closed.
#[derive(Debug)]
pub(super) struct Beat {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The owner's own file, whatever its name is by now.
    file: Arc<dyn DiskFile>,
    offset: u64,
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Beat {
    pub(super) fn start(file: Arc<dyn DiskFile>, note: &Note) -> io::Result<Self> {
        let (stopped, changed) = (Mutex::new(false), Condvar::new());
        let shared = Arc::new(Shared { file, offset: note.beat_offset(), stopped, changed });
        let (beating, every) = (Arc::clone(&shared), note.every);
        let thread = thread::Builder::new().name("rollstore-lock".to_owned()).spawn(move || beating.run(every))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ends the thread without a word to whom comes next.
    pub(super) fn stop(&mut self) {
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, every: Duration) {
        let mut beat = 0;
        loop {
            let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_timeout_while(stopped, every, |stopped| !*stopped);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            beat += 1;
            if let Err(error) = self.write(Some(beat)) {
                tracing::warn!(%error, "the heartbeat of the store's owner could not be written; another writer may take over");
            }
        }
    }

    fn write(&self, beat: Option<u64>) -> io::Result<()> {
        self.file.write_all_vectored_at(&mut [IoSlice::new(beat_text(beat).as_bytes())], self.offset)?;
        // Other machines see it then.
        self.file.sync_data()
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.stop();
        if let Err(error) = self.shared.write(None) {
            tracing::warn!(%error, "could not say that the store was closed; the next writer must take over");
        }
    }
}
