//! Sound stores, made once, whose files a target replaces or changes on a copy.
//!
//! Always true:
//! - A store's history is known: every state that it ever acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rollstore::Reason;
use rollstore::disk::sim::SimDisk;

use crate::bytes;
use crate::state::StoreState;
use crate::store::{self, DIR, ids, recompute_all, rollout};

/// A sound store on a disk of its own.
#[derive(Debug)]
pub(super) struct Planted {
    disk: SimDisk,
    /// What each acknowledged operation left, the last one newest.
    pub(super) history: Vec<StoreState>,
    /// States up to this one cannot be lost by a torn tail: they lie in sealed segments.
    pub(super) settled: usize,
}

/// A store of two sealed segments, closed.
pub(super) static CLOSED: LazyLock<Planted> = LazyLock::new(|| Planted::make(true));

/// A store of one sealed segment, and one that was being written to.
pub(super) static RUNNING: LazyLock<Planted> = LazyLock::new(|| Planted::make(false));

impl Planted {
    fn make(close: bool) -> Self {
        let disk = SimDisk::new();
        let (history, settled) = write(&disk, close).unwrap_or_else(|error| panic!("a sound store: {error}"));
        Self { disk, history, settled }
    }

    /// A copy to spoil.
    pub(super) fn copy(&self) -> SimDisk {
        self.disk.kill()
    }
}

/// Two segments of every kind of frame.
fn write(disk: &SimDisk, close: bool) -> rollstore::Result<(Vec<StoreState>, usize)> {
    let mut history = Vec::new();
    let store = store::open(disk)?;
    for id in 0..4 {
        store.insert(rollout(id, 0, 0).reward(0.5).metadata(b"kept").column("routing", vec![1_u8, 2, 3]))?;
    }
    history.push(StoreState::of(&store)?);
    store.advance_ref_version(1, Some(7))?;
    store.advance_ref_version(1, Some(8))?;
    history.push(StoreState::of(&store)?);
    recompute_all(&store, 1)?;
    history.push(StoreState::of(&store)?);
    store.retire(&ids([3]), Reason::Trained)?;
    store.set_cursor(b"segment one")?;
    history.push(StoreState::of(&store)?);
    let sealed = history.len() - 1;
    store.close()?;

    let store = store::open(disk)?;
    let version = store.ref_version();
    let mut batch = store.batch();
    for id in 4..7 {
        batch.insert(rollout(id, 2, version))?;
    }
    batch.cursor(b"segment two");
    batch.commit()?;
    history.push(StoreState::of(&store)?);
    store.advance_ref_version(2, None)?;
    history.push(StoreState::of(&store)?);
    store.replace(rollout(5, 2, version))?;
    history.push(StoreState::of(&store)?);
    store.advance_ref_version(3, None)?;
    history.push(StoreState::of(&store)?);
    recompute_all(&store, 3)?;
    history.push(StoreState::of(&store)?);
    store.retire(&ids([0, 4]), Reason::Stale)?;
    history.push(StoreState::of(&store)?);
    if close {
        store.close()?;
    } else {
        store.abandon();
    }
    let settled = if close { history.len() - 1 } else { sealed };
    Ok((history, settled))
}

/// Every file of the store by its name, in an order that does not change.
pub(super) fn files(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = bytes::segments(disk, DIR).into_iter().chain(bytes::manifests(disk, DIR));
    let index = Path::new(DIR).join("index.redb");
    let index = rollstore::disk::Disk::entry_kind(disk, &index).is_ok_and(|kind| kind.is_some()).then_some(index);
    all.chain(index).map(|path| (path.clone(), bytes::read(disk, &path))).collect()
}

/// The segment that was written last.
pub(super) fn last_segment(disk: &SimDisk) -> PathBuf {
    bytes::segments(disk, DIR).pop().expect("a store has segments")
}

/// The manifest that was written last.
pub(super) fn last_manifest(disk: &SimDisk) -> PathBuf {
    bytes::manifests(disk, DIR).pop().expect("a store has a manifest")
}
