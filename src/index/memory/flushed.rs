//! What the index in memory tells the one on disk.
//!
//! May touch `changed`. Keeps M4 of the room above.

use super::super::changed::Changed;
use super::super::row::Row;
use super::MemoryIndex;
use crate::ids::RolloutId;

/// What a flush writes: rows as they are now, and ids that are gone. Each id occurs once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) upserts: Vec<Row>,
    pub(crate) removed: Vec<RolloutId>,
}

impl MemoryIndex {
    /// How many changes the index on disk does not have.
    pub(crate) fn changes_len(&self) -> usize {
        self.changed.len()
    }

    /// The ids whose rows the index on disk does not have as they are now, each once; from here on others are noted.
    /// `None` where too many changed, or [`Self::forget_changes`] was called: every row is to be written then.
    pub(crate) fn take_changed(&mut self) -> Option<Vec<RolloutId>> {
        self.changed.take()
    }

    /// All ids, for an index on disk that has none yet; from here on changes are noted.
    pub(crate) fn take_all(&mut self) -> Vec<RolloutId> {
        self.changed = Changed::default();
        self.slab.iter().map(|slot| self.slab.slot(slot).id).collect()
    }

    /// There is no index on disk: what changed is not worth its memory.
    pub(crate) fn forget_changes(&mut self) {
        self.changed = Changed::Any { count: 0 };
    }

    /// Whether rows changed that no one noted.
    pub(crate) fn is_any_changed(&self) -> bool {
        matches!(self.changed, Changed::Any { .. })
    }

    /// What a flush writes for these ids: their rows as they are now.
    pub(crate) fn changes_of(&self, ids: &[RolloutId]) -> Changes {
        let mut changes = Changes::default();
        for id in ids {
            match self.slab.find(*id) {
                Some(slot) => changes.upserts.push(self.row(slot)),
                None => changes.removed.push(*id),
            }
        }
        changes
    }

    /// What changed since the last call, in one piece.
    #[cfg(test)]
    pub(crate) fn take_changes(&mut self) -> Changes {
        let ids = self.take_changed().expect("noted");
        self.changes_of(&ids)
    }
}
