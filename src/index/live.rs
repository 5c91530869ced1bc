//! How much of each segment is alive: the frames that the index points to.
//!
//! May touch `ids`. Pure.
//!
//! Always true:
//! - V1. A segment's sum is that of the lengths of the frames held in it, each frame once.

use std::collections::BTreeMap;

use super::row::Row;
use crate::ids::{Location, SegmentId};

/// Live bytes by segment, in 64-byte units; segments without any are not there.
#[derive(Debug, Default)]
pub(super) struct LiveUnits(BTreeMap<SegmentId, u64>);

impl LiveUnits {
    pub(super) fn of(&self, segment: SegmentId) -> u64 {
        self.0.get(&segment).copied().unwrap_or_default()
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The row is held from now on.
    pub(super) fn add(&mut self, row: &Row) {
        frames(row).for_each(|(at, units)| self.add_frame(at.segment, units));
    }

    /// The row, which was added as it is, is held no more.
    pub(super) fn remove(&mut self, row: &Row) {
        frames(row).for_each(|(at, units)| self.remove_frame(at.segment, units));
    }

    /// A frame of this segment is held from now on.
    pub(super) fn add_frame(&mut self, segment: SegmentId, units: u32) {
        *self.0.entry(segment).or_default() += u64::from(units);
    }

    /// A frame of this segment, which was added with so many units, is held no more.
    pub(super) fn remove_frame(&mut self, segment: SegmentId, units: u32) {
        let Some(live) = self.0.get_mut(&segment) else { return };
        *live = live.saturating_sub(u64::from(units));
        if *live == 0 {
            self.0.remove(&segment);
        }
    }
}

/// The frames that a row points to, each once, with their lengths.
fn frames(row: &Row) -> impl Iterator<Item = (Location, u32)> {
    let Row { entry, extra } = row;
    let old = (entry.old != entry.insert).then_some((entry.old, entry.old_units));
    let (insert, old_at) = (entry.insert, entry.old);
    let elsewhere = move |at: Location| at != insert && at != old_at;
    let kl = extra.kl.filter(|kl| elsewhere(kl.at)).map(|kl| (kl.at, kl.units));
    let first_old = extra.first_old.filter(|first| elsewhere(first.at)).map(|first| (first.at, first.units));
    [(entry.insert, entry.insert_units)].into_iter().chain(old).chain(kl).chain(first_old)
}
