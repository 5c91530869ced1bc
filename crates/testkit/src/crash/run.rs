//! One run of a workload, and what it acknowledged.

use std::sync::Arc;

use rollstore::RolloutStore;
use rollstore::disk::sim::SimDisk;

use crate::state::StoreState;
use crate::store::{self, DIR};

/// One run of a workload.
#[derive(Debug)]
pub struct Run {
    pub(super) disk: SimDisk,
    pub(super) acknowledged: usize,
    /// Where states are learned: the one after each acknowledgement.
    pub(super) states: Option<Vec<StoreState>>,
}

impl Run {
    pub(super) fn new(disk: SimDisk, learns_states: bool) -> Self {
        Self { disk, acknowledged: 0, states: learns_states.then(Vec::new) }
    }

    /// The disk to work on.
    #[must_use]
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As for [`rollstore::Options::open`].
    pub fn open(&self) -> rollstore::Result<RolloutStore> {
        store::open(&self.disk)
    }

    /// What was asked for returned Ok: from here on the store's present state must survive.
    ///
    /// # Errors
    /// What reading the store met.
    pub fn acknowledge(&mut self, store: &RolloutStore) -> rollstore::Result<()> {
        self.acknowledged += 1;
        if let Some(states) = &mut self.states {
            states.push(StoreState::of(store)?);
        }
        Ok(())
    }

    /// The same while the store is not open.
    ///
    /// # Errors
    /// What opening and reading the store met.
    pub fn acknowledge_closed(&mut self) -> rollstore::Result<()> {
        self.acknowledged += 1;
        if let Some(states) = &mut self.states {
            let disk = Arc::new(self.disk.clone());
            states.push(StoreState::of(&store::options(disk).read_only(true).open(DIR)?)?);
        }
        Ok(())
    }
}
