//! Goal: `verify` tells a sound store from a damaged one and from what it cannot look at, names each damaged place, and
//! writes nothing. Method: stores that are whole, damaged at a known byte, or no stores at all, by output and exit code.

mod common;

use std::path::Path;
use std::process::Output;

use common::{contents, files, flip, json, make_newer, marked_store, marker, rollstore, stderr, stdout};
use rollstore::RolloutStore;
use serde_json::{Value, json};
use tempfile::TempDir;

fn verify(store: &Path, options: &[&str]) -> Output {
    rollstore().arg("verify").arg(store).args(options).output().expect("the program starts")
}

/// What a damaged store gives: exit code 1, and the report all the same.
fn damaged(store: &Path) -> Value {
    let output = verify(store, &["--json"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

fn store() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let store = folder.path().join("store");
    marked_store(&store);
    (folder, store)
}

#[test]
fn a_sound_store_is_said_to_be_so_with_what_was_checked() {
    let (_folder, store) = store();
    let report = json(&verify(&store, &["--json"]));
    let segments = files(&store, "seg-");
    let expected = json!({
        "sound": true, "checkpoint": false, "segments": segments.len(), "frames": 6, "in_flight_bytes": 0, "last_lsn": 6,
        "bytes": segments.iter().map(|segment| segment.metadata().unwrap().len()).sum::<u64>(), "findings": [],
    });
    assert_eq!(report, expected);
    let told = String::from_utf8(verify(&store, &[]).stdout).expect("text");
    assert!(
        told.contains(" checked    1 segment, 6 frames, ") && told.contains("KiB\n in flight  nothing\n"),
        "{told}"
    );
    assert!(told.ends_with(" sound      every byte is what was written\n"), "{told}");
}

#[test]
fn a_damaged_byte_is_named_by_file_offset_and_rollout_and_hides_no_other() {
    let (_folder, store) = store();
    let (segment, at) = flip(&store, &marker(3));
    flip(&store, &marker(1));
    let before = contents(&store);
    let report = damaged(&store);
    assert_eq!(report["sound"], false);
    assert_eq!(report["frames"], 4, "whole ones");
    let findings = report["findings"].as_array().unwrap();
    let rollouts: Vec<&Value> = findings.iter().map(|finding| &finding["rollouts"]).collect();
    assert_eq!(rollouts, [&json!(["1"]), &json!(["3"])]);
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert_eq!((&findings[1]["file"], &findings[1]["offset"]), (&json!(name), &json!(at)));

    let output = verify(&store, &[]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    let told = String::from_utf8(output.stdout).unwrap();
    let (expected, found) = (findings[1]["expected"].as_str().unwrap(), findings[1]["found"].as_str().unwrap());
    assert!(told.contains(" damaged    2 places\n"), "{told}");
    let place =
        format!("\n {name} at byte {at}\n   expected  {expected}\n   found     {found}\n   affects   rollout 3\n");
    assert!(told.contains(&place), "{place:?} is not in\n{told}");
    assert!(told.contains("\"rollstore repair\""), "{told}");
    assert_eq!(contents(&store), before, "nothing was written");
}

#[test]
fn a_missing_segment_and_a_missing_manifest_are_damage_and_no_empty_store() {
    let (_folder, store) = store();
    let segment = files(&store, "seg-").remove(0);
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::remove_file(&segment).unwrap();
    let report = damaged(&store);
    let expected = json!([{
        "file": segment.file_name().unwrap().to_str(), "offset": 0, "expected": "a segment that the manifest lists",
        "found": "no file", "rollouts": [],
    }]);
    assert_eq!(report["findings"], expected);

    std::fs::write(&segment, bytes).unwrap();
    for manifest in files(&store, "MANIFEST-") {
        std::fs::remove_file(manifest).unwrap();
    }
    let report = damaged(&store);
    assert_eq!((&report["segments"], &report["findings"][0]["expected"]), (&json!(0), &json!("a manifest beside it")));
    let told = String::from_utf8(verify(&store, &[]).stdout).expect("text");
    assert!(told.contains("restore a checkpoint; without a manifest there is nothing to repair by"), "{told}");
}

#[test]
fn a_checkpoint_is_verified_as_one_and_can_be_damaged_too() {
    let (folder, store) = store();
    let saved = folder.path().join("saved");
    RolloutStore::options().open(&store).unwrap().checkpoint(&saved).unwrap();
    assert!(stdout(&verify(&saved, &[])).contains("saved   a checkpoint\n"));
    assert_eq!(json(&verify(&saved, &["--json"]))["checkpoint"], true);
    flip(&saved, &marker(0));
    let report = damaged(&saved);
    assert_eq!((&report["checkpoint"], &report["findings"][0]["rollouts"]), (&json!(true), &json!(["0"])));
    let told = String::from_utf8(verify(&saved, &[]).stdout).unwrap();
    assert!(told.contains("restore another checkpoint") && !told.contains("rollstore repair"), "{told}");
}

#[test]
fn a_write_that_a_crash_cut_short_is_in_flight_and_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    marked_store(&store);
    let open = RolloutStore::options().open(&store).unwrap();
    open.set_cursor(b"another").unwrap();
    open.abandon();
    let newest = files(&store, "seg-").pop().unwrap();
    let mut bytes = std::fs::read(&newest).unwrap();
    let whole = bytes.len();
    bytes.extend([0xab; 1000]);
    std::fs::write(&newest, bytes).unwrap();
    let report = json(&verify(&store, &["--json"]));
    assert_eq!((&report["sound"], &report["in_flight_bytes"]), (&json!(true), &json!(1000)), "behind {whole} bytes");
    let told = String::from_utf8(verify(&store, &[]).stdout).expect("text");
    assert!(told.contains(" in flight  1000 B behind the last whole batch"), "{told}");
}

#[test]
fn what_cannot_be_looked_at_is_exit_code_2_and_one_line() {
    let (folder, newer) = store();
    make_newer(&newer);
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let cases = [
        (folder.path().join("absent"), "holds no store"),
        (empty.clone(), "holds no store"),
        (file, "Not a directory"),
        (newer, "format version 2"),
    ];
    for (path, expected) in cases {
        for options in [&[][..], &["--json"]] {
            let output = verify(&path, options);
            let told = stderr(&output);
            assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{}: {told}", path.display());
            assert!(told.contains(expected) && output.stdout.is_empty(), "{expected:?} is not in {told:?}");
        }
    }
    assert!(contents(&empty).is_empty() && !folder.path().join("absent").exists());
}
