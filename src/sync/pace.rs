//! How fast the background writes: commits are to find the disk idle most of the time.
//!
//! May touch time and the locks, and nothing else: who writes, and what, it never learns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Condvar, Mutex};

/// Bytes that the background writes before it waits until they are out, and rests: a sync of the log, which the file system
/// may order behind them, never waits for many more than these.
pub(crate) const PORTION_BYTES: u64 = 128 << 10;
/// A portion is followed by a rest of so many times its length.
const RESTS: u32 = 4;
/// Commits come no more where the last one is so long ago: then there is no one to rest for.
const QUIET: Duration = Duration::from_millis(100);

/// The pace of one open store.
#[derive(Debug)]
pub(crate) struct Pace {
    opened: Instant,
    /// When the last commit was written, in microseconds since `opened`; 0 before the first one.
    committed: AtomicU64,
    /// Calls that wait for what the background is at.
    waiting: Mutex<usize>,
    hurried: Condvar,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            committed: AtomicU64::new(0),
            waiting: Mutex::default(),
            hurried: Condvar::default(),
        }
    }
}

impl Pace {
    /// A commit was written.
    pub(crate) fn committed(&self) {
        let now = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.committed.store(now.max(1), Ordering::Relaxed);
    }

    /// Behind a portion that took so long: does nothing for a while, where commits come and no one waits. Under the scheduler
    /// of the tests no time passes.
    pub(crate) fn rest_after(&self, portion: Duration) {
        if cfg!(shuttle) || !self.commits_come(self.opened.elapsed()) {
            return;
        }
        let until = Instant::now() + portion.saturating_mul(RESTS).min(QUIET);
        let mut waiting = self.waiting.lock();
        while *waiting == 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.hurried.wait_for(&mut waiting, left);
        }
    }

    /// Whether the last commit was no longer ago than [`QUIET`], so long after `opened`.
    fn commits_come(&self, now: Duration) -> bool {
        match self.committed.load(Ordering::Relaxed) {
            0 => false,
            at => now.saturating_sub(Duration::from_micros(at)) < QUIET,
        }
    }

    /// Until the guard goes, someone waits for what the background is at, and it does not rest.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        *self.waiting.lock() += 1;
        self.hurried.notify_all();
        Hurry(self)
    }
}

/// Someone waits.
#[derive(Debug)]
pub(crate) struct Hurry<'a>(&'a Pace);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        *self.0.waiting.lock() -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_come_for_a_while_after_each_and_never_before_the_first() {
        let pace = Pace::default();
        assert!(!pace.commits_come(pace.opened.elapsed()));
        pace.committed();
        let at = Duration::from_micros(pace.committed.load(Ordering::Relaxed));
        assert!(pace.commits_come(at));
        assert!(pace.commits_come(at + QUIET / 2));
        assert!(!pace.commits_come(at + QUIET));
    }

    #[test]
    fn a_rest_ends_as_soon_as_someone_waits() {
        let pace = Pace::default();
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| {
                for _ in 0..1000 {
                    pace.committed();
                    pace.rest_after(QUIET);
                }
            });
            let _hurry = pace.hurry();
            resting.join().unwrap();
        });
        assert_eq!(*pace.waiting.lock(), 0);
    }
}
