//! A restore brings a checkpoint's moment back exactly, and nothing of the abandoned future can look fresh or be used
//! twice.
//!
//! Method: stores that went on after their checkpoint; numbers of both futures compared; a restore that loses power at
//! each of its operations.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{ErrorKind, NewRollout, Options, Results, RolloutStore};
use rollstore_testkit::values::logp;

fn options() -> Options {
    RolloutStore::options().window(8).segment_bytes(64 << 10)
}

fn rollout(id: u64, version: u64) -> NewRollout<'static> {
    NewRollout::new(id, 100).old_logps(vec![logp(id); 1_000], version)
}

/// A store with a checkpoint of step 100, which then went on to step 103.
fn with_future(root: &Path) -> RolloutStore {
    let store = options().open(root.join("run")).unwrap();
    for id in 0..30 {
        store.insert(rollout(id, 0)).unwrap();
    }
    store.advance_ref_version(100, Some(1)).unwrap();
    store.insert(rollout(30, 1)).unwrap();
    store.checkpoint(root.join("saved")).unwrap();
    for step in 101..=103 {
        store.advance_ref_version(step, Some(step)).unwrap();
        for id in 0..10 {
            store.insert(rollout(step * 100 + id, store.ref_version())).unwrap();
        }
    }
    store
}

fn segment_ids(dir: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("seg-")).collect()
}

fn restored(root: &Path) -> RolloutStore {
    RolloutStore::restore(root.join("saved"), root.join("run")).unwrap();
    options().resume_step(100).open(root.join("run")).unwrap()
}

#[test]
fn what_was_fresh_at_the_checkpoint_is_fresh_again() {
    let root = tempfile::tempdir().unwrap();
    with_future(root.path()).close().unwrap();
    let store = restored(root.path());
    assert_eq!((store.len(), store.ref_version(), store.clock()), (31, 1, Some(100)));
    assert!(store.get(30.into()).unwrap().unwrap().staleness(100).is_fresh());
    assert_eq!(store.count_stale(), 30);
    assert_eq!(store.stats().unwrap().counters.inserted, 31);
}

#[test]
fn d9_no_number_of_the_abandoned_future_is_used_again() {
    let root = tempfile::tempdir().unwrap();
    let store = with_future(root.path());
    let (lsn, version) = (store.stats().unwrap().last_lsn, store.ref_version());
    let handed_out = store.allocate_ids(1).unwrap().next().unwrap();
    store.close().unwrap();
    let used = segment_ids(&root.path().join("run"));
    let saved = segment_ids(&root.path().join("saved"));

    let store = restored(root.path());
    assert_eq!(segment_ids(&root.path().join("run")), saved, "the abandoned segments are gone");
    let inserted = store.insert(rollout(1_000, 1)).unwrap();
    assert!(inserted > lsn, "{inserted} was used before {lsn}");
    let next = store.advance_ref_version(101, Some(101)).unwrap();
    assert!(next > version, "version {next} was used before {version}");
    assert!(store.allocate_ids(1).unwrap().next().unwrap() > handed_out);
    let new: BTreeSet<_> = segment_ids(&root.path().join("run")).difference(&saved).cloned().collect();
    assert!(!new.is_empty() && new.iter().all(|name| name > used.last().unwrap()), "{new:?} after {used:?}");

    // Logps of the abandoned version 4, handed in late, are not taken for those of any version now.
    let error = store.insert(rollout(1_001, next + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    store.insert(rollout(1_002, version)).unwrap();
    assert!(store.get(1_002.into()).unwrap().unwrap().staleness(101).stale, "of a version that no longer is");
}

#[test]
fn d9_a_plan_from_before_a_restore_is_dropped() {
    let root = tempfile::tempdir().unwrap();
    let store = with_future(root.path());
    let plan = store.plan_for(&[0.into(), 1.into()], 103).unwrap();
    store.close().unwrap();
    let store = restored(root.path());
    let results: Results = plan.ids().map(|id| (id, vec![-9.0; 1_000])).collect();
    let applied = store.apply(plan, results);
    if let Ok(applied) = &applied {
        assert_eq!((applied.computed, applied.dropped), (0, 2));
    }
    let view = store.get(0.into()).unwrap().unwrap();
    assert_eq!(view.old_logps().unwrap(), [-0.0; 1_000]);
    assert!(applied.is_ok(), "a late result is no error: {applied:?}");
}

#[test]
fn a_checkpoint_can_be_restored_again_and_again() {
    let root = tempfile::tempdir().unwrap();
    with_future(root.path()).close().unwrap();
    let mut versions = BTreeSet::new();
    for _ in 0..3 {
        let store = restored(root.path());
        assert_eq!((store.len(), store.ref_version()), (31, 1));
        let version = store.advance_ref_version(101, None).unwrap();
        assert!(versions.insert(version), "version {version} was given twice");
        store.insert(rollout(500, version)).unwrap();
        store.close().unwrap();
    }
    // A checkpoint of the new lineage takes the place of the old one: the run is the same.
    let store = options().open(root.path().join("run")).unwrap();
    store.checkpoint(root.path().join("saved")).unwrap();
    store.close().unwrap();
    assert_eq!(restored_len(root.path()), 32);
}

fn restored_len(root: &Path) -> usize {
    RolloutStore::restore(root.join("saved"), root.join("fresh")).unwrap();
    options().open(root.join("fresh")).unwrap().len()
}

#[test]
fn a_restore_into_a_fresh_directory_is_a_store_of_the_same_run() {
    let root = tempfile::tempdir().unwrap();
    let original = with_future(root.path());
    assert_eq!(restored_len(root.path()), 31, "while the original is open");
    let copy = options().open(root.path().join("fresh")).unwrap();
    copy.insert(rollout(900, 1)).unwrap();
    original.insert(rollout(901, 1)).unwrap();
    copy.checkpoint(root.path().join("saved")).unwrap();
    assert!(original.get(900.into()).unwrap().is_none() && copy.get(901.into()).unwrap().is_none());
}

#[test]
fn a_restore_is_refused_where_something_else_stands() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = with_future(root.path());
    let error = RolloutStore::restore(path("saved"), path("run")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    store.insert(rollout(31, 1)).unwrap();
    store.close().unwrap();

    let other = options().open(path("other")).unwrap();
    other.insert(rollout(1, 0)).unwrap();
    other.checkpoint(path("saved by another")).unwrap();
    other.close().unwrap();
    std::fs::create_dir(path("foreign")).unwrap();
    std::fs::write(path("foreign").join("thesis.txt"), "years of work").unwrap();
    for target in ["other", "saved by another", "foreign"] {
        let names =
            || std::fs::read_dir(path(target)).unwrap().map(|e| e.unwrap().file_name()).collect::<BTreeSet<_>>();
        let before = names();
        let error = RolloutStore::restore(path("saved"), path(target)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{target}: {error}");
        assert_eq!(names(), before, "{target}: something was left");
    }
    assert_eq!(options().open(path("other")).unwrap().len(), 1);
    let nowhere = RolloutStore::restore(path("nowhere"), path("run")).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NotFound, "{nowhere}");
    assert_eq!(options().open(path("run")).unwrap().len(), 62, "refusals changed nothing");
}

/// A small store with a checkpoint and a future, on a simulated disk.
fn simulated(hard_links: bool) -> SimDisk {
    let disk = SimDisk::new().with_hard_links(hard_links);
    let store = options().disk(Arc::new(disk.clone())).open("/run").unwrap();
    store.insert(rollout(1, 0)).unwrap();
    store.checkpoint("/saved").unwrap();
    store.advance_ref_version(101, None).unwrap();
    store.insert(rollout(2, 1)).unwrap();
    store.close().unwrap();
    disk
}

#[test]
fn f25_a_restore_that_loses_power_is_whole_or_can_be_repeated() {
    for (hard_links, target) in [(true, "/run"), (true, "/fresh"), (false, "/run"), (false, "/fresh")] {
        let whole = simulated(hard_links);
        let first = whole.operation_count();
        options().disk(Arc::new(whole.clone())).restore("/saved", target).unwrap();
        let styles = [ImageStyle::NothingUnsynced, ImageStyle::Everything, ImageStyle::TornSectors];
        for (number, style) in (first..whole.operation_count()).flat_map(|number| styles.map(|style| (number, style))) {
            let disk = simulated(hard_links);
            let at = number - first + disk.operation_count();
            disk.fail_at(at, Fault::PowerCut);
            let error = options().disk(Arc::new(disk.clone())).restore("/saved", target);
            let after = disk.crash(CrashImage { seed: number, style });
            let what = format!("links {hard_links}, {target}, operation {at}, {style:?}, {error:?}");
            let open = || options().create(false).disk(Arc::new(after.clone())).open(target);
            match open() {
                Ok(store) => {
                    let state = (store.len(), store.ref_version());
                    assert!(state == (1, 0) || (target == "/run" && state == (2, 1)), "{what}: {state:?}");
                    let version = store.advance_ref_version(102, None).unwrap();
                    assert!(target == "/fresh" || version > 1, "{what}: version {version} is used twice");
                    store.close().unwrap();
                }
                Err(error) => assert!(target == "/fresh", "{what}: {error}"),
            }
            let again = options().disk(Arc::new(after.clone())).restore("/saved", target);
            again.unwrap_or_else(|error| panic!("{what}: it cannot be repeated: {error}"));
            let store = open().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((store.len(), store.ref_version()), (1, 0), "{what}");
            assert_eq!(store.get(1.into()).unwrap().unwrap().old_logps().unwrap(), [-1.0; 1_000], "{what}");
            assert!(after.list("/saved".as_ref()).unwrap().len() >= 2, "{what}: the checkpoint stays");
        }
    }
}

#[test]
fn a_copy_that_a_power_cut_left_empty_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    with_future(root.path()).close().unwrap();
    let (saved, fresh) = (root.path().join("saved"), root.path().join("fresh"));
    std::fs::create_dir(&fresh).unwrap();
    for name in segment_ids(&saved) {
        // The length of a file may be durable before its bytes are.
        let mut bytes = std::fs::read(saved.join(&name)).unwrap();
        bytes[4096..].fill(0);
        std::fs::write(fresh.join(&name), bytes).unwrap();
    }
    RolloutStore::restore(&saved, &fresh).unwrap();
    assert!(RolloutStore::options().open(&fresh).unwrap().verify().unwrap().is_sound());
}

#[test]
fn a_restore_that_cannot_read_a_segment_says_so_and_changes_nothing() {
    for target in ["/run", "/fresh"] {
        let disk = simulated(false);
        if target == "/fresh" {
            // What a restore that lost power left there.
            disk.fail_next(OpKind::Write, "fresh/MANIFEST.tmp", Fault::Eio);
            options().disk(Arc::new(disk.clone())).restore("/saved", target).unwrap_err();
        }
        let names = || disk.list(target.as_ref()).unwrap();
        let before = names();
        disk.fail_next(OpKind::Read, &format!("{}/seg-00000001.log", &target[1..]), Fault::Eio);
        let error = options().disk(Arc::new(disk.clone())).restore("/saved", target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{target}: {error}");
        assert_eq!(names(), before, "{target}");
        options().disk(Arc::new(disk.clone())).restore("/saved", target).unwrap();
        assert_eq!(options().disk(Arc::new(disk.clone())).open(target).unwrap().len(), 1);
    }
}
