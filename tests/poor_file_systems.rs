//! File systems that cannot do something: no hard links (each error that such a refusal has in the field), no maps, and
//! names of their own in every directory. The store does the same with other means, and leaves what is not its own.
//!
//! Method: a hook refuses the operation, on the simulated disk and on real files. Refused locks are in `fencing`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore::disk::sim::{Fault, OpKind, SimDisk};
use rollstore::{Checkpointed, ErrorKind, Options, Reads, Reason, RolloutStore};
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, check_content, options, rollout, rollout_of};

/// A disk that refuses every operation of one kind, with this number of the system's errors.
fn refusing(inner: Arc<dyn Disk>, kind: OpKind, errno: i32) -> Arc<dyn Disk> {
    Arc::new(Hooked::new(
        inner,
        move |of, _| {
            if of == kind { Err(io::Error::from_raw_os_error(errno)) } else { Ok(()) }
        },
    ))
}

/// Several segments, an end of life, an advance.
fn fill(store: &RolloutStore) {
    for id in 0..20 {
        store.insert(rollout_of(id, 0, 0, 2_000)).unwrap();
    }
    store.retire(&[3.into()], Reason::Trained).unwrap();
    store.advance_ref_version(1, None).unwrap();
}

#[test]
fn whatever_the_reason_that_files_cannot_be_linked_they_are_copied() {
    for errno in [libc::ENOTSUP, libc::EPERM, libc::EIO, libc::EXDEV, libc::EMLINK, libc::ENOSYS, libc::EACCES] {
        let when = io::Error::from_raw_os_error(errno);
        let disk = refusing(Arc::new(SimDisk::new()), OpKind::HardLink, errno);
        let store = options(Arc::clone(&disk)).open(DIR).unwrap();
        fill(&store);
        let made = store.checkpoint("/saved").unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(matches!(made, Checkpointed::Copied { bytes } if bytes > 20 * 8_000), "{when}: {made:?}");
        store.insert(rollout(30, 1, 0)).unwrap();
        store.close().unwrap();
        options(Arc::clone(&disk)).restore("/saved", DIR).unwrap_or_else(|error| panic!("{when}: {error}"));
        options(Arc::clone(&disk)).restore("/saved", "/elsewhere").unwrap_or_else(|error| panic!("{when}: {error}"));
        let there = options(Arc::clone(&disk)).open("/elsewhere").unwrap();
        assert_eq!(there.len(), 19, "{when}");
        let here = options(disk).open(DIR).unwrap();
        assert_eq!(here.ids(), there.ids(), "{when}");
        for id in here.ids() {
            check_content(&here.get(id).unwrap().unwrap());
        }
    }
}

#[test]
fn half_of_a_copied_checkpoint_is_removed() {
    let sim = SimDisk::new().with_hard_links(false);
    let store = options(Arc::new(sim.clone())).open(DIR).unwrap();
    fill(&store);
    for (kind, name) in [(OpKind::Create, "seg-00000002.log"), (OpKind::Write, "seg-00000002.log")] {
        sim.fail_next(kind, &format!("saved.tmp/{name}"), Fault::Enospc);
        assert_eq!(store.checkpoint("/saved").unwrap_err().kind(), ErrorKind::Full, "{kind:?}");
        let names = sim.list("/".as_ref()).unwrap();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("saved")), "{kind:?}: {names:?}");
    }
    store.checkpoint("/saved").unwrap();
    assert_eq!(options(Arc::new(sim)).read_only(true).open("/saved").unwrap().len(), 19);
}

#[test]
fn where_mapping_fails_reads_copy_and_the_answers_are_the_same() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("rollouts");
    let mapped = |disk: Arc<dyn Disk>| -> Options { options(disk).reads(Reads::Mapped) };
    for errno in [libc::ENOMEM, libc::ENODEV, libc::EACCES] {
        let disk = refusing(Arc::new(OsDisk), OpKind::Map, errno);
        let store = mapped(Arc::clone(&disk)).open(&dir).unwrap();
        if store.is_empty() {
            fill(&store);
        }
        let here = StoreState::of(&store).unwrap();
        let view = store.get(5.into()).unwrap().unwrap();
        store.close().unwrap();
        check_content(&view);
        let store = mapped(Arc::new(OsDisk)).open(&dir).unwrap();
        assert_same(&StoreState::of(&store).unwrap(), &here, io::Error::from_raw_os_error(errno));
        store.close().unwrap();
        let reader = mapped(disk).read_only(true).open(&dir).unwrap();
        assert_same(&StoreState::of(&reader).unwrap(), &here, "read-only");
        assert!(reader.verify().unwrap().is_sound());
    }
}

/// Names that file systems and desktops leave about: a file held open on NFS, a folder's colours, what fsck found.
const STRANGE: [&str; 3] = [".nfs0000abcd", ".DS_Store", "lost+found"];

/// Puts strange names into a directory, which is made if missing.
fn strew(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for name in STRANGE {
        let path = dir.join(name);
        if path.exists() {
            continue;
        }
        if name == "lost+found" {
            std::fs::create_dir(path).unwrap();
        } else {
            std::fs::write(path, name).unwrap();
        }
    }
}

/// How many of them there are in these directories together, each as it was made.
fn strange_in(dirs: &[&PathBuf]) -> usize {
    let is_there = |path: &PathBuf| match path.file_name().and_then(|name| name.to_str()) {
        Some("lost+found") => path.is_dir(),
        Some(name) => std::fs::read(path).is_ok_and(|found| found == name.as_bytes()),
        None => false,
    };
    let paths = dirs.iter().flat_map(|dir| STRANGE.map(|name| dir.join(name)));
    paths.filter(is_there).count()
}

#[test]
fn strange_names_are_in_nobodys_way_and_stay_where_a_store_saved_restored_or_repaired_is() {
    let root = tempfile::tempdir().unwrap();
    let [run, saved, unfinished, fresh] = ["run", "saved", "saved.tmp", "fresh"].map(|name| root.path().join(name));
    let options = || options(Arc::new(OsDisk));
    // Beside a new store, a new checkpoint and what becomes of the one before it.
    [&run, &unfinished, &fresh].into_iter().for_each(|dir| strew(dir));
    let store = options().open(&run).unwrap();
    fill(&store);
    for id in 20..24 {
        store.insert(rollout(id, 1, 0)).unwrap();
        store.checkpoint(&saved).unwrap_or_else(|error| panic!("checkpoint {id}: {error}"));
        strew(&saved);
        let reader = options().read_only(true).open(&saved).unwrap();
        assert_eq!(reader.ids(), store.ids());
        assert!(reader.verify().unwrap().is_sound());
        assert!(strange_in(&[&saved, &unfinished]) >= STRANGE.len(), "checkpoint {id} removed what is not its own");
    }
    store.close().unwrap();
    for dir in [&run, &fresh] {
        RolloutStore::restore(&saved, dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let store = options().open(dir).unwrap();
        assert_eq!(store.len(), 23);
        store.close().unwrap();
    }
    let segment = std::fs::read_dir(&fresh).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|extension| extension == "log")).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    // A file of its own: a checkpoint shares the old one.
    std::fs::remove_file(&segment).unwrap();
    std::fs::write(&segment, bytes).unwrap();
    assert!(!RolloutStore::repair(&fresh).unwrap().findings.is_empty());
    assert_eq!(strange_in(&[&run, &fresh]), 2 * STRANGE.len(), "a restore or a repair removed what is not its own");
}

#[test]
fn a_replaced_checkpoint_whose_directory_cannot_be_removed_is_only_warned_of() {
    for errno in [libc::ENOTEMPTY, libc::EBUSY, libc::EACCES] {
        let disk = refusing(Arc::new(SimDisk::new()), OpKind::RemoveDir, errno);
        let store = options(Arc::clone(&disk)).open(DIR).unwrap();
        for id in 0..4 {
            store.insert(rollout(id, 0, 0)).unwrap();
            let made = store.checkpoint("/saved");
            made.unwrap_or_else(|error| panic!("{}, {id}: {error}", io::Error::from_raw_os_error(errno)));
            let saved = options(Arc::clone(&disk)).read_only(true).open("/saved").unwrap();
            assert_eq!(saved.ids(), store.ids());
        }
    }
}
