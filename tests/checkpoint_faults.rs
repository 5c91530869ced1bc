//! A checkpoint that replaces another and fails, or loses power, at its very end: there is a whole one all the same (D8).
//!
//! Method: the sync that makes the new name durable fails; the power is cut then, or within the next checkpoint.

use std::path::Path;
use std::sync::Arc;

use rollstore::ErrorKind;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore_testkit::crash::changing;
use rollstore_testkit::store;

const CHECKPOINT: &str = "/saved/newest";

/// A store with one checkpoint, whose replacement could not be made durable.
fn replaced_in_vain() -> (SimDisk, rollstore::RolloutStore) {
    let disk = SimDisk::new();
    let store = store::open(&disk).unwrap();
    store.insert(store::rollout(1, 0, 0)).unwrap();
    store.checkpoint(CHECKPOINT).unwrap();
    store.insert(store::rollout(2, 0, 0)).unwrap();
    disk.fail_next(OpKind::SyncDir, "saved", Fault::Eio);
    assert_eq!(store.checkpoint(CHECKPOINT).unwrap_err().kind(), ErrorKind::Io);
    (disk, store)
}

fn assert_whole(disk: &SimDisk, when: &str) {
    let images = ImageStyle::ALL.iter().flat_map(|style| (0..16).map(move |seed| CrashImage { seed, style: *style }));
    for image in images {
        let after = Arc::new(disk.crash(image));
        let opened = store::options(after).read_only(true).open(Path::new(CHECKPOINT));
        let saved = opened.unwrap_or_else(|error| panic!("{when}, {image:?}: {error}"));
        assert!((1..=3).contains(&saved.len()), "{when}, {image:?}: {} rollouts", saved.len());
        store::check_content(&saved.get(1.into()).unwrap().unwrap());
    }
}

#[test]
fn d8_the_checkpoint_that_is_replaced_stays_until_the_new_name_is_durable() {
    let (disk, _store) = replaced_in_vain();
    assert_whole(&disk, "after the failed sync");
}

#[test]
fn d8_the_next_checkpoint_does_not_clear_what_may_still_be_the_only_one() {
    let (disk, store) = replaced_in_vain();
    let before = disk.operation_count();
    store.insert(store::rollout(3, 0, 0)).unwrap();
    store.checkpoint(CHECKPOINT).unwrap();
    let points: Vec<u64> = changing(&disk.trace()).map(|op| op.number).filter(|number| *number >= before).collect();
    assert!(points.len() > 10, "{}", points.len());
    for point in points {
        let (disk, store) = replaced_in_vain();
        disk.fail_at(point, Fault::PowerCut);
        let _ = store.insert(store::rollout(3, 0, 0)).and_then(|_| store.checkpoint(CHECKPOINT));
        assert_whole(&disk, &format!("cut at operation {point}"));
    }
}
