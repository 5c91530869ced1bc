//! Which rows differ from those on disk: a list of ids, or, once it would grow too long, the word that all may.
//!
//! May touch `ids`. Pure.
//!
//! Always true:
//! - C1. The list holds at most [`INDEX_CHANGES_TRACKED_MAX`] ids, however long no flush succeeds.

use std::collections::HashSet;

use super::hash::BuildIdHasher;
use crate::ids::RolloutId;
use crate::limits::INDEX_CHANGES_TRACKED_MAX;

/// The rows that the next flush has to write.
#[derive(Debug)]
pub(super) enum Changed {
    /// These, and no others.
    Some(HashSet<RolloutId, BuildIdHasher>),
    /// Any: the file is to be made anew. So many changes were not noted.
    Any { count: usize },
}

impl Default for Changed {
    fn default() -> Self {
        Self::Some(HashSet::default())
    }
}

impl Changed {
    /// A row changed.
    pub(super) fn note(&mut self, id: RolloutId) {
        match self {
            Self::Some(ids) if ids.len() >= INDEX_CHANGES_TRACKED_MAX => *self = Self::Any { count: ids.len() },
            Self::Some(ids) => drop(ids.insert(id)),
            Self::Any { count } => *count = count.saturating_add(1),
        }
    }

    /// Rows that changed; where they are not listed, changes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Some(ids) => ids.len(),
            Self::Any { count } => *count,
        }
    }

    /// Ids that the list has memory for.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Some(ids) => ids.capacity(),
            Self::Any { .. } => 0,
        }
    }

    /// Takes the list; `None` where there is none.
    pub(super) fn take(&mut self) -> Option<Vec<RolloutId>> {
        match self {
            Self::Some(ids) => Some(std::mem::take(ids).into_iter().collect()),
            Self::Any { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_a_list_that_no_one_takes_ends_at_its_limit() {
        let mut changed = Changed::default();
        let limit = INDEX_CHANGES_TRACKED_MAX as u64;
        (0..limit).for_each(|id| changed.note(RolloutId::new(id)));
        (0..limit).for_each(|id| changed.note(RolloutId::new(id)));
        assert!(matches!(changed, Changed::Any { .. }), "one id more than the limit, or the same again, ends it");
        assert_eq!(changed.take(), None);
        let before = changed.len();
        changed.note(RolloutId::new(1));
        assert_eq!(changed.len(), before + 1, "changes still count, so that a flush comes");
    }

    #[test]
    fn a_list_tells_each_id_once_and_begins_anew() {
        let mut changed = Changed::default();
        for id in [3, 1, 3, 2, 1] {
            changed.note(RolloutId::new(id));
        }
        assert_eq!(changed.len(), 3);
        let mut taken = changed.take().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3].map(RolloutId::new));
        assert_eq!((changed.len(), changed.take()), (0, Some(Vec::new())));
    }
}
