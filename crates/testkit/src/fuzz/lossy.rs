//! What a power cut may take back of a Buffered store: commits that it acknowledged and never called durable.

use rollstore::{Lsn, RolloutStore};

use crate::model::Model;

/// States before commits that are not known to be durable, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Lossy(Vec<(Lsn, Model)>);

impl Lossy {
    /// The store acknowledged a commit on top of this state.
    pub(super) fn committed(&mut self, store: &RolloutStore, before: Model) {
        let last = store.stats().unwrap_or_else(|error| panic!("figures: {error}")).last_lsn;
        self.0.push((last, before));
        self.look(store);
    }

    /// Forgets what the store calls durable by now.
    pub(super) fn look(&mut self, store: &RolloutStore) {
        let durable = store.durable_lsn();
        self.0.retain(|(lsn, _)| *lsn > durable);
    }

    /// Everything is durable, or will be before anyone is served again.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// The states that a power cut may leave instead of the last acknowledged one.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Model> {
        std::mem::take(&mut self.0).into_iter().map(|(_, model)| model)
    }
}
