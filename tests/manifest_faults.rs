//! The manifest is the old generation or the new one, and never an empty store (F14, F15).
//!
//! Method: power cuts at each operation of writing a generation, and generations damaged by hand, on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore::{ErrorKind, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, open, options, rollout};

/// A closed store of some rollouts.
fn closed() -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for id in 0..8 {
        store.insert(rollout(id, 0, 0)).unwrap();
    }
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    (disk.kill(), state)
}

fn with_window(disk: &SimDisk, window: u64) -> rollstore::Result<RolloutStore> {
    options(Arc::new(disk.clone())).window(window).open(DIR)
}

#[test]
fn f14_a_crash_at_each_step_of_a_generation_leaves_the_old_or_the_new() {
    // Opening with another window writes one generation and nothing else.
    let (disk, state) = closed();
    let whole = disk.kill();
    with_window(&whole, 9).unwrap().abandon();
    let trace = whole.trace();
    let (mut old, mut new) = (0, 0);
    for op in changing(&trace) {
        let cut = disk.kill();
        cut.fail_at(op.number, Fault::PowerCut);
        let opened = with_window(&cut, 9).map(RolloutStore::abandon);
        for style in ImageStyle::ALL {
            let found = cut.crash(CrashImage { seed: op.number, style });
            let store = RolloutStore::options().disk(Arc::new(found.clone())).open(DIR);
            let store = store.unwrap_or_else(|error| panic!("cut at {op:?}, {style:?}: {error}"));
            match store.window() {
                8 => old += 1,
                9 => new += 1,
                other => panic!("cut at {op:?}, {style:?}: a window of {other}"),
            }
            assert!(opened.is_err() || store.window() == 9, "cut at {op:?}: opened, so it must be durable");
            assert_eq!(StoreState::of(&store).unwrap().rollouts.len(), state.rollouts.len());
        }
    }
    assert!(old > 0 && new > 0, "{old} old ones, {new} new ones");
}

#[test]
fn f15_a_rotted_newest_manifest_falls_back_where_every_file_matches() {
    let (disk, state) = closed();
    with_window(&disk, 9).unwrap().close().unwrap();
    let disk = disk.kill();
    let newest = bytes::manifests(&disk, DIR).pop().unwrap();
    bytes::flip(&disk, &newest, 100, 2);
    // The generation before lists the same files: nothing but the options is older.
    let store = RolloutStore::options().disk(Arc::new(disk.clone())).open(DIR).unwrap();
    assert_eq!(store.window(), 8);
    assert_same(&StoreState::of(&store).unwrap(), &state, "the generation before");
    store.insert(rollout(100, 0, 0)).unwrap();
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    assert_same(&StoreState::of(&open(&disk).unwrap()).unwrap(), &state, "written to since");
}

#[test]
fn f15_a_rotted_newest_manifest_is_an_error_where_files_moved_on() {
    let (disk, _) = closed();
    // The generation before lists the last segment as written to.
    let newest = bytes::manifests(&disk, DIR).pop().unwrap();
    let len = bytes::read(&disk, &newest).len() as u64;
    for at in [0, 8, 60, len / 2, len - 1] {
        let copy = disk.kill();
        bytes::flip(&copy, &newest, at, 4);
        assert_refused(&copy, &newest);
    }
    for len in [0, 1, len - 1] {
        let copy = disk.kill();
        bytes::edit(&copy, &newest, |bytes| bytes.truncate(usize::try_from(len).unwrap()));
        assert_refused(&copy, &newest);
    }
}

fn assert_refused(disk: &SimDisk, newest: &Path) {
    let error = open(disk).map(RolloutStore::abandon).expect_err("an older state must not be served as the newest");
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(newest)), "{error}");
}

#[test]
fn f15_a_store_without_any_manifest_is_no_empty_store() {
    let (disk, _) = closed();
    for manifest in bytes::manifests(&disk, DIR) {
        bytes::remove(&disk, &manifest);
    }
    let error = open(&disk).map(RolloutStore::abandon).expect_err("segments without a manifest");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(bytes::segments(&disk, DIR).len(), 1, "nothing was removed");
}

#[test]
fn f15_two_rotted_manifests_are_an_error_and_remove_nothing() {
    let (disk, _) = closed();
    let manifests = bytes::manifests(&disk, DIR);
    assert_eq!(manifests.len(), 2, "two generations are kept");
    for manifest in &manifests {
        bytes::flip(&disk, manifest, 40, 0);
    }
    let error = open(&disk).map(RolloutStore::abandon).expect_err("no sound manifest");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!((bytes::manifests(&disk, DIR).len(), bytes::segments(&disk, DIR).len()), (2, 1));
}

#[test]
fn f15_a_generation_under_another_ones_name_is_not_believed() {
    let (disk, _) = closed();
    let manifests = bytes::manifests(&disk, DIR);
    let [before, newest] = &manifests[..] else { panic!("{manifests:?}") };
    let bytes_before = bytes::read(&disk, before);
    bytes::write(&disk, newest, &bytes_before);
    assert_refused(&disk, newest);
}
