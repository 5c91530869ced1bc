//! Who asked for what: counts that no frame carries until the next tally.
//!
//! Always true:
//! - U1. A count leaves here only with the batch that carries it, once that is written.
//! - U2. A use counts for the incarnation that was used, never for a later one of the same id.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::format::counters::Counters;
use crate::log::event::Incarnation;
use crate::sync::Mutex;

/// Counts since the last tally, and the ratio guard.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    asked: AtomicU64,
    served: AtomicU64,
    dropped: AtomicU64,
    /// Rollouts asked for the first time ever, each once. Grows at its end; what a tally carried leaves at its front.
    used: Mutex<Vec<Incarnation>>,
    /// Plans for rollouts that had old logps, and how many of those were to be computed again.
    uses: AtomicU64,
    recomputes: AtomicU64,
    warned: AtomicBool,
    /// Writes of log-probs that are all zero.
    zero_logps: AtomicU64,
    /// Clock and live bytes when something last ended, or when they were first seen.
    last_end: Mutex<Option<(u64, u64)>>,
    /// The same as they are now.
    now: Mutex<(u64, u64)>,
}

/// Counts on their way into a batch.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    asked: u64,
    served: u64,
    dropped: u64,
    /// The rollouts that were asked for the first time.
    pub(crate) used: Vec<Incarnation>,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.asked + self.served + self.dropped == 0 && self.used.is_empty()
    }

    pub(crate) fn add_to(&self, counters: &mut Counters) {
        counters.asked = counters.asked.saturating_add(self.asked);
        counters.served = counters.served.saturating_add(self.served);
        counters.dropped = counters.dropped.saturating_add(self.dropped);
    }
}

/// What the ratio guard says.
const RATIO_WARNING: &str = "nearly every use of a rollout recomputes its old logps, so that the ratio \
    π_new / π_old is always 1 and nothing is clipped; advance the ref version less often (once a generation, not once an \
    optimizer step) or raise max_version_lag";

fn zero_warning(count: u64) -> String {
    format!(
        "{count} rollouts were written with log-probs that are all zero, which says that every token was certain; where an \
         engine returned none, leave the column out"
    )
}

impl Usage {
    /// Steps without any end of life after which growth is worth a word.
    const GROWTH_STEPS: u64 = 100;

    /// Uses below this are too few to judge the ratio by.
    const USES_MIN: u64 = 256;

    /// Rollouts were asked for, of which `fresh` were fresh; these for the first time ever.
    pub(crate) fn asked(&self, asked: u64, fresh: u64, first_time: Vec<Incarnation>) {
        self.asked.fetch_add(asked, Ordering::Relaxed);
        self.served.fetch_add(fresh, Ordering::Relaxed);
        if !first_time.is_empty() {
            self.used.lock().extend(first_time);
        }
    }

    /// Rollouts with old logps were planned for: `fresh` were fresh, `again` must be computed again. Reads behind a plan
    /// are no uses of their own: they would hide that each use recomputes.
    pub(crate) fn planned(&self, fresh: u64, again: u64) {
        self.uses.fetch_add(fresh + again, Ordering::Relaxed);
        self.recomputes.fetch_add(again, Ordering::Relaxed);
        if self.ratio_is_one() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{RATIO_WARNING}");
        }
    }

    /// Log-probs were written that are all zero.
    pub(crate) fn wrote_zero_logps(&self, count: u64) {
        if count > 0 && self.zero_logps.fetch_add(count, Ordering::Relaxed) == 0 {
            tracing::warn!("{}", zero_warning(count));
        }
    }

    /// The store came to this clock with so many bytes alive; whether something ended on the way.
    pub(crate) fn moved(&self, clock: u64, live_bytes: u64, has_ended: bool) {
        let mut last_end = self.last_end.lock();
        if has_ended || last_end.is_none_or(|(before, _)| clock < before) {
            *last_end = Some((clock, live_bytes));
        }
        *self.now.lock() = (clock, live_bytes);
    }

    /// What is alive grew for many steps, and nothing ended.
    fn growth_warning(&self) -> Option<String> {
        let (before, bytes_before) = (*self.last_end.lock())?;
        let (clock, bytes) = *self.now.lock();
        let steps = clock.checked_sub(before).filter(|steps| *steps >= Self::GROWTH_STEPS && bytes > bytes_before)?;
        Some(format!(
            "what is alive grew from {bytes_before} to {bytes} bytes in {steps} steps, and nothing was retired; retire what \
             training is done with, or open with retire_after(steps)"
        ))
    }

    /// What a person should look at, in plain words.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let zero_logps = self.zero_logps.load(Ordering::Relaxed);
        let ratio = self.ratio_is_one().then(|| RATIO_WARNING.to_owned());
        let zeros = (zero_logps > 0).then(|| zero_warning(zero_logps));
        [ratio, zeros, self.growth_warning()].into_iter().flatten().collect()
    }

    /// Results came too late.
    pub(crate) fn dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether 95 of 100 uses recompute.
    fn ratio_is_one(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        uses >= Self::USES_MIN && self.recomputes.load(Ordering::Relaxed) * 100 >= uses * 95
    }

    /// The counts since the last tally, for a batch that is to carry them.
    pub(crate) fn pending(&self) -> Pending {
        Pending {
            asked: self.asked.load(Ordering::Relaxed),
            served: self.served.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            used: self.used.lock().clone(),
        }
    }

    /// A batch that carries these counts was written. One at a time comes here: what it carries is the front.
    pub(crate) fn settle(&self, written: &Pending) {
        self.asked.fetch_sub(written.asked, Ordering::Relaxed);
        self.served.fetch_sub(written.served, Ordering::Relaxed);
        self.dropped.fetch_sub(written.dropped, Ordering::Relaxed);
        self.used.lock().drain(..written.used.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lsn, RolloutId};

    #[test]
    fn u1_a_batch_takes_with_it_what_it_carries_and_one_that_fails_takes_nothing() {
        let [a, b, c] = [1, 2, 3].map(|id| Incarnation { id: RolloutId::new(id), insert_lsn: Lsn::new(id) });
        let usage = Usage::default();
        usage.asked(2, 1, vec![b, a]);
        drop(usage.pending());
        let carried = usage.pending();
        assert_eq!((carried.asked, carried.served, &carried.used[..]), (2, 1, &[b, a][..]), "nothing was taken");
        usage.asked(1, 1, vec![c]);
        usage.settle(&carried);
        let left = usage.pending();
        assert_eq!((left.asked, left.served, &left.used[..]), (1, 1, &[c][..]), "what came meanwhile is left");
        usage.settle(&left);
        assert!(usage.pending().is_empty());
    }
}
