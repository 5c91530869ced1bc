//! Cases shared out over all cores.

use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Runs the cases with these numbers, on all cores; returns what they gave, in no certain order.
///
/// # Panics
/// As the first case that panics does; the others are not begun then.
pub fn share<T: Send>(count: u64, case: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let numbers = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count);
    let work = || {
        let done = panic::catch_unwind(panic::AssertUnwindSafe(|| std::iter::from_fn(numbers).map(&case).collect()));
        done.unwrap_or_else(|cause| {
            next.store(count, Ordering::Relaxed);
            panic::resume_unwind(cause)
        })
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<thread::ScopedJoinHandle<'_, Vec<T>>> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join =
            |worker: thread::ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        workers.into_iter().flat_map(join).collect()
    })
}
