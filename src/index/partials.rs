//! Rollouts that are still being generated: their pieces, and where those lie.
//!
//! May touch `ids` and `format::entry`. They are no rollouts yet: no scan, list or count of rollouts sees them.
//!
//! Always true:
//! - P1. The same pieces, told in any order and any number of times, give the same table.
//! - P2. Of an id the pieces of one incarnation are held: the newest that was told.
//! - P3. A piece told at two places is held at the one in the newer segment.

use std::collections::BTreeMap;

use super::live::LiveUnits;
use super::memory::MemoryIndex;
use crate::format::entry::FrameEntry;
use crate::ids::{Location, Lsn, RolloutId, SegmentId};

/// A piece and the segment that it lies in.
pub(crate) type Piece = (SegmentId, FrameEntry);

/// A run of tokens and the sampler's version that made them.
type Span = (u64, u32);

/// What is there of one rollout that is still being generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partial {
    /// Ascending by number; at least one.
    pieces: Vec<Piece>,
}

impl Partial {
    /// The number of the first piece: the incarnation.
    pub(crate) fn begin_lsn(&self) -> Lsn {
        self.pieces.first().map_or(Lsn::NONE, |(_, piece)| piece.insert_lsn)
    }

    /// The number of the last piece.
    pub(crate) fn last_lsn(&self) -> Lsn {
        self.pieces.last().map_or(Lsn::NONE, |(_, piece)| piece.lsn)
    }

    pub(crate) fn created_step(&self) -> u64 {
        self.pieces.first().map_or(0, |(_, piece)| piece.created_step)
    }

    /// The pieces in order. The first one has the prompt and no token of the completion.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Tokens of the prompt.
    pub(crate) fn prompt_len(&self) -> u64 {
        self.first().map_or(0, |(_, piece)| u64::from(piece.token_count))
    }

    /// Tokens of the completion so far.
    pub(crate) fn len(&self) -> u64 {
        self.appended().map(|(_, piece)| u64::from(piece.token_count)).sum()
    }

    /// The sampler's versions with their tokens; neighbours of one version are one.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (_, piece) in self.appended() {
            match spans.last_mut().filter(|(version, _)| *version == piece.kl_version) {
                Some((_, count)) => *count = count.saturating_add(piece.token_count),
                None => spans.push((piece.kl_version, piece.token_count)),
            }
        }
        spans
    }

    /// The first piece in front of which another one is missing, and the tokens that there are in front of it.
    pub(crate) fn gap(&self) -> Option<(Piece, u64)> {
        if self.first().is_none() {
            return self.pieces.first().map(|piece| (*piece, 0));
        }
        let mut tokens = 0;
        for piece in self.appended() {
            if piece.1.ref_version != tokens {
                return Some((*piece, tokens));
            }
            tokens += u64::from(piece.1.token_count);
        }
        None
    }

    fn first(&self) -> Option<&Piece> {
        self.pieces.first().filter(|(_, piece)| piece.lsn == piece.insert_lsn)
    }

    fn appended(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(|(_, piece)| piece.lsn != piece.insert_lsn)
    }

    fn find(&self, lsn: Lsn) -> Result<usize, usize> {
        self.pieces.binary_search_by_key(&lsn, |(_, piece)| piece.lsn)
    }
}

/// Every rollout that is still being generated.
#[derive(Debug, Default)]
pub(crate) struct Partials(BTreeMap<RolloutId, Partial>);

impl Partials {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, id: RolloutId) -> Option<&Partial> {
        self.0.get(&id)
    }

    /// All of them, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RolloutId, &Partial)> {
        self.0.iter().map(|(id, partial)| (*id, partial))
    }

    /// Every piece, in no order that matters.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.0.values().flat_map(|partial| &partial.pieces)
    }

    /// Bytes that the pieces take, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let held = |partial: &Partial| partial.pieces.capacity() * size_of::<Piece>();
        self.0.values().map(held).sum::<usize>() + self.0.len() * size_of::<(RolloutId, Partial)>()
    }

    /// Whether the piece of this number at this place is held.
    pub(super) fn holds(&self, id: RolloutId, at: Location, lsn: Lsn) -> bool {
        let held = self.get(id).and_then(|partial| partial.pieces.get(partial.find(lsn).ok()?));
        held.is_some_and(|(segment, piece)| (*segment, piece.offset_units) == (at.segment, at.offset_units))
    }

    /// Takes in one piece.
    fn apply(&mut self, segment: SegmentId, piece: &FrameEntry, live: &mut LiveUnits) {
        if self.relocate(segment, piece, live) || !self.make_way(piece.id, piece.insert_lsn, live) {
            return;
        }
        let partial = self.0.entry(piece.id).or_insert(Partial { pieces: Vec::new() });
        if let Err(place) = partial.find(piece.lsn) {
            partial.pieces.insert(place, (segment, *piece));
            live.add_frame(segment, piece.frame_units);
        }
    }

    /// Points to a piece at a newer place, if this very piece is held at an older one.
    pub(super) fn relocate(&mut self, segment: SegmentId, piece: &FrameEntry, live: &mut LiveUnits) -> bool {
        let partial = self.0.get_mut(&piece.id).filter(|partial| partial.begin_lsn() == piece.insert_lsn);
        let Some(partial) = partial else { return false };
        let held = partial.find(piece.lsn).ok().and_then(|place| partial.pieces.get_mut(place));
        let Some(held) = held.filter(|(held, _)| *held < segment) else { return false };
        live.remove_frame(held.0, held.1.frame_units);
        live.add_frame(segment, piece.frame_units);
        *held = (segment, *piece);
        true
    }

    /// Makes way for an incarnation of this id: takes out what is held of an older one. False where what is held is newer.
    pub(super) fn make_way(&mut self, id: RolloutId, incarnation: Lsn, live: &mut LiveUnits) -> bool {
        let held = self.get(id).map(Partial::begin_lsn);
        if let Some(older) = held.filter(|held| *held < incarnation) {
            self.end(id, older, live);
        }
        held.is_none_or(|held| held <= incarnation)
    }

    /// Takes out what is held of an id, if it is of this incarnation.
    pub(super) fn end(&mut self, id: RolloutId, begin_lsn: Lsn, live: &mut LiveUnits) -> bool {
        if self.get(id).is_none_or(|partial| partial.begin_lsn() != begin_lsn) {
            return false;
        }
        for (segment, piece) in self.0.remove(&id).into_iter().flat_map(|partial| partial.pieces) {
            live.remove_frame(segment, piece.frame_units);
        }
        true
    }
}

impl MemoryIndex {
    /// Takes in one piece. A rollout that is held under its id is of another incarnation: the newer one stays, also where the
    /// record that ended the older was not told, or was lost to damage.
    pub(super) fn apply_piece(&mut self, segment: SegmentId, piece: &FrameEntry) {
        match self.incarnation(piece.id) {
            Some(rollout) if rollout > piece.insert_lsn => return,
            Some(rollout) => _ = self.retire(piece.id, rollout),
            None => {}
        }
        self.partials.apply(segment, piece, &mut self.live);
    }

    /// Takes out what is held of an id, if it is of this incarnation or an older one.
    pub(crate) fn retire_up_to(&mut self, id: RolloutId, last: Lsn) {
        let held = self.partials.get(id).map(Partial::begin_lsn).or_else(|| self.incarnation(id));
        if let Some(held) = held.filter(|held| *held <= last) {
            self.retire(id, held);
        }
    }
}

#[cfg(test)]
mod tests;
