//! A column whose frame is damaged is there and cannot be read: it is never taken for one that the rollout does not have.
//!
//! Method: one bit of the frame of a recompute is flipped, behind its columns and in its header.

use rollstore::disk::sim::SimDisk;
use rollstore::{Column, ErrorKind, Rollout};
use rollstore_testkit::bytes;
use rollstore_testkit::store::{DIR, TOKENS, open, recompute_all, rollout};

/// Bytes of a frame's header.
const HEADER_BYTES: u64 = 128;

/// A rollout with the frame of its recompute spoiled at `place`, and a sound index.
fn spoiled(place: u64) -> Rollout {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.insert(rollout(1, 0, 0)).unwrap();
    store.advance_ref_version(20, None).unwrap();
    let frame = store.stats().unwrap().log_bytes;
    assert_eq!(recompute_all(&store, 20).unwrap(), 1);
    store.close().unwrap();
    bytes::flip(&disk, &bytes::segments(&disk, DIR)[0], frame + place, 3);
    open(&disk).unwrap().get(1.into()).unwrap().expect("the rollout is live")
}

#[test]
fn old_logps_of_a_damaged_frame_are_listed_and_refused() {
    for place in [8, HEADER_BYTES + 1] {
        let view = spoiled(place);
        let columns = view.columns();
        let old = columns.iter().find(|info| info.column == Column::OldLogps);
        let old = old.unwrap_or_else(|| panic!("byte {place}: old_logps are not listed: {columns:?}"));
        assert_eq!((old.len, old.version), (TOKENS, Some(1)), "byte {place}: {old:?}");
        assert_eq!(view.values(&Column::OldLogps).unwrap_err().kind(), ErrorKind::Damaged, "byte {place}");
        assert_eq!(view.old_logps().unwrap_err().kind(), ErrorKind::Damaged, "byte {place}");
        assert!(view.completion_ids().is_ok(), "byte {place}: the columns beside it are sound");
    }
}
