//! Looks that follow each other, and what moved between them.
//!
//! May touch clocks. Knows nothing of how a look is printed.

use std::time::{Duration, Instant};

use rollstore::Stats;

use crate::text;

/// The looks so far.
#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    last: Option<(Instant, Moving)>,
}

/// What only grows, apart from a restore or a compaction.
#[derive(Debug, Clone, Copy)]
struct Moving {
    inserted: u64,
    computed: u64,
    retired: u64,
    log_bytes: u64,
}

/// What moved between two looks, each a second. What went back, as a restore makes it, counts as 0.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct Rates {
    inserted: f64,
    computed: f64,
    retired: f64,
    log_bytes: f64,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), last: None }
    }

    /// Takes a look in: the time since the first one, and the rates since the one before.
    pub(super) fn look(&mut self, stats: &Stats) -> (Duration, Option<Rates>) {
        let (now, moving) = (Instant::now(), Moving::of(stats));
        let rates = self.last.map(|(then, before)| Rates::between(before, moving, now - then));
        self.last = Some((now, moving));
        (now - self.began, rates)
    }
}

impl Moving {
    fn of(stats: &Stats) -> Self {
        let counters = &stats.counters;
        let retired = counters.retired_total();
        Self { inserted: counters.inserted, computed: counters.computed, retired, log_bytes: stats.log_bytes }
    }
}

impl Rates {
    fn between(before: Moving, now: Moving, time: Duration) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / time.as_secs_f64().max(1e-3);
        Self {
            inserted: rate(before.inserted, now.inserted),
            computed: rate(before.computed, now.computed),
            retired: rate(before.retired, now.retired),
            log_bytes: rate(before.log_bytes, now.log_bytes),
        }
    }
}

/// The rates in words; before the second look there are none.
pub(super) fn words(rates: Option<&Rates>) -> String {
    let Some(Rates { inserted, computed, retired, log_bytes }) = rates else {
        return "from the next look on".to_owned();
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative; it saturates")]
    let bytes = text::bytes(log_bytes.round() as u64);
    format!("{inserted:.1} inserted, {computed:.1} computed, {retired:.1} retired, {bytes} of log, each a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_moved_in_the_time_and_never_negative() {
        let at = |inserted, log_bytes| Moving { inserted, computed: 6, retired: 1, log_bytes };
        let rates = Rates::between(at(10, 9_000), at(30, 4_000), Duration::from_secs(4));
        assert_eq!(rates, Rates { inserted: 5.0, computed: 0.0, retired: 0.0, log_bytes: 0.0 });
        assert_eq!(words(Some(&rates)), "5.0 inserted, 0.0 computed, 0.0 retired, 0 B of log, each a second");
        assert_eq!(words(None), "from the next look on");
    }
}
