//! Counts over a range that nobody knows beforehand, in a bounded number of bins.
//!
//! Pure.
//!
//! Always true:
//! - B1. There are at most `limit` bins, all of one width, which is a power of two.
//! - B2. Nothing that was added is lost: bins are only merged.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

/// Values by where they lie. Bins without any are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram<K, T> {
    /// The width of every bin.
    pub width: K,
    /// The bins that hold something, ascending.
    pub bins: Vec<Bin<K, T>>,
}

/// One bin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bin<K, T> {
    /// Where it begins: it goes up to here plus the width, not included.
    pub from: K,
    /// What it holds.
    #[serde(flatten)]
    pub value: T,
}

/// Bins that are still being filled.
#[derive(Debug)]
pub(super) struct Bins<T> {
    limit: i64,
    /// The width of a bin, as a power of two.
    shift: u32,
    filled: BTreeMap<i64, T>,
}

impl<T: Default + Clone + AddAssign> Bins<T> {
    /// Bins of width 1, which become wider when more than `limit` would be needed.
    pub(super) fn new(limit: u32) -> Self {
        Self { limit: limit.into(), shift: 0, filled: BTreeMap::new() }
    }

    /// Adds to the bin that `key` belongs into.
    pub(super) fn add(&mut self, key: i64, value: T) {
        *self.filled.entry(key >> self.shift).or_default() += value;
        while self.span() > self.limit {
            self.shift += 1;
            for (bin, value) in std::mem::take(&mut self.filled) {
                *self.filled.entry(bin >> 1).or_default() += value;
            }
        }
    }

    /// Bins from the first to the last, the empty ones between them included.
    fn span(&self) -> i64 {
        let ends = self.filled.first_key_value().zip(self.filled.last_key_value());
        ends.map_or(0, |((first, _), (last, _))| last.saturating_sub(*first).saturating_add(1))
    }

    /// The same in fewer bins.
    pub(super) fn coarser(&self, limit: u32) -> Self {
        let mut coarser = Self { limit: limit.into(), shift: self.shift, filled: BTreeMap::new() };
        self.filled.iter().for_each(|(bin, value)| coarser.add(bin << self.shift, value.clone()));
        coarser
    }

    pub(super) fn width(&self) -> u64 {
        1 << self.shift
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.filled.values()
    }

    /// The histogram of keys that are whole numbers from 0 on.
    pub(super) fn whole(self) -> Histogram<u64, T> {
        let (width, shift) = (self.width(), self.shift);
        let bin = |(bin, value): (i64, T)| Bin { from: u64::try_from(bin).unwrap_or_default() << shift, value };
        Histogram { width, bins: self.filled.into_iter().map(bin).collect() }
    }

    /// The histogram of keys that stand for so many parts of 1 each.
    #[expect(clippy::cast_precision_loss, reason = "a difference of log-probs in parts has far fewer than 52 bits")]
    pub(super) fn parts(self, parts: f64) -> Histogram<f64, T> {
        let (width, shift) = (self.width() as f64 / parts, self.shift);
        let bin = |(bin, value): (i64, T)| Bin { from: (bin << shift) as f64 / parts, value };
        Histogram { width, bins: self.filled.into_iter().map(bin).collect() }
    }
}

/// A whole number as a key. What is beyond half of their range shares the last place.
pub(super) fn key(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen_and_nothing_is_lost() {
        let mut bins = Bins::new(4);
        (0..9).for_each(|key| bins.add(key, 1_u64));
        let expected = [(0, 4), (4, 4), (8, 1)].map(|(from, value)| Bin { from, value }).to_vec();
        assert_eq!(bins.whole(), Histogram { width: 4, bins: expected });
    }

    #[test]
    fn bins_below_zero_are_as_wide_as_those_above() {
        let mut bins = Bins::new(2);
        [-3, -1, 0, 3].into_iter().for_each(|key| bins.add(key, 1_u64));
        let expected = [(-1.0, 2), (0.0, 2)].map(|(from, value)| Bin { from, value }).to_vec();
        assert_eq!(bins.parts(4.0), Histogram { width: 1.0, bins: expected });
    }

    #[test]
    fn the_widest_range_that_numbers_have_is_taken() {
        let mut bins = Bins::new(8);
        [i64::MIN, 0, i64::MAX].into_iter().for_each(|key| bins.add(key, 1_u64));
        assert_eq!(bins.values().sum::<u64>(), 3);
        assert!(bins.coarser(2).span() <= 2);
    }
}
