//! A version clock: which version is current, which are its ancestors, and what the trainer calls them.
//!
//! May touch `limits`. Knows nothing of rollouts: it tells how far behind a version is, not what follows from it.
//!
//! Always true:
//! - C1. A version is issued once: `next` is above every version ever issued.
//! - C2. The lineage is ascending, and its last version is the current one.
//! - C3. Lag counts steps of the lineage, never differences of numbers, which may have gaps.

use crate::limits::LABELS_KEPT;

/// Versions `first` to `last`, both of the lineage with all between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionInterval {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The trainer's own number of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabelRecord {
    pub(crate) label: u64,
    pub(crate) version: u64,
}

/// The clock of the versions of `π_old` or of the KL reference's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionClock {
    pub(crate) current: u64,
    /// The version that the next advance issues.
    pub(crate) next: u64,
    /// The current version and its ancestors, ascending.
    pub(crate) lineage: Vec<VersionInterval>,
    /// The newest labels, in the order they were given.
    pub(crate) labels: Vec<LabelRecord>,
}

impl VersionClock {
    /// The clock of a new store: version 0.
    pub(crate) fn new() -> Self {
        Self { current: 0, next: 1, lineage: vec![VersionInterval { first: 0, last: 0 }], labels: Vec::new() }
    }

    /// Whether the version is the current one or an ancestor of it.
    pub(crate) fn contains(&self, version: u64) -> bool {
        let after = self.lineage.partition_point(|interval| interval.last < version);
        self.lineage.get(after).is_some_and(|interval| interval.first <= version)
    }

    /// Advances of the lineage since the version; `None` where it is no ancestor.
    pub(crate) fn lag(&self, version: u64) -> Option<u64> {
        let mut lag = 0_u64;
        for interval in self.lineage.iter().rev() {
            if interval.first <= version {
                let within = interval.last.checked_sub(version)?;
                return Some(lag.saturating_add(within));
            }
            lag = lag.saturating_add(interval.last.saturating_sub(interval.first)).saturating_add(1);
        }
        None
    }

    /// Makes `version`, which was not issued before, a child of the current one.
    pub(crate) fn follow(&mut self, version: u64, label: Option<u64>) {
        self.next = self.next.max(version);
        let version = self.issue();
        match self.lineage.last_mut() {
            Some(interval) if interval.last.checked_add(1) == Some(version) => interval.last = version,
            _ => self.lineage.push(VersionInterval { first: version, last: version }),
        }
        if let Some(label) = label {
            self.labels.push(LabelRecord { label, version });
            let surplus = self.labels.len().saturating_sub(LABELS_KEPT);
            self.labels.drain(..surplus);
        }
    }

    /// Makes `version`, which was not issued before, the only one of the lineage: every version before is of no lineage,
    /// and its label of no meaning.
    pub(crate) fn restart(&mut self, version: u64) {
        self.next = self.next.max(version);
        let version = self.issue();
        self.lineage = vec![VersionInterval { first: version, last: version }];
        self.labels.clear();
    }

    /// The version that the label was last given to, among the labels kept.
    pub(crate) fn version_of(&self, label: u64) -> Option<u64> {
        self.labels.iter().rev().find(|record| record.label == label).map(|record| record.version)
    }

    /// The label of the current version, where it has one.
    pub(crate) fn current_label(&self) -> Option<u64> {
        self.labels.last().filter(|record| record.version == self.current).map(|record| record.label)
    }

    /// What is wrong with a clock that came from disk, if anything is.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let ordered = self.lineage.iter().all(|interval| interval.first <= interval.last);
        let apart = self.lineage.windows(2).all(|pair| matches!(pair, [a, b] if a.last < b.first));
        if !ordered || !apart {
            return Some("a lineage that is not ascending");
        }
        if self.lineage.last().map(|interval| interval.last) != Some(self.current) {
            return Some("a lineage that does not end at the current version");
        }
        if self.next <= self.current {
            return Some("a next version that was issued before");
        }
        (self.labels.len() > LABELS_KEPT).then_some("more labels than are kept")
    }

    fn issue(&mut self) -> u64 {
        self.current = self.next;
        self.next = self.next.saturating_add(1);
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_clock_stands_at_version_zero() {
        let clock = VersionClock::new();
        assert_eq!((clock.current, clock.lag(0), clock.lag(1)), (0, Some(0), None));
        assert!(clock.contains(0) && !clock.contains(1));
        assert_eq!(clock.defect(), None);
    }

    #[test]
    fn lag_counts_advances_across_gaps_in_the_numbers() {
        let mut clock = VersionClock::new();
        clock.follow(1, None);
        clock.follow(100, None);
        clock.follow(101, None);
        assert_eq!(clock.lineage.len(), 2, "adjacent versions share an interval");
        let lags = [101, 100, 1, 0].map(|version| clock.lag(version));
        assert_eq!(lags, [Some(0), Some(1), Some(2), Some(3)]);
        for skipped in [2, 99, 102, u64::MAX] {
            assert_eq!(clock.lag(skipped), None, "version {skipped} was never issued");
            assert!(!clock.contains(skipped), "version {skipped} was never issued");
        }
        assert_eq!(clock.defect(), None);
    }

    #[test]
    fn a_restart_leaves_no_ancestor_and_no_label() {
        let mut clock = VersionClock::new();
        clock.follow(1, Some(7));
        clock.restart(2);
        assert_eq!((clock.lag(2), clock.lag(1), clock.lag(0)), (Some(0), None, None));
        assert_eq!((clock.version_of(7), clock.current_label()), (None, None));
        clock.follow(3, None);
        assert_eq!(clock.lag(2), Some(1));
    }

    #[test]
    fn a_label_names_the_version_that_it_was_last_given_to() {
        let mut clock = VersionClock::new();
        clock.follow(1, Some(10));
        clock.follow(2, Some(10));
        assert_eq!((clock.version_of(10), clock.current_label()), (Some(2), Some(10)));
        clock.follow(3, None);
        assert_eq!((clock.version_of(10), clock.current_label()), (Some(2), None));
    }

    #[test]
    fn only_the_newest_labels_stay() {
        let mut clock = VersionClock::new();
        for label in 0..=4096 {
            clock.follow(label + 1, Some(label));
        }
        assert_eq!(clock.labels.len(), LABELS_KEPT);
        assert_eq!((clock.version_of(0), clock.version_of(1)), (None, Some(2)));
    }

    #[test]
    fn a_clock_that_contradicts_itself_has_a_defect() {
        let sound = VersionClock::new();
        let interval = |first, last| VersionInterval { first, last };
        let broken = [
            VersionClock { lineage: Vec::new(), ..sound.clone() },
            VersionClock { lineage: vec![interval(1, 0)], ..sound.clone() },
            VersionClock { lineage: vec![interval(0, 0), interval(0, 0)], ..sound.clone() },
            VersionClock { current: 1, next: 2, ..sound.clone() },
            VersionClock { next: 0, ..sound },
        ];
        for clock in broken {
            assert!(clock.defect().is_some(), "{clock:?}");
        }
    }
}
