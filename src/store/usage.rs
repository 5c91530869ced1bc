//! Who asked for what: counts that no frame carries until the next tally.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::format::counters::Counters;
use crate::ids::RolloutId;

/// Counts since the last tally, and the ratio guard.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    asked: AtomicU64,
    served: AtomicU64,
    dropped: AtomicU64,
    /// Rollouts asked for the first time since the last tally.
    used: Mutex<HashSet<RolloutId>>,
    /// Uses of rollouts that had old logps, and how many of those were to be computed again.
    uses: AtomicU64,
    recomputes: AtomicU64,
    warned: AtomicBool,
}

/// What the ratio guard says.
pub(crate) const RATIO_WARNING: &str = "nearly every use of a rollout recomputes its old logps, so that the ratio \
    π_new / π_old is always 1 and nothing is clipped; advance the ref version less often (once a generation, not once an \
    optimizer step) or raise max_version_lag";

impl Usage {
    /// Uses below this are too few to judge the ratio by.
    const USES_MIN: u64 = 256;

    /// Rollouts were asked for: `fresh` of them were fresh, `again` had old logps that must be computed again.
    pub(crate) fn asked(&self, asked: u64, fresh: u64, again: u64, first_time: Vec<RolloutId>) {
        self.asked.fetch_add(asked, Ordering::Relaxed);
        self.served.fetch_add(fresh, Ordering::Relaxed);
        self.uses.fetch_add(fresh + again, Ordering::Relaxed);
        self.recomputes.fetch_add(again, Ordering::Relaxed);
        if !first_time.is_empty() {
            self.used.lock().extend(first_time);
        }
        if self.ratio_is_one() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{RATIO_WARNING}");
        }
    }

    /// Results came too late.
    pub(crate) fn dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether a rollout was asked for since the last tally.
    pub(crate) fn is_used(&self, id: RolloutId) -> bool {
        self.used.lock().contains(&id)
    }

    /// Whether 95 of 100 uses recompute.
    pub(crate) fn ratio_is_one(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        uses >= Self::USES_MIN && self.recomputes.load(Ordering::Relaxed) * 100 >= uses * 95
    }

    /// Whether anything happened since the last tally.
    pub(crate) fn is_dirty(&self) -> bool {
        let counts = [&self.asked, &self.served, &self.dropped];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0) || !self.used.lock().is_empty()
    }

    /// Adds the counts since the last tally.
    pub(crate) fn add_to(&self, counters: &mut Counters) {
        counters.asked += self.asked.load(Ordering::Relaxed);
        counters.served += self.served.load(Ordering::Relaxed);
        counters.dropped += self.dropped.load(Ordering::Relaxed);
    }

    /// Moves the counts into `counters` and gives the rollouts used; `None` where nothing happened since the last tally.
    pub(crate) fn take(&self, counters: &mut Counters) -> Option<Vec<RolloutId>> {
        let mut moved = 0;
        for (count, total) in [
            (&self.asked, &mut counters.asked),
            (&self.served, &mut counters.served),
            (&self.dropped, &mut counters.dropped),
        ] {
            let count = count.swap(0, Ordering::Relaxed);
            *total += count;
            moved += count;
        }
        let mut used: Vec<RolloutId> = std::mem::take(&mut *self.used.lock()).into_iter().collect();
        used.sort_unstable();
        (moved > 0 || !used.is_empty()).then_some(used)
    }
}
