//! The runtime that transfers run on: small, and of each call's own.

use std::future::Future;
use std::thread;

use rollstore::{Error, ErrorKind, Result};
use tokio::runtime::Builder;

/// Requests wait; checksums are what the threads work at.
const THREADS: usize = 2;

/// Runs a future to its end, on a thread with a runtime of its own, so that the caller may have one or none.
pub(crate) fn run<T: Send, F: Future<Output = Result<T>>>(work: impl FnOnce() -> F + Send) -> Result<T> {
    let failed = |error| Error::new(ErrorKind::Io, format!("could not start threads for object storage: {error}"));
    thread::scope(|scope| {
        let work = move || {
            let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().map_err(failed)?;
            runtime.block_on(work())
        };
        let thread =
            thread::Builder::new().name("rollstore-objects".to_owned()).spawn_scoped(scope, work).map_err(failed)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
