//! What a compaction costs the disk: one read for each small frame, and one write for many.
//!
//! Method: a disk that counts, real files below it, and rollouts of a few hundred bytes of which every other one ended.

use std::sync::Arc;

use rollstore::disk::counting::{CountingDisk, OpKind};
use rollstore::disk::os::OsDisk;
use rollstore::{CompactBudget, NewRollout, Reason, RolloutId, RolloutStore};

const ROLLOUTS: u64 = 4_000;
const ALIVE: u64 = ROLLOUTS / 2;
/// Reads and writes of headers and footers, of the manifests and of the index beside them.
const OTHERS_MAX: u64 = 200;

#[test]
fn a_small_frame_is_read_at_once_and_written_with_others() {
    let dir = tempfile::tempdir().unwrap();
    let disk = CountingDisk::new(Arc::new(OsDisk));
    let options = RolloutStore::options().window(8).background_compaction(false).disk(Arc::new(disk.clone()));
    let store = options.open(dir.path().join("rollouts")).unwrap();
    let mut batch = store.batch();
    for id in 0..ROLLOUTS {
        batch.insert(NewRollout::new(id, 1).completion_ids(vec![7; 16]).old_logps(vec![-0.5; 16], 0)).unwrap();
    }
    batch.commit().unwrap();
    let ended: Vec<RolloutId> = (0..ROLLOUTS).step_by(2).map(RolloutId::new).collect();
    store.retire(&ended, Reason::Trained).unwrap();

    disk.clear();
    let compacted = store.compact(CompactBudget::all()).unwrap();
    assert!(compacted.is_done && compacted.segments_written == 1, "{compacted:?}");
    let is_segment = |path: &std::path::Path| path.to_string_lossy().contains("seg-");
    let of = |kind| disk.trace().iter().filter(|op| op.kind == kind && is_segment(&op.path)).count() as u64;
    let (reads, writes) = (of(OpKind::Read), of(OpKind::Write));
    assert!((ALIVE..ALIVE + OTHERS_MAX).contains(&reads), "{reads} reads for {ALIVE} frames");
    assert!(writes < OTHERS_MAX, "{writes} writes for {ALIVE} frames");
    let left = store.get(1.into()).unwrap().unwrap();
    assert_eq!((store.len() as u64, left.old_logps().unwrap()), (ALIVE, &[-0.5; 16][..]));
}
