//! A checkpoint is the store as of one moment, complete or absent; a restore brings exactly that moment back.
//!
//! Method: what a store answers is written down as text and compared, between checkpoint, store and restored store.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Checkpointed, ErrorKind, NewRollout, Options, Reason, RolloutStore, Stale};
use rollstore_testkit::scratch::is_written_behind;
use rollstore_testkit::store::sorted;
use rollstore_testkit::values::logp;

fn options() -> Options {
    RolloutStore::options().window(8).segment_bytes(64 << 10)
}

fn rollout(id: u64, version: u64) -> NewRollout<'static> {
    NewRollout::new(id, 1).completion_ids(vec![1; 500]).old_logps(vec![logp(id); 500], version)
}

/// Some segments' worth of rollouts, an advance, a retirement and a cursor.
fn fill(store: &RolloutStore) {
    for id in 0..60 {
        store.insert(rollout(id, 0)).unwrap();
    }
    store.advance_ref_version(5, Some(50)).unwrap();
    store.insert(rollout(60, 1)).unwrap();
    store.retire(&[3.into()], Reason::Trained).unwrap();
    store.set_cursor(b"row 61").unwrap();
}

/// Everything that a restore must bring back.
fn answers(store: &RolloutStore) -> String {
    let mut text = String::new();
    let stats = store.stats().unwrap();
    writeln!(text, "{:?} {:?} {:?}", store.cursor(), store.clock(), stats.counters).unwrap();
    writeln!(text, "{} {} {:?}", stats.live, store.ref_version(), store.ref_version_of(50)).unwrap();
    writeln!(text, "{:?} {:?}", sorted(store.stale()), sorted(store.out_of_window(11))).unwrap();
    for id in store.ids() {
        let view = store.get(id).unwrap().unwrap();
        let logps = view.old_logps().unwrap();
        writeln!(text, "{id} {} {:?} {:?}", view.insert_lsn(), view.staleness(11), logps.first()).unwrap();
    }
    text
}

fn read_only(dir: &Path) -> RolloutStore {
    RolloutStore::options().read_only(true).open(dir).unwrap()
}

/// A digest of each file, and 0 for a directory.
fn contents(dir: &Path) -> BTreeMap<OsString, u64> {
    let digest = |path: &Path| {
        let mut hasher = DefaultHasher::new();
        std::fs::read(path).unwrap().hash(&mut hasher);
        hasher.finish()
    };
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| !is_written_behind(&entry.file_name()));
    entries.map(|entry| (entry.file_name(), if entry.path().is_dir() { 0 } else { digest(&entry.path()) })).collect()
}

#[test]
fn d8_a_checkpoint_is_its_moment_while_the_writer_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let (run, saved) = (root.path().join("run"), root.path().join("saved"));
    let store = options().open(&run).unwrap();
    fill(&store);
    let moment = answers(&store);
    assert_eq!(store.checkpoint(&saved).unwrap(), Checkpointed::Linked);
    let bytes = contents(&saved);

    store.retire(&(0..40).map(Into::into).collect::<Vec<_>>(), Reason::Stale).unwrap();
    for id in 100..160 {
        store.insert(rollout(id, 1)).unwrap();
    }
    store.advance_ref_version(6, Some(60)).unwrap();
    assert_eq!(answers(&read_only(&saved)), moment);
    store.close().unwrap();
    options().open(&run).unwrap().insert(rollout(200, 0)).unwrap();
    assert_eq!(contents(&saved), bytes, "a byte of it changed");
    assert_eq!(answers(&read_only(&saved)), moment);
}

#[test]
fn a_checkpoint_replaces_one_of_its_run_in_one_step() {
    let root = tempfile::tempdir().unwrap();
    let saved = root.path().join("deep/er/saved");
    let store = options().open(root.path().join("run")).unwrap();
    fill(&store);
    store.checkpoint(&saved).unwrap();
    let first = read_only(&saved);
    let (before, held) = (answers(&first), first.get(60.into()).unwrap().unwrap());
    store.insert(rollout(61, 1)).unwrap();
    let moment = answers(&store);
    store.checkpoint(&saved).unwrap();
    assert_eq!(answers(&read_only(&saved)), moment);
    assert_eq!(held.old_logps().unwrap(), [-60.0; 500], "a reader of the replaced one keeps what it has");
    assert_ne!(before, moment);
    // A network file system keeps a removed file under another name for as long as someone has it open.
    drop((first, held));
    // An unchanged store can be saved again.
    store.checkpoint(&saved).unwrap();
    assert_eq!(answers(&read_only(&saved)), moment);
    let names: Vec<_> = std::fs::read_dir(saved.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["saved"], "nothing else is left");
}

#[test]
fn a_checkpoint_takes_the_place_of_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = options().open(path("run")).unwrap();
    fill(&store);
    let other = options().open(path("other")).unwrap();
    other.insert(rollout(1, 0)).unwrap();
    other.checkpoint(path("of another run")).unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::create_dir(path("foreign")).unwrap();
    std::fs::write(path("foreign").join("thesis.txt"), "years of work").unwrap();
    store.checkpoint(path("mixed")).unwrap();
    std::fs::write(path("mixed").join("notes.txt"), "about this checkpoint").unwrap();
    std::fs::write(path("file"), "not a directory").unwrap();
    let targets = ["run", "other", "of another run", "empty", "foreign", "mixed", "file"];
    for name in targets {
        let before = if name == "file" { BTreeMap::new() } else { contents(&path(name)) };
        let error = store.checkpoint(path(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert!(error.to_string().contains(path(name).to_str().unwrap()), "{name}: {error}");
        if name == "file" {
            assert_eq!(std::fs::read(path(name)).unwrap(), b"not a directory");
        } else if name != "run" {
            assert_eq!(contents(&path(name)), before, "{name} changed");
        }
        assert!(!path(&format!("{name}.tmp")).exists(), "{name}: something unfinished is left");
    }
    store.insert(rollout(61, 1)).unwrap();
}

#[test]
fn a_store_that_bears_the_unfinished_name_is_not_cleared() {
    let root = tempfile::tempdir().unwrap();
    let store = options().open(root.path().join("run")).unwrap();
    let other = options().open(root.path().join("saved.tmp")).unwrap();
    other.insert(rollout(1, 0)).unwrap();
    other.close().unwrap();
    let before = contents(&root.path().join("saved.tmp"));
    assert_eq!(store.checkpoint(root.path().join("saved")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(contents(&root.path().join("saved.tmp")), before);
}

#[test]
fn a_path_that_ends_in_a_slash_is_the_path_without_it() {
    let root = tempfile::tempdir().unwrap();
    let store = options().open(root.path().join("run/")).unwrap();
    fill(&store);
    for _ in 0..2 {
        store.checkpoint(root.path().join("saved/")).unwrap();
    }
    assert_eq!(answers(&read_only(&root.path().join("saved"))), answers(&store));
    let names: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_checkpoint_kept_under_another_name_is_not_cleared() {
    for exchange in [true, false] {
        let disk = Arc::new(SimDisk::new().with_exchange(exchange));
        let store = options().disk(disk.clone()).open("/run").unwrap();
        fill(&store);
        store.checkpoint("/saved.old").unwrap();
        for _ in 0..2 {
            store.checkpoint("/saved").unwrap();
        }
        let kept = RolloutStore::options().read_only(true).disk(disk.clone()).open("/saved.old");
        assert_eq!(answers(&kept.unwrap()), answers(&store), "exchange {exchange}");
    }
}

#[test]
fn names_that_file_systems_leave_about_are_in_nobodys_way() {
    let root = tempfile::tempdir().unwrap();
    let (run, saved) = (root.path().join("run"), root.path().join("saved"));
    std::fs::create_dir(&run).unwrap();
    std::fs::create_dir(run.join("lost+found")).unwrap();
    let store = options().open(&run).unwrap();
    fill(&store);
    store.checkpoint(&saved).unwrap();
    for dir in [&run, &saved] {
        std::fs::write(dir.join(".nfs0000abcd"), "held by someone").unwrap();
        std::fs::write(dir.join(".DS_Store"), "folder colours").unwrap();
    }
    for id in 61..65 {
        store.insert(rollout(id, 1)).unwrap();
        let moment = answers(&store);
        store.checkpoint(&saved).unwrap();
        assert_eq!(answers(&read_only(&saved)), moment);
    }
    assert!(run.join(".nfs0000abcd").exists());
    store.close().unwrap();
    RolloutStore::restore(&saved, &run).unwrap();
    assert_eq!(options().open(&run).unwrap().len(), 64);
}

#[test]
fn where_files_cannot_be_linked_or_swapped_they_are_copied_and_renamed() {
    for exchange in [true, false] {
        let disk = Arc::new(SimDisk::new().with_hard_links(false).with_exchange(exchange));
        let options = || options().disk(disk.clone());
        let store = options().open("/run").unwrap();
        fill(&store);
        let Checkpointed::Copied { bytes } = store.checkpoint("/saved").unwrap() else { panic!("nothing was copied") };
        assert_eq!(bytes, disk.counts().write_bytes.min(bytes), "copied bytes were written");
        assert!(bytes > 60 * 4_000, "{bytes}");
        store.insert(rollout(61, 1)).unwrap();
        let moment = answers(&store);
        assert!(matches!(store.checkpoint("/saved").unwrap(), Checkpointed::Copied { .. }));
        let saved = RolloutStore::options().read_only(true).disk(disk.clone()).open("/saved").unwrap();
        assert_eq!(answers(&saved), moment, "exchange {exchange}");
        store.advance_ref_version(7, None).unwrap();
        store.close().unwrap();
        options().restore("/saved", "/run").unwrap();
        assert_eq!(answers(&options().open("/run").unwrap()), moment);
    }
}

#[test]
fn a_checkpoint_opens_as_it_is_for_reading_and_is_refused_for_writing() {
    let root = tempfile::tempdir().unwrap();
    let saved = root.path().join("saved");
    let store = options().open(root.path().join("run")).unwrap();
    fill(&store);
    store.checkpoint(&saved).unwrap();
    let bytes = contents(&saved);
    let reader = read_only(&saved);
    assert_eq!(reader.insert(rollout(99, 0)).unwrap_err().kind(), ErrorKind::Invalid);
    reader.close().unwrap();
    let error = options().open(&saved).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("read-only") && error.to_string().contains("restore"), "{error}");
    assert_eq!(
        RolloutStore::restore(root.path().join("run"), root.path().join("x")).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(RolloutStore::restore(&saved, &saved).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(contents(&saved), bytes, "an opening left something behind");
}

#[test]
fn deleting_checkpoints_or_the_store_hurts_nobody_else() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = options().open(path("run")).unwrap();
    fill(&store);
    for name in ["first", "second", "third"] {
        store.checkpoint(path(name)).unwrap();
    }
    let moment = answers(&store);
    // Each in its own way: one is removed, one is cut and written over by hand. Links share bytes, so the second way is
    // kept for a restored store that must not depend on it: see below.
    std::fs::remove_dir_all(path("first")).unwrap();
    assert_eq!(answers(&store), moment);
    assert_eq!(answers(&read_only(&path("second"))), moment);
    store.close().unwrap();
    std::fs::remove_dir_all(path("run")).unwrap();
    assert_eq!(answers(&read_only(&path("second"))), moment);
    RolloutStore::restore(path("second"), path("run")).unwrap();
    std::fs::remove_dir_all(path("second")).unwrap();
    assert_eq!(answers(&options().open(path("run")).unwrap()), moment, "restored from a checkpoint alone");
    assert_eq!(answers(&read_only(&path("third"))), moment);
}

#[test]
fn relative_paths_work_and_everything_can_be_moved() {
    let root = tempfile::tempdir().unwrap();
    let here = std::env::current_dir().unwrap();
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(root.path().join("out").strip_prefix("/").unwrap());
    let store = options().open(relative.join("run")).unwrap();
    fill(&store);
    store.checkpoint(relative.join("saved")).unwrap();
    let moment = answers(&store);
    store.advance_ref_version(6, None).unwrap();
    store.close().unwrap();
    let moved = root.path().join("moved");
    std::fs::rename(root.path().join("out"), &moved).unwrap();
    assert_eq!(answers(&read_only(&moved.join("saved"))), moment);
    assert_eq!(options().open(moved.join("run")).unwrap().ref_version(), 2);
    RolloutStore::restore(moved.join("saved"), moved.join("run")).unwrap();
    assert_eq!(answers(&options().open(moved.join("run")).unwrap()), moment);
    let path = root.path().to_str().unwrap().as_bytes().to_vec();
    for name in contents(&moved.join("saved")).into_keys() {
        let bytes = std::fs::read(moved.join("saved").join(&name)).unwrap();
        assert!(!bytes.windows(path.len()).any(|window| window == path), "{name:?} holds an absolute path");
    }
    let mut out = rollstore::Flat::<f32>::default();
    let reader = read_only(&moved.join("saved"));
    reader.gather(&[60.into()], rollstore::Column::OldLogps, 5, Stale::Error, &mut out).unwrap();
    assert_eq!(out.values, [-60.0; 500]);
}

#[test]
fn a_path_with_a_slash_or_dot_behind_it_is_the_same_path() {
    let root = tempfile::tempdir().unwrap();
    let store = options().open(root.path().join("rollouts")).unwrap();
    for (id, path) in (0..).zip(["saved/", "saved", "saved/.", "saved/", "new/."]) {
        store.insert(rollout(id, 0)).unwrap();
        store.checkpoint(root.path().join(path)).unwrap();
        let saved = options().read_only(true).open(root.path().join(path)).unwrap();
        assert_eq!(saved.ids(), store.ids(), "{path}");
    }
    for path in ["", ".", "/", ".."] {
        let error = store.checkpoint(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
    }
}

#[test]
fn d8_a_link_at_the_path_or_beside_it_costs_no_checkpoint_that_it_leads_to() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let store = options().open(path("rollouts")).unwrap();
    store.insert(rollout(0, 0)).unwrap();
    store.checkpoint(path("first")).unwrap();
    for name in ["latest", "other.tmp"] {
        std::os::unix::fs::symlink("first", path(name)).unwrap();
    }
    store.insert(rollout(1, 0)).unwrap();
    for name in ["latest", "other"] {
        let error = store.checkpoint(path(name)).unwrap_err();
        assert!(error.to_string().contains("is a link"), "{name}: {error}");
    }
    for name in ["first", "latest", "other.tmp"] {
        let saved = options().read_only(true).open(path(name)).unwrap();
        assert_eq!(saved.ids(), [0.into()], "{name}");
    }
}
