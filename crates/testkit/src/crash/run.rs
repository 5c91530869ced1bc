//! One run of a workload, and what it acknowledged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Lsn, RolloutStore};

use crate::bytes;
use crate::state::StoreState;
use crate::store::{self, DIR};

/// The highest numbers that a store came to, abandoned futures included: none of them may be given again (D9).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) lsn: Lsn,
    pub(super) ref_version: u64,
    pub(super) kl_version: u64,
    pub(super) segment: u64,
}

impl Numbers {
    fn of(store: &RolloutStore, disk: &SimDisk) -> rollstore::Result<Self> {
        let stats = store.stats()?;
        Ok(Self {
            lsn: stats.last_lsn,
            ref_version: stats.ref_version,
            kl_version: stats.kl_ref_version,
            segment: last_segment(disk),
        })
    }

    /// Those that a state tells of; others may be higher.
    pub(super) fn seen_in(state: &StoreState) -> Self {
        let lsn = state.rollouts.values().map(|rollout| rollout.insert_lsn).max().unwrap_or(Lsn::NONE);
        Self { lsn, ref_version: state.ref_version, kl_version: state.kl_ref_version, segment: 0 }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self {
            lsn: self.lsn.max(other.lsn),
            ref_version: self.ref_version.max(other.ref_version),
            kl_version: self.kl_version.max(other.kl_version),
            segment: self.segment.max(other.segment),
        }
    }
}

/// The highest segment number in the store's directory; 0 where there is none.
pub(super) fn last_segment(disk: &SimDisk) -> u64 {
    let number = |path: PathBuf| path.file_stem()?.to_str()?.strip_prefix("seg-")?.parse().ok();
    bytes::segments(disk, DIR).pop().and_then(number).unwrap_or(0)
}

/// One run of a workload.
#[derive(Debug)]
pub struct Run {
    pub(super) disk: SimDisk,
    pub(super) acknowledged: usize,
    /// How many of those were known to be durable when the run last looked.
    pub(super) durable: usize,
    /// The last LSN of each acknowledged state.
    lsns: Vec<Lsn>,
    pub(super) saved: usize,
    pub(super) first_point: u64,
    learns: bool,
    /// Where states are learned: the one after each acknowledgement.
    pub(super) states: Vec<StoreState>,
    /// And that of each checkpoint.
    pub(super) saved_states: Vec<StoreState>,
    /// The highest numbers until each acknowledgement.
    pub(super) numbers: Vec<Numbers>,
}

impl Run {
    pub(super) fn new(disk: SimDisk, learns: bool) -> Self {
        let (states, saved_states, numbers) = Default::default();
        let (acknowledged, durable, lsns) = Default::default();
        Self { disk, acknowledged, durable, lsns, saved: 0, first_point: 0, learns, states, saved_states, numbers }
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
        store::open_in_turn(&self.disk)
    }

    /// Opens the store as a Buffered one that syncs when it is told to, or must, and not in the background: every run then
    /// takes the same operations.
    ///
    /// # Errors
    /// As for [`rollstore::Options::open`].
    pub fn open_buffered(&self) -> rollstore::Result<RolloutStore> {
        store::open_buffered_in_turn(&self.disk)
    }

    /// Whether this is the run without faults whose states are taken down: others need not compute what they compare.
    #[must_use]
    pub fn learns(&self) -> bool {
        self.learns
    }

    /// The power is cut from here on alone: what lies before is looked at elsewhere.
    pub fn cut_from_here(&mut self) {
        self.first_point = self.disk.operation_count();
    }

    /// What was asked for returned Ok: from here on the store's present state must survive a kill, and a power cut once it is
    /// durable, which in a Synced store it is.
    ///
    /// # Errors
    /// What reading the store met.
    pub fn acknowledge(&mut self, store: &RolloutStore) -> rollstore::Result<()> {
        self.acknowledged += 1;
        self.lsns.push(store.stats()?.last_lsn);
        self.look_what_is_durable(store);
        if self.learns {
            self.learn(store)?;
        }
        Ok(())
    }

    /// From here on what the store calls durable must survive a power cut.
    pub fn look_what_is_durable(&mut self, store: &RolloutStore) {
        let durable = store.durable_lsn();
        self.durable = self.lsns.partition_point(|lsn| *lsn <= durable);
    }

    /// The same while the store is not open.
    ///
    /// # Errors
    /// What opening and reading the store met.
    pub fn acknowledge_closed(&mut self) -> rollstore::Result<()> {
        self.acknowledged += 1;
        // What closed is durable, whatever its LSN.
        self.lsns.push(self.lsns.last().copied().unwrap_or(Lsn::NONE));
        self.durable = self.acknowledged;
        if self.learns {
            let disk = Arc::new(self.disk.clone());
            self.learn(&store::options(disk).read_only(true).open(DIR)?)?;
        }
        Ok(())
    }

    fn learn(&mut self, store: &RolloutStore) -> rollstore::Result<()> {
        self.states.push(StoreState::of(store)?);
        let before = self.numbers.last().copied().unwrap_or_default();
        self.numbers.push(before.max(Numbers::of(store, &self.disk)?));
        Ok(())
    }

    /// Writes a checkpoint of the store's present state, which must be there and complete from then on.
    ///
    /// # Errors
    /// As for [`RolloutStore::checkpoint`], and what reading the store met.
    pub fn save(&mut self, store: &RolloutStore, path: impl AsRef<Path>) -> rollstore::Result<()> {
        store.checkpoint(path)?;
        self.saved += 1;
        if self.learns {
            self.saved_states.push(StoreState::of(store)?);
        }
        Ok(())
    }
}
