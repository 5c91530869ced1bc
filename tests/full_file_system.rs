//! A file system that is really full (D12): the batch fails, nothing acknowledged is lost, and writing goes on when space
//! was freed.
//!
//! Method: `ROLLSTORE_TEST_FULL_DIR` names a directory on a small file system, which is filled to the last byte.
//! `cargo xtask filesystems` mounts one; without it there is nothing to fill, and the simulated disk stands for it
//! (`disk_faults`).

use std::io::Write;
use std::path::{Path, PathBuf};

use rollstore::{ErrorKind, NewRollout, Options, RolloutStore, limits};

const TOKENS: usize = 20_000;

fn small_disk() -> Option<PathBuf> {
    std::env::var_os("ROLLSTORE_TEST_FULL_DIR").map(PathBuf::from)
}

fn options() -> Options {
    RolloutStore::options().window(8).segment_bytes(limits::SEGMENT_BYTES_MIN * 16)
}

/// Takes all the space that is left, down to single bytes.
fn fill(path: &Path) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    for bytes in [1 << 20, 1 << 12, 1] {
        while file.write_all(&vec![7; bytes]).and_then(|()| file.sync_data()).is_ok() {}
    }
}

fn insert(store: &RolloutStore, id: u64) -> rollstore::Result<()> {
    store.insert(NewRollout::new(id, 1).old_logps(vec![-0.5; TOKENS], 0)).map(drop)
}

fn check(store: &RolloutStore, acknowledged: u64) {
    assert!(store.len() as u64 >= acknowledged, "{} of {acknowledged}", store.len());
    for id in 0..acknowledged {
        let view = store.get(id.into()).unwrap().unwrap_or_else(|| panic!("{id} is lost"));
        let logps = view.old_logps().unwrap();
        assert!(logps.len() == TOKENS && logps.iter().all(|logp| *logp == -0.5), "{id}");
    }
}

#[test]
fn d12_a_full_file_system_fails_batches_and_loses_none() {
    let Some(root) = small_disk() else { return };
    let (dir, ballast) = (root.join("rollouts"), root.join("ballast"));
    let mut store = options().open(&dir).unwrap();
    let mut acknowledged = 0;
    for round in 0..4 {
        for _ in 0..5 {
            insert(&store, acknowledged).unwrap();
            acknowledged += 1;
        }
        fill(&ballast);
        // The file system may still have a block here and there: it is full when a batch fails.
        let error = loop {
            match insert(&store, acknowledged) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Poisoned), "round {round}: {text}");
        assert!(text.contains("No space left") || text.contains("os error 28"), "round {round}: {text}");
        check(&store, acknowledged);
        let saved = store.checkpoint(root.join("saved")).map(drop);
        assert!(!root.join("saved.tmp").exists() && (saved.is_ok() || !root.join("saved").exists()), "{saved:?}");

        std::fs::remove_file(&ballast).unwrap();
        check(&store, acknowledged);
        // Where the batch was being written, the writer stopped; where its segment was being made, it goes on.
        if let Err(error) = insert(&store, acknowledged) {
            assert_eq!(error.kind(), ErrorKind::Poisoned, "round {round}: space returned: {error}");
            drop(store);
            store = options().open(&dir).unwrap_or_else(|error| panic!("round {round}: {error}"));
            // The batch that failed may be found whole.
            acknowledged = store.len() as u64;
            check(&store, acknowledged);
            insert(&store, acknowledged).unwrap_or_else(|error| panic!("round {round}: space returned: {error}"));
        }
        acknowledged += 1;
    }
    store.close().unwrap();
    let store = options().open(&dir).unwrap();
    check(&store, acknowledged);
    assert!(store.verify().unwrap().is_sound());
    // Opening and closing on a full file system loses nothing either.
    store.abandon();
    fill(&ballast);
    match options().open(&dir) {
        Ok(store) => check(&store, acknowledged),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
    }
    check(&options().read_only(true).open(&dir).unwrap(), acknowledged);
    std::fs::remove_file(&ballast).unwrap();
    let store = options().open(&dir).unwrap();
    check(&store, acknowledged);
    store.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
