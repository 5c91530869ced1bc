//! What `dump` wrote, `load` makes a store of that is equal, in every format.
//!
//! Method: a store whose rollouts carry everything that one can carry is dumped and loaded; `diff` finds no rollout that
//! differs, and both stores print the same JSON, in which every bit of every value shows.

mod common;

use common::rich::{fill, rewound};
use common::{json_lines, run, stderr, stdout};
use rollstore::{Clocks, RolloutStore};
use serde_json::Value;
use std::path::{Path, PathBuf};

const FORMATS: [&str; 3] = ["jsonl", "parquet", "safetensors"];

/// The rollouts of a store as JSON, by id.
fn rollouts(store: &Path) -> Vec<Value> {
    let mut lines = json_lines(&run(["dump".as_ref(), store.as_os_str()]));
    assert!(lines.pop().is_some_and(|mark| mark.get("rollstore").is_some()), "the last line is the mark");
    lines.sort_by_key(|line| line["id"].as_str().map(|id| id.parse::<u64>().unwrap()));
    lines
}

fn dump(store: &Path, file: &Path, options: &[&str]) {
    let output = common::rollstore().arg("dump").arg(store).arg("-o").arg(file).args(options).output().unwrap();
    stdout(&output);
}

fn load(file: &Path, store: &Path) {
    let output = common::rollstore().arg("load").arg(file).arg("-o").arg(store).output().unwrap();
    stdout(&output);
}

/// What `diff` tells of rollouts, and of what a new store must have of the old one.
fn differences(a: &Path, b: &Path) -> Vec<Value> {
    let output = run(["diff".as_ref(), a.as_os_str(), b.as_os_str(), "--json".as_ref()]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // A new store counts its own life.
    lines.filter(|line| !line["what"].as_str().is_some_and(|what| what.starts_with("counters."))).collect()
}

fn clocks(store: &Path) -> Clocks {
    RolloutStore::options().read_only(true).open(store).unwrap().clocks()
}

fn there_and_back(original: &Path, folder: &Path) {
    for format in FORMATS {
        let (file, copy) = (folder.join(format!("all.{format}")), folder.join(format!("from-{format}")));
        dump(original, &file, &[]);
        load(&file, &copy);
        assert_eq!(differences(original, &copy), Vec::<Value>::new(), "{format}");
        let (ours, theirs) = (rollouts(original), rollouts(&copy));
        assert_eq!(ours.len(), theirs.len(), "{format}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{format}");
        }
        assert_eq!(clocks(original), clocks(&copy), "{format}");
    }
}

#[test]
fn everything_that_a_rollout_carries_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    there_and_back(&store, dir.path());
}

#[test]
fn versions_that_a_rewind_abandoned_stay_abandoned() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    rewound(&store);
    there_and_back(&store, dir.path());
}

#[test]
fn a_store_without_rollouts_comes_back_empty_with_its_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let empty = RolloutStore::options().window(3).open(&store).unwrap();
    empty.advance_ref_version(7, Some(70)).unwrap();
    empty.close().unwrap();
    there_and_back(&store, dir.path());
}

#[test]
fn the_run_identity_comes_along_so_that_the_trainer_may_open_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    for format in FORMATS {
        let (file, copy) = (dir.path().join(format!("all.{format}")), dir.path().join(format!("from-{format}")));
        dump(&store, &file, &[]);
        load(&file, &copy);
        let opened = RolloutStore::options().run_identity(b"model \xff, T = 1").open(&copy);
        assert!(opened.is_ok_and(|store| store.cursor().as_deref() == Some(b"row 17")), "{format}");
    }
}

#[test]
fn a_filter_and_a_choice_of_columns_load_as_what_was_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    for format in FORMATS {
        let (file, copy) = (dir.path().join(format!("some.{format}")), dir.path().join(format!("from-{format}")));
        dump(&store, &file, &["--id", "2..5", "--columns", "completion_ids,half"]);
        load(&file, &copy);
        let chosen = rollouts(&copy);
        let ids: Vec<&str> = chosen.iter().filter_map(|line| line["id"].as_str()).collect();
        assert_eq!(ids, ["2", "3", "4", "5"], "{format}");
        for line in &chosen {
            let names: Vec<&String> = line["columns"].as_object().unwrap().keys().collect();
            assert!(
                names.iter().all(|name| ["completion_ids", "half"].contains(&name.as_str())),
                "{format}: {names:?}"
            );
        }
        assert!(chosen.iter().any(|line| line["columns"].get("half").is_some()), "{format}");
    }
}

#[test]
fn a_column_that_no_rollout_has_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    for format in FORMATS {
        let file = dir.path().join(format!("some.{format}"));
        let columns = ["--columns", "half,old_logprobs"];
        let output = common::rollstore().arg("dump").arg(&store).arg("-o").arg(file).args(columns).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(stderr(&output), "rollstore: no rollout of these has a column \"old_logprobs\"\n", "{format}");
    }
}

#[test]
fn formats_load_what_the_others_wrote_of_the_same_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    let files: Vec<PathBuf> = FORMATS.iter().map(|format| dir.path().join(format!("part.{format}"))).collect();
    for (file, ids) in files.iter().zip(["..2", "3..4", "5.."]) {
        dump(&store, file, &["--id", ids]);
    }
    let copy = dir.path().join("copy");
    let output = common::rollstore().arg("load").args(&files).arg("-o").arg(&copy).output().unwrap();
    assert!(stdout(&output).contains("from 3 files"), "{}", stderr(&output));
    assert_eq!(differences(&store, &copy), Vec::<Value>::new());
}
