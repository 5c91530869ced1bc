//! The index served from memory: the slab of rollouts, their posting lists, and what frames do to them.
//!
//! May touch `ids` and `format::entry`. Knows neither files nor redb: tells which rows changed, is filled from rows.
//!
//! Always true:
//! - M1. A rollout is in the slab, in one posting list, in the lists of its created step and its group, and, if it needs any,
//!   in `extras`; or in none of them.
//! - M2. A frame of another incarnation than the one held changes nothing, unless it is the insert of a newer one.
//! - M3. A frame told at two places is held at the one in the newer segment, in whichever order they are told.
//! - M4. Every id whose row differs from what was told last is in `changed`, or `changed` says that any may.
//! - M5. `live` is the sum over the rows and pieces as they are now: whatever changes one takes it out before and adds it after.
//! - M6. Of an id a rollout is held or pieces of one that is still being generated, never both: the newer incarnation.
//! - M7. `asked` of a slot in use is of the rollout in it: it is clear when a rollout takes the slot.

use std::cmp::Ordering as CmpOrdering;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use super::asked::Asked;
use super::changed::Changed;
use super::entry::{Entry, Extra, FirstOld, KlEntry};
use super::frame_size::FrameSizes;
use super::hash::BuildIdHasher;
use super::keyed::{Keyed, NO_LIST};
use super::live::LiveUnits;
use super::partials::Partials;
use super::postings::{Place, PostingList, Postings};
use super::row::Row;
use super::slab::{Slab, Slot, bits};
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::planted::{Bug, planted};

/// The index of all live rollouts.
#[derive(Debug, Default)]
pub(crate) struct MemoryIndex {
    slab: Slab,
    extras: HashMap<u32, Extra, BuildIdHasher>,
    postings: Postings,
    by_created: Keyed,
    by_group: Keyed,
    /// What is still being generated: no row, and in none of the lists above.
    pub(crate) partials: Partials,
    pub(super) live: LiveUnits,
    changed: Changed,
    /// Rollouts asked for since the index was made, whether a tally told of it or not.
    asked: Asked,
    token_total: u64,
    touched: AtomicU64,
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
        self.find(id).map(|slot| self.entry(slot))
    }

    /// The slot of a live rollout: good until the index changes.
    pub(crate) fn find(&self, id: RolloutId) -> Option<u32> {
        self.slab.find(id)
    }

    /// What is known of a live rollout beside its entry, where there is anything.
    pub(crate) fn extra(&self, id: RolloutId) -> Option<&Extra> {
        self.extras.get(&self.find(id)?)
    }

    /// Where the insert and the newest old logps of the rollout at a slot lie.
    pub(crate) fn frames_at(&self, slot: u32) -> (Location, Location) {
        (self.slab.slot(slot).insert, self.slab.slot(slot).old)
    }

    /// What is known of the rollout at a slot, all of it.
    pub(crate) fn at_slot(&self, slot: u32) -> (Entry, Extra) {
        (self.entry(slot), self.extras.get(&slot).copied().unwrap_or_default())
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
            EntryKind::Piece => return self.apply_piece(segment, frame),
        };
        if changed {
            self.changed.note(frame.id);
        }
    }

    /// Takes out a rollout, or the pieces of one, if they are of this incarnation. Returns what was known of a rollout.
    pub(crate) fn retire(&mut self, id: RolloutId, insert_lsn: Lsn) -> Option<Entry> {
        if self.partials.end(id, insert_lsn, &mut self.live) {
            return None;
        }
        let slot = self.find_incarnation(id, insert_lsn)?;
        let entry = self.entry(slot);
        self.remove(slot);
        self.changed.note(id);
        self.give_back();
        Some(entry)
    }

    /// Takes out every rollout that was created below a step and inserted before a number. O(result).
    pub(crate) fn retire_created_before(&mut self, created_before: u64, lsn: Lsn) {
        let slots = self.by_created.below(created_before, |slot| self.slab.slot(slot).created);
        // The last ones first: each is then most often the last in its lists, where no other takes its place.
        for slot in slots.into_iter().rev() {
            let Slot { id, insert_lsn, .. } = *self.slab.slot(slot);
            if insert_lsn < lsn {
                self.remove(slot);
                self.changed.note(id);
            }
        }
        self.give_back();
    }

    /// Bytes of memory that the index takes, as far as its own tables tell. Looks at each list once.
    pub(crate) fn memory_bytes(&self) -> u64 {
        const EXTRA_BYTES: usize = size_of::<(u32, Extra)>() + 1;
        let bytes = self.slab.memory_bytes()
            + self.postings.memory_bytes()
            + self.by_created.memory_bytes()
            + self.by_group.memory_bytes()
            + self.partials.memory_bytes()
            + self.asked.memory_bytes()
            + self.extras.capacity() * EXTRA_BYTES
            + self.changed.capacity() * (size_of::<RolloutId>() + 1);
        bytes as u64
    }

    /// Bytes of the frames in a segment that are held, within half of a percent.
    pub(crate) fn live_bytes(&self, segment: SegmentId) -> u64 {
        self.live.of(segment) * Location::UNIT_BYTES
    }

    /// Bytes of all frames that are held, within half of a percent.
    pub(crate) fn live_bytes_total(&self) -> u64 {
        self.live.total() * Location::UNIT_BYTES
    }

    /// Points to a frame at a place where it was written again, if this very frame is held at an older place: a rollout
    /// that was retired, replaced or computed again meanwhile stays as it is.
    pub(crate) fn relocate(&mut self, segment: SegmentId, frame: &FrameEntry) -> bool {
        if frame.kind == EntryKind::Piece {
            return self.partials.relocate(segment, frame, &mut self.live);
        }
        let at = Location { segment, offset_units: frame.offset_units };
        let Some(slot) = self.find_incarnation(frame.id, frame.insert_lsn) else { return false };
        let moved = self.change(slot, |index| index.move_frame(slot, at, frame.lsn));
        if moved {
            self.changed.note(frame.id);
        }
        moved
    }

    /// Whether the frame of this number at this place is held.
    pub(crate) fn holds(&self, id: RolloutId, at: Location, lsn: Lsn) -> bool {
        let slot = self.slab.find(id);
        slot.is_some_and(|slot| self.row(slot).frames().any(|frame| frame == (at, lsn)))
            || self.partials.holds(id, at, lsn)
    }

    /// Whether the rollout at a slot was asked for, by now or in an earlier life of the store.
    pub(crate) fn is_asked_at(&self, slot: u32) -> bool {
        self.asked.contains(slot) || self.slab.slot(slot).has().contains(Has::USED)
    }

    /// Whether an incarnation was asked for, likewise.
    pub(crate) fn is_asked(&self, id: RolloutId, insert_lsn: Lsn) -> bool {
        self.find_incarnation(id, insert_lsn).is_some_and(|slot| self.is_asked_at(slot))
    }

    /// Notes that an incarnation was asked for, which a tally is still to tell. Returns whether that was news. Its row
    /// stays as it is: the log knows of no use yet.
    pub(crate) fn ask(&self, id: RolloutId, insert_lsn: Lsn) -> bool {
        let slot = self.find_incarnation(id, insert_lsn).filter(|slot| !self.is_asked_at(*slot));
        slot.is_some_and(|slot| self.asked.set(slot))
    }

    /// Notes that a tally tells of a use, if the rollout's incarnation is below `before`. Returns whether that was news.
    pub(crate) fn mark_used(&mut self, id: RolloutId, before: Lsn) -> bool {
        let slot = self.slab.find(id).filter(|slot| self.slab.slot(*slot).insert_lsn < before);
        let news = slot.is_some_and(|slot| self.add_used(slot));
        if news {
            self.changed.note(id);
        }
        news
    }

    /// Makes room for so many rows more.
    pub(super) fn reserve(&mut self, count: usize) {
        self.slab.reserve(count);
    }

    /// Takes in a row from disk, whose id is not here yet. It is no change.
    pub(super) fn load(&mut self, row: &Row) {
        self.put(row);
    }

    /// The rollout at a slot and its incarnation.
    pub(crate) fn incarnation_at(&self, slot: u32) -> (RolloutId, Lsn) {
        (self.slab.slot(slot).id, self.slab.slot(slot).insert_lsn)
    }

    /// The incarnation that is held of a rollout.
    pub(crate) fn incarnation(&self, id: RolloutId) -> Option<Lsn> {
        self.slab.find(id).map(|slot| self.slab.slot(slot).insert_lsn)
    }

    fn insert(&mut self, at: Location, frame: &FrameEntry) -> bool {
        if !self.partials.make_way(frame.id, frame.lsn, &mut self.live) {
            return false;
        }
        if let Some(slot) = self.slab.find(frame.id) {
            match self.slab.slot(slot).insert_lsn.cmp(&frame.lsn) {
                CmpOrdering::Greater => return false,
                CmpOrdering::Equal => {
                    // A copy by compaction may tell of a use that its source does not.
                    let used = frame.has.contains(Has::USED) && self.add_used(slot);
                    return self.change(slot, |index| index.move_frame(slot, at, frame.lsn)) || used;
                }
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
        let moved = self.change(slot, |index| {
            let newer = match frame.kind {
                EntryKind::KlRefLogps => index.update_kl(slot, at, frame),
                _ => index.update_old(slot, at, frame),
            };
            index.move_frame(slot, at, frame.lsn) || newer
        });
        used || moved
    }

    /// Changes which frames a rollout's row points to.
    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = self.row(slot);
        let changed = change(self);
        if changed {
            self.live.remove(&before);
            let after = self.row(slot);
            self.live.add(&after);
        }
        changed
    }

    /// Points to a frame where it was written again: compaction copies what is alive, and recovery what no one attests, to a
    /// newer segment. True where an older place was held.
    fn move_frame(&mut self, slot: u32, at: Location, lsn: Lsn) -> bool {
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
        let Slot { old_lsn, sizes, .. } = *self.slab.slot(slot);
        let has = self.slab.slot(slot).has();
        let first = match self.extras.get(&slot).and_then(|extra| extra.first_old) {
            Some(first) => frame.lsn < first.lsn,
            None => old_lsn == Lsn::NONE && !has.contains(Has::SAMPLER),
        };
        if first {
            self.extras.entry(slot).or_default().first_old =
                Some(FirstOld { at, lsn: frame.lsn, units: frame.frame_units });
        }
        let newest = frame.lsn > old_lsn;
        if newest {
            let entry = self.slab.slot_mut(slot);
            (entry.old, entry.old_lsn) = (at, frame.lsn);
            entry.sizes = FrameSizes::new(sizes.insert_units(), frame.frame_units);
            entry.add_has(Has::OLD);
            self.relist(slot, frame.ref_version, frame.born_step);
        }
        first || newest
    }

    fn update_kl(&mut self, slot: u32, at: Location, frame: &FrameEntry) -> bool {
        let kl = &mut self.extras.entry(slot).or_default().kl;
        let newest = kl.is_none_or(|kl| frame.lsn > kl.lsn);
        if newest {
            *kl = Some(KlEntry { at, lsn: frame.lsn, units: frame.frame_units, version: frame.kl_version });
            self.slab.slot_mut(slot).add_has(Has::KL_REF);
        }
        newest
    }

    fn add_used(&mut self, slot: u32) -> bool {
        let entry = self.slab.slot_mut(slot);
        let news = !entry.has().contains(Has::USED);
        entry.add_has(Has::USED);
        news
    }

    fn put(&mut self, row: &Row) -> u32 {
        let Row { entry, extra } = row;
        let Entry { id, insert, old, insert_lsn, old_lsn, token_count, .. } = *entry;
        let place = self.postings.add(entry.ref_version, entry.born_step, id);
        let sizes = FrameSizes::new(entry.insert_units, entry.old_units);
        let (created, group, has) = (NO_LIST, NO_LIST, bits(entry.has));
        let new = Slot { id, insert, old, insert_lsn, old_lsn, token_count, place, created, group, sizes, has };
        let slot = self.slab.add(new);
        self.asked.clear(slot);
        let created = self.by_created.add(entry.created_step, slot);
        let group = entry.group.map_or(NO_LIST, |group| self.by_group.add(group, slot));
        let added = self.slab.slot_mut(slot);
        (added.created, added.group) = (created, group);
        if !extra.is_empty() {
            self.extras.insert(slot, *extra);
        }
        self.live.add(row);
        self.token_total += u64::from(token_count);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let Slot { token_count, place, created, group, .. } = *self.slab.slot(slot);
        let row = self.row(slot);
        self.live.remove(&row);
        self.slab.remove(slot);
        self.by_created.remove(created, slot, |slot| self.slab.slot(slot).created);
        self.by_group.remove(group, slot, |slot| self.slab.slot(slot).group);
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

    fn find_incarnation(&self, id: RolloutId, insert_lsn: Lsn) -> Option<u32> {
        let same = |slot: &u32| self.slab.slot(*slot).insert_lsn == insert_lsn || planted(Bug::IgnoreIncarnation);
        self.slab.find(id).filter(same)
    }

    /// What is known of the rollout at a slot but for its extras. Inlined: who asks for a few fields reads no others.
    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> Entry {
        let Slot { id, insert, old, insert_lsn, old_lsn, token_count, place, created, group, sizes, .. } =
            *self.slab.slot(slot);
        let PostingList { ref_version, born_step, .. } = *self.postings.list(place.list);
        Entry {
            id,
            insert,
            old,
            insert_lsn,
            old_lsn,
            created_step: self.by_created.key(created).unwrap_or_default(),
            born_step,
            ref_version,
            token_count,
            insert_units: sizes.insert_units(),
            old_units: sizes.old_units(),
            group: self.by_group.key(group),
            has: self.slab.slot(slot).has(),
        }
    }

    /// Gives memory back once most of it stands free.
    fn give_back(&mut self) {
        /// Fewer slots than this are kept whatever stands free.
        const KEPT: usize = 4096;
        if self.slab.capacity() <= KEPT.max(self.slab.len() * 4) {
            return;
        }
        let rows: Vec<(Row, bool)> = self.slab.iter().map(|slot| (self.row(slot), self.asked.contains(slot))).collect();
        let kept = Self {
            partials: std::mem::take(&mut self.partials),
            changed: std::mem::take(&mut self.changed),
            touched: AtomicU64::new(self.touched()),
            ..Self::default()
        };
        *self = kept;
        for (row, is_asked) in &rows {
            let slot = self.put(row);
            if *is_asked {
                self.asked.set(slot);
            }
        }
        self.partials.pieces().for_each(|(segment, piece)| self.live.add_frame(*segment, piece.frame_units));
    }

    fn row(&self, slot: u32) -> Row {
        Row { entry: self.entry(slot), extra: self.extras.get(&slot).copied().unwrap_or_default() }
    }
}

mod flushed;
mod scans;
pub(crate) use flushed::Changes;

#[cfg(test)]
mod tests;
