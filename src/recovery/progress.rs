//! Tells of a recovery that takes long, so that nobody takes it for one that hangs.

use std::time::{Duration, Instant};

/// How often a recovery says how far it is.
const EVERY: Duration = Duration::from_secs(2);

/// A row of segments that are read, one after the other.
#[derive(Debug)]
pub(super) struct Progress {
    every: Duration,
    told: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    /// So many segments are to be read.
    pub(super) fn new(total: usize) -> Self {
        Self { every: EVERY, told: Instant::now(), done: 0, total }
    }

    /// One more was read.
    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.told.elapsed() >= self.every && self.done < self.total {
            self.told = Instant::now();
            tracing::info!(done = self.done, total = self.total, "opening the store: segments are read");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Counts events.
    #[derive(Clone, Default)]
    struct Count(Arc<AtomicUsize>);

    impl Subscriber for Count {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn told(every: Duration) -> usize {
        let count = Count::default();
        tracing::subscriber::with_default(count.clone(), || {
            let mut progress = Progress { every, ..Progress::new(10) };
            (0..10).for_each(|_| progress.step());
        });
        count.0.load(Ordering::Relaxed)
    }

    #[test]
    fn s08_a_slow_recovery_tells_how_far_it_is_and_a_fast_one_nothing() {
        assert_eq!(told(Duration::ZERO), 9, "each time but the last, which is the end");
        assert_eq!(told(Duration::MAX), 0);
    }
}
