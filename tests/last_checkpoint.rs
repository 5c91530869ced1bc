//! Goal: a store tells its last checkpoint, and nothing depends on what it tells.
//!
//! Method: checkpoints and restores on real files; the note is changed, cut and kept from being written.

use std::fs;
use std::path::Path;

use rollstore::{LastCheckpoint, NewRollout, Options, RolloutStore};

fn options() -> Options {
    RolloutStore::options().window(8)
}

/// What the store in a directory tells.
fn told(dir: &Path) -> Option<LastCheckpoint> {
    RolloutStore::options().read_only(true).open(dir).unwrap().stats().unwrap().last_checkpoint
}

#[test]
fn the_store_and_the_checkpoint_tell_the_same() {
    let root = tempfile::tempdir().unwrap();
    let (run, saved) = (root.path().join("run"), root.path().join("ckpt-5"));
    let store = options().open(&run).unwrap();
    store.insert(NewRollout::new(1, 5)).unwrap();
    assert_eq!(store.stats().unwrap().last_checkpoint, None);
    store.checkpoint(root.path().join("first")).unwrap();
    assert_eq!(store.stats().unwrap().last_checkpoint.unwrap().step, None, "the trainer has not acted yet");
    store.advance_ref_version(5, None).unwrap();
    let lsn = store.stats().unwrap().last_lsn;
    store.checkpoint(&saved).unwrap();
    store.insert(NewRollout::new(2, 6)).unwrap();

    let last = store.stats().unwrap().last_checkpoint.unwrap();
    assert_eq!((last.lsn, last.step), (lsn, Some(5)));
    store.close().unwrap();
    assert_eq!(told(&run).as_ref(), Some(&last), "after the store was opened anew");
    assert_eq!(told(&saved), Some(last), "the checkpoint itself");
}

#[test]
fn a_restored_store_tells_what_it_was_restored_from() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = options().open(path("run")).unwrap();
    for (id, name) in [(1, "kept"), (2, "abandoned")] {
        store.insert(NewRollout::new(id, 1)).unwrap();
        store.checkpoint(path(name)).unwrap();
    }
    store.close().unwrap();
    RolloutStore::restore(path("kept"), path("run")).unwrap();
    RolloutStore::restore(path("kept"), path("fresh")).unwrap();
    let kept = told(&path("kept")).unwrap();
    assert_ne!(Some(&kept), told(&path("abandoned")).as_ref());
    assert_eq!(told(&path("run")).as_ref(), Some(&kept));
    assert_eq!(told(&path("fresh")), Some(kept));
}

#[test]
fn a_note_of_an_abandoned_future_is_not_told() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = options().open(path("run")).unwrap();
    store.checkpoint(path("kept")).unwrap();
    store.checkpoint(path("abandoned")).unwrap();
    store.close().unwrap();
    // As after a crash before the note of the restore.
    let abandoned = fs::read(path("run").join("CHECKPOINTED")).unwrap();
    RolloutStore::restore(path("kept"), path("run")).unwrap();
    fs::write(path("run").join("CHECKPOINTED"), abandoned).unwrap();
    assert_eq!(told(&path("run")), None);
}

#[test]
fn a_note_that_was_cut_short_is_taken_away_by_the_next_opening() {
    let root = tempfile::tempdir().unwrap();
    let (run, saved) = (root.path().join("run"), root.path().join("saved"));
    let store = options().open(&run).unwrap();
    store.checkpoint(&saved).unwrap();
    store.close().unwrap();
    let before = told(&run);
    fs::write(run.join("CHECKPOINTED.tmp"), "rollstore che").unwrap();
    drop(options().open(&run).unwrap());
    assert!(before.is_some() && told(&run) == before);
    assert!(!run.join("CHECKPOINTED.tmp").exists());
}

#[test]
fn what_is_no_note_is_none_and_harms_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (run, saved) = (root.path().join("run"), root.path().join("saved"));
    let store = options().open(&run).unwrap();
    store.checkpoint(&saved).unwrap();
    store.close().unwrap();
    let note = run.join("CHECKPOINTED");
    let whole = fs::read(&note).unwrap();
    for bytes in [&whole[..whole.len() - 1], b"", &[0xFF; 100], &vec![b'a'; 1 << 20]] {
        fs::write(&note, bytes).unwrap();
        assert_eq!(told(&run), None);
    }
    fs::remove_file(&note).unwrap();
    fs::create_dir(&note).unwrap();
    let store = options().open(&run).unwrap();
    assert_eq!(store.stats().unwrap().last_checkpoint, None);
    // It cannot be noted, and is made all the same, more than once.
    for id in [1, 2] {
        store.insert(NewRollout::new(id, 1)).unwrap();
        store.checkpoint(&saved).unwrap();
        assert_eq!(told(&saved).unwrap().lsn, store.stats().unwrap().last_lsn);
    }
    assert!(note.is_dir());
}
