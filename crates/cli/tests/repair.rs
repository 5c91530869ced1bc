//! Goal: `repair` acts on a yes alone, says what was lost and where the damaged files are, and refuses what it cannot
//! repair with the store as it was. Method: stores damaged at a known place, with and without a terminal to ask on.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{contents, files, flip, json, make_newer, marked_store, marker, rollstore, run, stderr, stdout, terminal};
use rollstore::RolloutStore;
use serde_json::json;
use tempfile::TempDir;

fn repair(store: &Path, options: &[&str]) -> Output {
    rollstore().arg("repair").arg(store).args(options).stdin(Stdio::null()).output().expect("the program starts")
}

fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let store = folder.path().join("store");
    marked_store(&store);
    (folder, store)
}

/// A store in which the data of rollout 3 is damaged, and the damaged file.
fn damaged_store() -> (TempDir, PathBuf, PathBuf) {
    let (folder, store) = store();
    let (segment, _) = flip(&store, &marker(3));
    (folder, store, segment)
}

fn is_sound(store: &Path) -> bool {
    run(["verify".as_ref(), store.as_os_str()]).status.success()
}

/// Runs a repair at a terminal, where it is answered once it asks; gives what the terminal showed too.
fn repair_at_a_terminal(store: &Path, answer: &str) -> (Output, String) {
    let (ours, theirs) = terminal();
    let mut program = rollstore();
    program.arg("repair").arg(store).stdin(theirs.try_clone().expect("a descriptor")).stderr(theirs);
    let child = program.stdout(Stdio::piped()).spawn().expect("the program starts");
    // It holds the terminal's other end, which closes with the program only once this is gone.
    drop(program);
    let (mut shown, mut is_answered) = (String::new(), false);
    let mut buffer = [0; 4096];
    // At the end, some systems give an error and others nothing more.
    while let Ok(read @ 1..) = rustix::io::read(&ours, &mut buffer) {
        shown.push_str(std::str::from_utf8(&buffer[..read]).expect("UTF-8"));
        if !is_answered && shown.ends_with("[y/N] ") {
            rustix::io::write(&ours, answer.as_bytes()).expect("the terminal takes the answer");
            is_answered = true;
        }
    }
    (child.wait_with_output().expect("the program ends"), shown)
}

#[test]
fn anything_but_a_yes_changes_nothing() {
    let (_folder, store, _) = damaged_store();
    let before = contents(&store);
    for answer in ["n\n", "\n", "yes please\n", "\u{4}"] {
        let (output, shown) = repair_at_a_terminal(&store, answer);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains("nothing was changed") && output.stdout.is_empty(), "{shown}");
        assert_eq!(contents(&store), before, "{answer:?}");
    }
}

#[test]
fn a_yes_repairs_after_what_is_damaged_and_what_will_be_done_were_shown() {
    for answer in ["y\n", "Yes\n"] {
        let (_folder, store, _) = damaged_store();
        let (output, shown) = repair_at_a_terminal(&store, answer);
        let told = ["affects   rollout 3", "moves seg-00000001.log to damaged/, unchanged", "every rollout stale if"];
        for line in told {
            assert!(shown.contains(line), "{line:?} is not in\n{shown}");
        }
        assert!(stdout(&output).contains(" lost       the newest data of rollout 3\n"));
        assert!(is_sound(&store));
    }
}

#[test]
fn without_a_terminal_and_without_a_yes_nothing_is_done() {
    let (_folder, store, _) = damaged_store();
    let before = contents(&store);
    for options in [&[][..], &["--json"]] {
        let output = repair(&store, options);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("affects   rollout 3"), "what would be repaired is shown: {told}");
        assert!(
            told.ends_with("not repaired: there is no terminal to ask on; --yes repairs without asking\n"),
            "{told}"
        );
        assert!(output.stdout.is_empty());
        assert_eq!(contents(&store), before);
    }
}

#[test]
fn what_was_lost_is_named_and_the_damaged_file_is_kept() {
    let (_folder, store, segment) = damaged_store();
    let damaged = std::fs::read(&segment).unwrap();
    let report = json(&repair(&store, &["--yes", "--json"]));
    let expected = json!({
        "rollouts_lost": ["3"], "frames_kept": 5, "set_aside": ["damaged/seg-00000001.log"], "all_stale": false,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(report[name], *value, "{name}: {report}");
    }
    assert_eq!(report["findings"][0]["rollouts"], json!(["3"]));
    assert_eq!(std::fs::read(store.join("damaged/seg-00000001.log")).unwrap(), damaged);
    assert!(is_sound(&store));
    let opened = RolloutStore::options().read_only(true).open(&store).unwrap();
    assert_eq!(opened.ids(), [0, 1, 2, 4].map(Into::into));
    assert!(opened.stale().is_empty());
}

#[test]
fn where_an_advance_may_be_lost_everything_is_stale_and_that_is_explained() {
    let (_folder, store) = store();
    flip(&store, b"the cursor");
    let told = stdout(&repair(&store, &["--yes"]));
    let lines = [
        " lost       what stood in 1 place without a rollout's name\n",
        " kept       5 whole frames of damaged files\n",
        " set aside  damaged/seg-00000001.log\n",
        " stale      every rollout: an advance or a retirement may be among what was lost.",
        "a rollout that had been retired may be back\n",
    ];
    for line in lines {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
    assert_eq!(RolloutStore::options().read_only(true).open(&store).unwrap().stale().len(), 5);
}

#[test]
fn a_missing_segment_is_lost_as_a_whole_and_nothing_is_set_aside() {
    let (_folder, store) = store();
    std::fs::remove_file(&files(&store, "seg-")[0]).unwrap();
    let asked = stderr(&repair(&store, &[]));
    assert!(!asked.contains("to damaged/"), "no file is there to move: {asked}");
    let told = stdout(&repair(&store, &["--yes"]));
    assert!(told.contains(" set aside  nothing: no damaged file was there\n stale      every rollout"), "{told}");
    assert!(is_sound(&store));
    assert!(RolloutStore::options().read_only(true).open(&store).unwrap().is_empty());
}

#[test]
fn a_sound_store_is_left_alone_without_a_question() {
    let (_folder, store) = store();
    let before = contents(&store);
    for options in [&[][..], &["--yes"]] {
        assert!(stdout(&repair(&store, options)).contains("nothing was damaged, and nothing was changed"));
    }
    let expected = json!({
        "findings": [], "rollouts_lost": [], "frames_kept": 0, "set_aside": [], "all_stale": false,
    });
    assert_eq!(json(&repair(&store, &["--json"])), expected);
    assert_eq!(contents(&store), before);
}

#[test]
fn what_cannot_be_repaired_is_exit_code_2_without_a_question_and_stays_as_it_is() {
    let (folder, sound) = store();
    let checkpoint = folder.path().join("checkpoint");
    RolloutStore::options().open(&sound).unwrap().checkpoint(&checkpoint).unwrap();
    flip(&checkpoint, &marker(3));
    let without_manifest = folder.path().join("without manifest");
    marked_store(&without_manifest);
    for manifest in files(&without_manifest, "MANIFEST-") {
        std::fs::remove_file(manifest).unwrap();
    }
    let newer = folder.path().join("newer");
    marked_store(&newer);
    make_newer(&newer);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let cases = [
        (checkpoint, "is a checkpoint, which never changes; restore another one"),
        (without_manifest, "without a manifest there is nothing to repair by: restore a checkpoint"),
        (newer, "format version 2"),
        (empty, "holds no store"),
    ];
    for (path, expected) in cases {
        let before = contents(&path);
        for options in [&[][..], &["--yes"], &["--yes", "--json"]] {
            let output = repair(&path, options);
            let told = stderr(&output);
            assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{}: {told}", path.display());
            assert!(told.contains(expected) && output.stdout.is_empty(), "{expected:?} is not in {told:?}");
            assert_eq!(contents(&path), before, "{}", path.display());
        }
    }
}

#[test]
fn a_store_that_a_trainer_has_open_is_not_repaired() {
    let (_folder, store, segment) = damaged_store();
    let trainer = RolloutStore::options().open(&store).unwrap();
    let output = repair(&store, &["--yes"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(&format!("held by another writer: pid {}", std::process::id())), "{told}");
    assert!(segment.exists() && !store.join("damaged").exists());
    drop(trainer);
    stdout(&repair(&store, &["--yes"]));
}
