//! The index served from memory: the slab of rollouts, their posting lists, and what frames do to them.
//!
//! May touch `ids` and `format::entry`. Knows neither files nor redb: tells which rows changed, is filled from rows.
//!
//! Always true:
//! - M1. A rollout is in the slab, in one posting list, and, if it needs any, in `extras`; or in none of them.
//! - M2. A frame of another incarnation than the one held changes nothing, unless it is the insert of a newer one.
//! - M3. A frame told at two places is held at the one in the newer segment, in whichever order they are told.
//! - M4. Every id whose row differs from what `take_changes` told last is in `changed`.

use std::cmp::Ordering as CmpOrdering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::{Entry, Extra, FirstOld, KlEntry};
use super::hash::BuildIdHasher;
use super::postings::{Place, PostingList, Postings, in_order};
use super::row::Row;
use super::slab::{Slab, Slot};
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::planted::{Bug, planted};

/// The index of all live rollouts.
#[derive(Debug, Default)]
pub(crate) struct MemoryIndex {
    slab: Slab,
    extras: HashMap<u32, Extra, BuildIdHasher>,
    postings: Postings,
    changed: HashSet<RolloutId, BuildIdHasher>,
    token_total: u64,
    touched: AtomicU64,
}

/// What a flush writes: rows as they are now, and ids that are gone. Each id occurs once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) upserts: Vec<Row>,
    pub(crate) removed: Vec<RolloutId>,
}

impl MemoryIndex {
    /// The number of live rollouts.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The tokens of all live rollouts.
    pub(crate) fn token_total(&self) -> u64 {
        self.token_total
    }

    /// What is known of a live rollout.
    pub(crate) fn get(&self, id: RolloutId) -> Option<Entry> {
        self.slab.find(id).map(|slot| self.entry(slot))
    }

    /// What is known of a live rollout beside its entry, where there is anything.
    pub(crate) fn extra(&self, id: RolloutId) -> Option<&Extra> {
        self.extras.get(&self.slab.find(id)?)
    }

    /// All live rollouts, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.slab.iter().map(|slot| self.entry(slot))
    }

    /// Takes in one frame. Frames may come in any order and more than once, except that an update may not come before
    /// its insert: [`super::Replay`] sees to that where the log is read out of order.
    pub(crate) fn apply(&mut self, segment: SegmentId, frame: &FrameEntry) {
        let at = Location { segment, offset_units: frame.offset_units };
        let changed = match frame.kind {
            EntryKind::Insert => self.insert(at, frame),
            EntryKind::OldLogps | EntryKind::KlRefLogps => self.update(at, frame),
        };
        if changed {
            self.changed.insert(frame.id);
        }
    }

    /// Takes out a rollout, if it is of this incarnation. Returns what was known of it.
    pub(crate) fn retire(&mut self, id: RolloutId, insert_lsn: Lsn) -> Option<Entry> {
        let slot = self.find_incarnation(id, insert_lsn)?;
        let entry = self.entry(slot);
        self.remove(slot);
        self.changed.insert(id);
        Some(entry)
    }

    /// Notes that a rollout was asked for, if its incarnation is below `before`. Returns whether that was news.
    pub(crate) fn mark_used(&mut self, id: RolloutId, before: Lsn) -> bool {
        let slot = self.slab.find(id).filter(|slot| self.slab.slot(*slot).insert_lsn < before);
        let news = slot.is_some_and(|slot| self.add_used(slot));
        if news {
            self.changed.insert(id);
        }
        news
    }

    /// The rollouts born before `born_below`, and those whose version satisfies `stale`: oldest born first, then by id.
    pub(crate) fn select(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> Vec<RolloutId> {
        self.collect(self.postings.select(born_below, stale))
    }

    /// As [`Self::select`], as far as the caller goes on: of those born later than the last one taken it looks at none.
    pub(crate) fn select_lazily(
        &self,
        born_below: Option<u64>,
        stale: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = RolloutId> {
        let mut lists = self.postings.select(born_below, stale).into_iter().peekable();
        let next_born = move || {
            let first = lists.next()?;
            let born_with = |list: &&PostingList| list.born_step == first.born_step;
            let rest: Vec<_> = std::iter::from_fn(|| lists.next_if(born_with)).collect();
            Some(self.collect([first].into_iter().chain(rest)))
        };
        std::iter::from_fn(next_born).flatten()
    }

    /// How many rollouts [`Self::select`] would return. Looks at none of them.
    pub(crate) fn count(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> usize {
        self.postings.select(born_below, stale).iter().map(|list| list.ids.len()).sum()
    }

    /// The rollouts born after `bound`: oldest born first, then by id.
    pub(crate) fn born_above(&self, bound: u64) -> Vec<RolloutId> {
        self.collect(self.postings.born_above(bound))
    }

    /// How many rollouts [`Self::born_above`] would return. Looks at none of them.
    pub(crate) fn count_born_above(&self, bound: u64) -> usize {
        self.postings.born_above(bound).map(|list| list.ids.len()).sum()
    }

    /// The rollouts that scans have looked at so far.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// How many rollouts changed since [`Self::take_changes`].
    pub(crate) fn changes_len(&self) -> usize {
        self.changed.len()
    }

    /// Takes what changed since the last call: whole rows as they are now, however often they changed.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        for id in std::mem::take(&mut self.changed) {
            match self.slab.find(id) {
                Some(slot) => changes.upserts.push(self.row(slot)),
                None => changes.removed.push(id),
            }
        }
        changes
    }

    /// Takes in a row from disk, which is no change. False where a row of this id is here already.
    pub(super) fn load(&mut self, row: &Row) -> bool {
        let new = self.slab.find(row.entry.id).is_none();
        if new {
            self.put(row);
        }
        new
    }

    /// The incarnation that is held of a rollout.
    pub(super) fn incarnation(&self, id: RolloutId) -> Option<Lsn> {
        self.slab.find(id).map(|slot| self.slab.slot(slot).insert_lsn)
    }

    fn insert(&mut self, at: Location, frame: &FrameEntry) -> bool {
        if let Some(slot) = self.slab.find(frame.id) {
            match self.slab.slot(slot).insert_lsn.cmp(&frame.lsn) {
                CmpOrdering::Greater => return false,
                CmpOrdering::Equal => return self.relocate(slot, at, frame.lsn),
                CmpOrdering::Less => self.remove(slot),
            }
        }
        self.put(&Row::of_insert(at, frame));
        true
    }

    fn update(&mut self, at: Location, frame: &FrameEntry) -> bool {
        let Some(slot) = self.find_incarnation(frame.id, frame.insert_lsn) else { return false };
        if frame.lsn <= frame.insert_lsn {
            return false;
        }
        let used = frame.has.contains(Has::USED) && self.add_used(slot);
        let moved = match frame.kind {
            EntryKind::KlRefLogps => self.update_kl(slot, at, frame),
            _ => self.update_old(slot, at, frame),
        };
        self.relocate(slot, at, frame.lsn) || used || moved
    }

    /// Points to a frame where it was written again: recovery copies what no one attests to a newer segment, and cuts
    /// the older one. True where an older place was held.
    fn relocate(&mut self, slot: u32, at: Location, lsn: Lsn) -> bool {
        let is_older = |held: Location, held_lsn: Lsn| held_lsn == lsn && held.segment < at.segment;
        let mut moved = false;
        let entry = self.slab.slot_mut(slot);
        let insert = entry.insert;
        if is_older(insert, entry.insert_lsn) {
            (entry.insert, moved) = (at, true);
            // Where the old logps lie in the insert, or are missing, they go with it.
            entry.old = if entry.old == insert { at } else { entry.old };
        }
        if is_older(entry.old, entry.old_lsn) {
            (entry.old, moved) = (at, true);
        }
        if let Some(extra) = self.extras.get_mut(&slot) {
            if let Some(kl) = extra.kl.as_mut().filter(|kl| is_older(kl.at, kl.lsn)) {
                (kl.at, moved) = (at, true);
            }
            if let Some(first) = extra.first_old.as_mut().filter(|first| is_older(first.at, first.lsn)) {
                (first.at, moved) = (at, true);
            }
        }
        moved
    }

    fn update_old(&mut self, slot: u32, at: Location, frame: &FrameEntry) -> bool {
        let Slot { old_lsn, has, .. } = *self.slab.slot(slot);
        let first = match self.extras.get(&slot).and_then(|extra| extra.first_old) {
            Some(first) => frame.lsn < first.lsn,
            None => old_lsn == Lsn::NONE && !has.contains(Has::SAMPLER),
        };
        if first {
            self.extras.entry(slot).or_default().first_old = Some(FirstOld { at, lsn: frame.lsn });
        }
        let newest = frame.lsn > old_lsn;
        if newest {
            let entry = self.slab.slot_mut(slot);
            (entry.old, entry.old_lsn, entry.has) = (at, frame.lsn, has.with(Has::OLD));
            self.relist(slot, frame.ref_version, frame.born_step);
        }
        first || newest
    }

    fn update_kl(&mut self, slot: u32, at: Location, frame: &FrameEntry) -> bool {
        let kl = &mut self.extras.entry(slot).or_default().kl;
        let newest = kl.is_none_or(|kl| frame.lsn > kl.lsn);
        if newest {
            *kl = Some(KlEntry { at, lsn: frame.lsn, version: frame.kl_version });
            let entry = self.slab.slot_mut(slot);
            entry.has = entry.has.with(Has::KL_REF);
        }
        newest
    }

    fn add_used(&mut self, slot: u32) -> bool {
        let entry = self.slab.slot_mut(slot);
        let news = !entry.has.contains(Has::USED);
        entry.has = entry.has.with(Has::USED);
        news
    }

    fn put(&mut self, Row { entry, extra }: &Row) {
        let Entry { id, insert, old, insert_lsn, old_lsn, created_step, token_count, has, .. } = *entry;
        let place = self.postings.add(entry.ref_version, entry.born_step, id);
        let slot = self.slab.add(Slot { id, insert, old, insert_lsn, old_lsn, created_step, token_count, place, has });
        if !extra.is_empty() {
            self.extras.insert(slot, *extra);
        }
        self.token_total += u64::from(token_count);
    }

    fn remove(&mut self, slot: u32) {
        let Slot { token_count, place, .. } = *self.slab.slot(slot);
        self.slab.remove(slot);
        self.unlist(place);
        self.extras.remove(&slot);
        self.token_total -= u64::from(token_count);
    }

    fn relist(&mut self, slot: u32, ref_version: u64, born_step: u64) {
        let Slot { id, place, .. } = *self.slab.slot(slot);
        let list = self.postings.list(place.list);
        if (list.ref_version, list.born_step) != (ref_version, born_step) {
            self.unlist(place);
            self.slab.slot_mut(slot).place = self.postings.add(ref_version, born_step, id);
        }
    }

    fn unlist(&mut self, place: Place) {
        if let Some(slot) = self.postings.remove(place).and_then(|moved| self.slab.find(moved)) {
            self.slab.slot_mut(slot).place = place;
        }
    }

    fn collect<'a>(&self, lists: impl IntoIterator<Item = &'a PostingList>) -> Vec<RolloutId> {
        let ids = in_order(lists);
        self.touched.fetch_add(ids.len() as u64, Ordering::Relaxed);
        ids
    }

    fn find_incarnation(&self, id: RolloutId, insert_lsn: Lsn) -> Option<u32> {
        let same = |slot: &u32| self.slab.slot(*slot).insert_lsn == insert_lsn || planted(Bug::IgnoreIncarnation);
        self.slab.find(id).filter(same)
    }

    fn entry(&self, slot: u32) -> Entry {
        let Slot { id, insert, old, insert_lsn, old_lsn, created_step, token_count, place, has } =
            *self.slab.slot(slot);
        let PostingList { ref_version, born_step, .. } = *self.postings.list(place.list);
        Entry { id, insert, old, insert_lsn, old_lsn, created_step, born_step, ref_version, token_count, has }
    }

    fn row(&self, slot: u32) -> Row {
        Row { entry: self.entry(slot), extra: self.extras.get(&slot).copied().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests;
