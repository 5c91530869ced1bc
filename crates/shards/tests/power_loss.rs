//! Goal: a merge that loses its power, its disk or its space anywhere leaves the shards whole and nothing half made under the
//! name; the same call then comes to the same end.
//!
//! Method: on a simulated disk, an operation of the merge is the last one, or fails, or finds no space; operations are taken at
//! a stride, all of them with `ROLLSTORE_TEST_SCALE`.

use std::path::PathBuf;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore_shards::{Error, Shards};
use rollstore_testkit::settings::scale;
use rollstore_testkit::shards::{Held, live, options};

const GIVEN: [&str; 2] = ["given/a", "given/b"];
const ALL: &str = "made/all";

/// Operations between two that are tried.
const STRIDE: u64 = 13;

fn dyn_of(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn begin() -> (SimDisk, Held) {
    let disk = SimDisk::new();
    for (shard, dir) in (0..).zip(GIVEN) {
        let store = options(dyn_of(&disk)).open(dir).unwrap();
        live(&store, 5, shard, 2).unwrap();
        store.close().unwrap();
    }
    let held = Held::of(&dyn_of(&disk), GIVEN).unwrap();
    (disk, held)
}

fn merge(disk: &SimDisk) -> Result<(), Error> {
    Shards::of(GIVEN).disk(dyn_of(disk)).merge(ALL).map(drop)
}

/// A disk as it is, of which nothing was lost.
fn copy(disk: &SimDisk) -> SimDisk {
    disk.as_if_crashed(CrashImage { seed: 0, style: ImageStyle::Everything })
}

/// Each operation that is tried, by how many come before it. Threads of the stores count too: the number varies a little.
fn each_operation(disk: &SimDisk) -> impl Iterator<Item = u64> {
    let whole = copy(disk);
    let from = whole.operation_count();
    merge(&whole).unwrap();
    let until = whole.operation_count();
    assert!(until - from > 300, "{} operations", until - from);
    (0..until - from).step_by(usize::try_from((STRIDE / scale()).max(1)).unwrap())
}

/// The name is free or has all, the same call comes to its end, and all is there.
fn assert_goes_on(disk: &SimDisk, held: &Held, when: &str) {
    if disk.entry_kind(ALL.as_ref()).unwrap().is_none() {
        merge(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
    }
    Held::of(&dyn_of(disk), [ALL]).unwrap().assert_same(held, when);
    Held::of(&dyn_of(disk), GIVEN).unwrap().assert_same(held, when);
}

#[test]
fn a_merge_that_loses_its_power_goes_on_from_what_is_on_disk() {
    let (given, held) = begin();
    for before in each_operation(&given) {
        let disk = copy(&given);
        disk.fail_at(disk.operation_count() + before, Fault::PowerCut);
        let merged = merge(&disk);
        for style in [ImageStyle::NothingUnsynced, ImageStyle::TornSectors] {
            let when = format!("power cut behind {before} operations ({merged:?}), {style:?}");
            assert_goes_on(&disk.crash(CrashImage { seed: before, style }), &held, &when);
        }
    }
}

#[test]
fn a_merge_without_space_or_with_a_failing_disk_leaves_nothing_behind() {
    let (given, held) = begin();
    for fault in [Fault::Enospc, Fault::Eio] {
        let mut failed = 0;
        for before in each_operation(&given) {
            let disk = copy(&given);
            disk.fail_from(disk.operation_count() + before, fault);
            let merged = merge(&disk);
            disk.heal();
            let when = format!("{fault:?} behind {before} operations ({merged:?})");
            failed += u64::from(merged.is_err());
            assert_goes_on(&disk, &held, &when);
            // A disk that fails keeps even what is removed: the next call takes it away.
            assert!(matches!(merge(&disk), Err(Error::Exists(_))), "{when}");
            let names: Vec<PathBuf> = disk.list("made".as_ref()).unwrap().into_iter().map(PathBuf::from).collect();
            assert_eq!(names, [PathBuf::from("all")], "{when}");
        }
        assert!(failed > 5, "{fault:?}: {failed} merges failed");
    }
}
