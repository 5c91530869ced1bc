//! A store that was brought from elsewhere (copied file by file, or lying in the lower layer of an overlay) opens, is
//! sound, is written to, saved and restored.
//!
//! Method: one test makes a store, another one goes on with it. `cargo xtask filesystems` runs them one after the other
//! with a mount between them, by `ROLLSTORE_TEST_BROUGHT`; otherwise the files are copied.

use std::path::{Path, PathBuf};

use rollstore::{NewRollout, Options, Reads, Reason, RolloutStore};

/// Where the store is brought to; none where the tests run by themselves.
const BROUGHT: &str = "ROLLSTORE_TEST_BROUGHT";

fn brought() -> Option<PathBuf> {
    std::env::var_os(BROUGHT).map(|dir| PathBuf::from(dir).join("rollouts"))
}

fn options() -> Options {
    RolloutStore::options().window(8)
}

fn make(dir: &Path) {
    let store = options().open(dir).unwrap();
    for id in 0..20 {
        store.insert(NewRollout::new(id, 1).old_logps(vec![-0.5; 4_000], 0)).unwrap();
    }
    store.retire(&[3.into()], Reason::Trained).unwrap();
    // Not closed: whoever goes on has a tail to recover, and a lock file that names a process of the past.
    store.abandon();
}

#[test]
fn make_a_store_to_be_brought() {
    // Where it was brought already, it is not made again.
    if let Some(dir) = brought().filter(|dir| !dir.exists()) {
        make(&dir);
    }
}

#[test]
fn a_brought_store_is_sound_and_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let dir = brought().unwrap_or_else(|| {
        let (made, dir) = (root.path().join("made"), root.path().join("rollouts"));
        make(&made);
        std::fs::create_dir(&dir).unwrap();
        for entry in std::fs::read_dir(&made).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
        }
        dir
    });
    let reader = options().read_only(true).open(&dir).unwrap();
    assert_eq!(reader.len(), 19);
    drop(reader);
    for reads in [Reads::Mapped, Reads::Copied] {
        let store = options().reads(reads).open(&dir).unwrap();
        assert!(store.verify().unwrap().is_sound());
        let view = store.get(5.into()).unwrap().unwrap();
        assert_eq!(view.old_logps().unwrap(), [-0.5; 4_000]);
        store.insert(NewRollout::new(if reads == Reads::Mapped { 100 } else { 101 }, 1)).unwrap();
        store.close().unwrap();
    }
    let saved = root.path().join("saved");
    let store = options().open(&dir).unwrap();
    store.checkpoint(&saved).unwrap();
    store.retire(&[5.into()], Reason::Other).unwrap();
    store.close().unwrap();
    RolloutStore::restore(&saved, &dir).unwrap();
    let store = options().open(&dir).unwrap();
    assert_eq!(store.len(), 21);
    assert!(store.verify().unwrap().is_sound());
}
