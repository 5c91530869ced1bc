//! `repair` makes a damaged store usable from what is whole of it, keeps the damaged files as they are, and says what was
//! lost.
//!
//! Method: one known byte of a small store is flipped, or a file removed; the rest must come back.

use std::fs;
use std::path::{Path, PathBuf};

use rollstore::{ErrorKind, NewRollout, Reason, RolloutStore, inspect};

/// A marker that finds a rollout's bytes in its segment.
fn marker(id: u64) -> Vec<u8> {
    format!("rollout number {id:04}").into_bytes()
}

fn insert(store: &RolloutStore, ids: std::ops::Range<u64>) {
    for id in ids {
        let rollout = NewRollout::new(id, 0).completion_ids(vec![1, 2]).old_logps(vec![-0.5, -0.25], 0);
        store.insert(rollout.column("marker", marker(id))).unwrap();
    }
}

fn open(dir: &Path) -> rollstore::Result<RolloutStore> {
    RolloutStore::options().window(8).open(dir)
}

/// The segment that holds these bytes, and where.
fn find(dir: &Path, bytes: &[u8]) -> (PathBuf, usize) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let content = fs::read(&path).unwrap();
            if let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) {
                return (path, at);
            }
        }
    }
    panic!("no file holds {:?}", String::from_utf8_lossy(bytes));
}

/// Flips a byte and returns the file with its bytes since.
fn flip(dir: &Path, bytes: &[u8]) -> (PathBuf, Vec<u8>) {
    let (path, at) = find(dir, bytes);
    let mut content = fs::read(&path).unwrap();
    content[at] ^= 1;
    fs::write(&path, &content).unwrap();
    (path, content)
}

fn live(store: &RolloutStore) -> Vec<u64> {
    store.ids().into_iter().map(rollstore::RolloutId::get).collect()
}

#[test]
fn a_sound_store_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    insert(&store, 0..3);
    store.close().unwrap();
    let repaired = RolloutStore::repair(&path).unwrap();
    assert!(repaired.findings.is_empty() && repaired.set_aside.is_empty());
    assert!(!path.join("damaged").exists());
    assert_eq!(live(&open(&path).unwrap()), [0, 1, 2]);
}

#[test]
fn a_flip_in_a_sealed_body_loses_that_rollout_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    insert(&store, 0..5);
    store.close().unwrap();
    let (segment, damaged) = flip(&path, &marker(3));
    let repaired = RolloutStore::repair(&path).unwrap();
    assert_eq!(repaired.rollouts_lost, [3.into()]);
    assert!(!repaired.all_stale, "no other frame was lost");
    let aside = path.join("damaged").join(segment.file_name().unwrap());
    assert_eq!(repaired.set_aside, std::slice::from_ref(&aside));
    assert_eq!(fs::read(&aside).unwrap(), damaged, "the damaged file is kept as it was");
    assert!(inspect::verify(&path).unwrap().is_sound());

    let store = open(&path).unwrap();
    assert_eq!(live(&store), [0, 1, 2, 4]);
    let kept = store.get(4.into()).unwrap().unwrap();
    assert_eq!(kept.old_logps().unwrap(), [-0.5, -0.25]);
    assert!(kept.staleness(0).is_fresh());
    insert(&store, 5..6);
    store.close().unwrap();
    assert_eq!(live(&open(&path).unwrap()), [0, 1, 2, 4, 5], "writing goes on");
}

#[test]
fn f05_a_flip_in_an_acknowledged_frame_of_the_newest_segment_is_repaired_on_request_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    insert(&store, 0..5);
    store.abandon();
    flip(&path, &marker(2));
    let refused = open(&path).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    let repaired = RolloutStore::repair(&path).unwrap();
    assert_eq!(repaired.rollouts_lost, [2.into()]);
    let store = open(&path).unwrap();
    assert_eq!(live(&store), [0, 1, 3, 4]);
}

#[test]
fn where_a_retirement_or_an_advance_may_be_lost_everything_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    insert(&store, 0..3);
    store.retire(&[0.into()], Reason::Trained).unwrap();
    store.set_cursor(b"the cursor before").unwrap();
    insert(&store, 3..4);
    store.close().unwrap();
    flip(&path, b"the cursor before");
    let repaired = RolloutStore::repair(&path).unwrap();
    assert!(repaired.all_stale);
    let store = open(&path).unwrap();
    assert_eq!(live(&store), [1, 2, 3]);
    assert_eq!(store.stale().len(), 3);
    assert!(store.ref_version() > 0, "a version that nothing lost can have used");
}

#[test]
fn a_missing_segment_is_named_and_the_others_come_back_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    for ids in [0..2, 2..4] {
        let store = open(&path).unwrap();
        insert(&store, ids);
        store.close().unwrap();
    }
    fs::remove_file(find(&path, &marker(0)).0).unwrap();
    assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::Damaged);
    let repaired = RolloutStore::repair(&path).unwrap();
    assert!(repaired.all_stale && repaired.set_aside.is_empty());
    let store = open(&path).unwrap();
    assert_eq!(live(&store), [2, 3]);
    assert_eq!(store.stale().len(), 2);
}

#[test]
fn a_checkpoint_and_an_open_store_are_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let (path, saved) = (dir.path().join("rollouts"), dir.path().join("ckpt"));
    let store = open(&path).unwrap();
    insert(&store, 0..1);
    store.checkpoint(&saved).unwrap();
    assert_eq!(RolloutStore::repair(&path).unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(RolloutStore::repair(&saved).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!saved.join("LOCK").exists(), "nothing is made in a checkpoint");
}

#[test]
fn a_damaged_manifest_is_kept_too_and_nothing_is_lost_with_a_spare_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    insert(&store, 0..3);
    store.close().unwrap();
    // A second generation over the same files.
    RolloutStore::options().window(9).open(&path).unwrap().close().unwrap();
    let mut manifests: Vec<PathBuf> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    manifests.retain(|path| path.to_string_lossy().contains("MANIFEST-"));
    manifests.sort();
    let newest = manifests.pop().unwrap();
    let mut content = fs::read(&newest).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&newest, &content).unwrap();

    let repaired = RolloutStore::repair(&path).unwrap();
    assert_eq!((repaired.findings.len(), repaired.all_stale), (1, false));
    let [aside] = &repaired.set_aside[..] else { panic!("{:?}", repaired.set_aside) };
    assert_eq!(fs::read(aside).unwrap(), content, "the damaged file is kept as it was");
    assert!(inspect::verify(&path).unwrap().is_sound());
    let store = open(&path).unwrap();
    assert_eq!((live(&store), store.stale().len()), (vec![0, 1, 2], 0));
}

#[test]
fn what_an_earlier_repair_kept_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (path, saved) = (dir.path().join("rollouts"), dir.path().join("ckpt"));
    let store = open(&path).unwrap();
    insert(&store, 0..3);
    store.checkpoint(&saved).unwrap();
    store.close().unwrap();
    let kept = [0, 1].map(|id| {
        // A segment of its own, since those of a checkpoint are linked.
        let (segment, _) = find(&path, &marker(id));
        let content = fs::read(&segment).unwrap();
        fs::remove_file(&segment).unwrap();
        fs::write(&segment, content).unwrap();
        let (_, damaged) = flip(&path, &marker(id));
        let repaired = RolloutStore::repair(&path).unwrap();
        assert_eq!(repaired.rollouts_lost, [id.into()]);
        RolloutStore::restore(&saved, &path).unwrap();
        (repaired.set_aside[0].clone(), damaged)
    });
    assert_ne!(kept[0].0, kept[1].0);
    for (path, damaged) in kept {
        assert_eq!(fs::read(path).unwrap(), damaged);
    }
}

#[test]
fn rollouts_that_cannot_be_read_do_not_use_up_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = open(&path).unwrap();
    for id in 0..5 {
        let rollout = NewRollout::new(id, id).old_logps(vec![-0.5], 0);
        store.insert(rollout.metadata(&marker(id))).unwrap();
    }
    store.close().unwrap();
    // The descriptors of the two most urgent ones.
    for id in 0..2 {
        flip(&path, &marker(id));
    }
    let store = open(&path).unwrap();
    let plan = store.plan_due(100, rollstore::Budget::rollouts(2)).unwrap();
    assert_eq!(plan.damaged(), [0.into(), 1.into()]);
    assert!(plan.ids().eq([2.into(), 3.into()]), "the budget goes to those that can be computed");
    let again = store.plan_due(100, rollstore::Budget::rollouts(2)).unwrap();
    assert!(again.ids().eq([2.into(), 3.into()]) && again.damaged().is_empty());
}
