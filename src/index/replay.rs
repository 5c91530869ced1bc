//! Filling the index from a log that is read in any order.
//!
//! May touch `ids` and `format::entry`. Knows nothing of segments' contents: frames are told to it one by one. Frames
//! of retired rollouts are not told to it: who replays collects the retirements first.
//!
//! Always true:
//! - R1. Any order of the same frames gives the same index: an update that comes before its insert waits for it.

use super::memory::MemoryIndex;
use crate::format::entry::{EntryKind, FrameEntry};
use crate::ids::{Lsn, SegmentId};

/// An index that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    index: MemoryIndex,
    /// Updates whose insert has not come yet. Compaction moves inserts behind their updates, so that there may be many;
    /// those whose rollout is gone never find theirs.
    early: Vec<(SegmentId, FrameEntry)>,
}

impl Replay {
    /// Starts from an index that already holds some of the frames, or from an empty one.
    pub(crate) fn new(index: MemoryIndex) -> Self {
        Self { index, early: Vec::new() }
    }

    /// Takes in one frame, in any order.
    pub(crate) fn apply(&mut self, segment: SegmentId, frame: &FrameEntry) {
        let held = self.index.incarnation(frame.id).unwrap_or(Lsn::NONE);
        let is_update = matches!(frame.kind, EntryKind::OldLogps | EntryKind::KlRefLogps);
        if is_update && frame.insert_lsn > held {
            self.early.push((segment, *frame));
        } else {
            self.index.apply(segment, frame);
        }
    }

    /// A frame that the index this began from already reflects: all that it can tell is a newer place.
    pub(crate) fn relocate(&mut self, segment: SegmentId, frame: &FrameEntry) {
        self.index.relocate(segment, frame);
    }

    /// The index, once every frame was told.
    pub(crate) fn finish(mut self) -> MemoryIndex {
        for (segment, frame) in self.early {
            self.index.apply(segment, &frame);
        }
        self.index
    }
}
