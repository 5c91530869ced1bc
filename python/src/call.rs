//! How the store is called: without the interpreter lock, and so that a Ctrl-C is answered.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rollstore::RolloutId;

use crate::errors::{exception, panicked};

/// Time between two looks for a signal, while a long call works.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work` without the interpreter lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> rollstore::Result<T> + Send) -> PyResult<T> {
    let done = py.detach(|| panic::catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|panic| panicked(py, &*panic))?.map_err(|error| exception(py, &error, None))
}

/// Runs `work`, which cannot fail, without the interpreter lock.
pub(crate) fn asked<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    detached(py, || Ok(work()))
}

/// As [`detached`], for a call about these ids: an exception names the row of the id that it is about.
pub(crate) fn about<T: Send>(
    py: Python<'_>,
    ids: &[RolloutId],
    work: impl FnOnce() -> rollstore::Result<T> + Send,
) -> PyResult<T> {
    detached(py, || Ok(work()))?.map_err(|error| {
        let row = error.rollout().and_then(|id| ids.iter().position(|other| *other == id));
        exception(py, &error, row)
    })
}

/// As [`detached`], for what may take long: the calling thread looks for signals meanwhile. When a handler raises (Ctrl-C),
/// the call ends with its exception, and the work comes to its end on a thread of its own.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> rollstore::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, done) = mpsc::sync_channel(1);
    let work = move || {
        // Nobody listens any more after a Ctrl-C: what was made is dropped then.
        let _ = sender.send(panic::catch_unwind(AssertUnwindSafe(work)));
    };
    thread::Builder::new().name("rollstore-call".to_owned()).spawn(work)?;
    // Only this thread receives; the lock is what lets it do so without the interpreter's.
    let done = Mutex::new(done);
    loop {
        match py.detach(|| done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_EVERY)) {
            Ok(done) => {
                return done.map_err(|panic| panicked(py, &*panic))?.map_err(|error| exception(py, &error, None));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the call's thread is gone")),
        }
    }
}
