//! Goal: `log` shows every frame where it stands, and `--follow` what is written from then on. Method: stores made through the
//! library are read whole, by segment, by id and damaged; a follower runs while this process writes.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{flip, json_lines, marked_store, marker, rollstore, stderr, stdout};
use rollstore::{NewRollout, Reason, RolloutStore};
use serde_json::{Value, json};
use tempfile::TempDir;

const LARGE: u64 = (1 << 53) + 1;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let store = folder.path().join("store");
    (folder, store)
}

fn log(store: &Path, options: &[&str]) -> Output {
    rollstore().arg("log").arg(store).args(options).output().expect("the program starts")
}

/// A store of two rollouts, one of which ended, an advance and a sweep's name that steers a terminal.
fn fill(store: &Path) -> RolloutStore {
    let store = RolloutStore::options().window(8).open(store).unwrap();
    store
        .insert(NewRollout::new(LARGE, 3).completion_ids(vec![1, 2]).old_logps(vec![-0.5; 2], 0).group(LARGE))
        .unwrap();
    store.insert(NewRollout::new(4, 3)).unwrap();
    store.advance_ref_version(5, Some(LARGE)).unwrap();
    store.retire(&[4.into()], Reason::Stale).unwrap();
    store
}

#[test]
fn each_frame_is_a_line_that_says_where_it_is_and_what_it_says() {
    let (_folder, store) = folder();
    let open = fill(&store);
    let table = stdout(&log(&store, &[]));
    let told: Vec<&str> =
        table.lines().skip(1).map(|line| line.split_once("insert  ").map_or(line, |(_, said)| said.trim())).collect();
    assert_eq!(told[0], "rollout 9007199254740993: 2 tokens, created at step 3, version 0, group 9007199254740993");
    assert_eq!(told[1], "rollout 4: 0 tokens, created at step 3, no old logps");
    assert!(told[2].ends_with("advance     ref version 1, step 5, label 9007199254740993"), "{table}");
    assert!(told[3].ends_with("retire      1 rollout (4) stale, 1 of them unused"), "{table}");
    let lines = json_lines(&log(&store, &["--json"]));
    assert_eq!(lines.len(), told.len());
    assert_eq!(lines[0]["rollout"], "9007199254740993");
    assert_eq!(lines[2]["said"], json!({"ref_version": 1, "label": "9007199254740993", "step": 5}));
    let victim = json!({"rollout": "4", "incarnation": 2});
    assert_eq!(lines[3]["said"], json!({"rollouts": [victim], "reason": "stale", "unused": 1}));
    let fields: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    let stable =
        ["bytes", "frames_in_batch", "incarnation", "kind", "lsn", "moved", "offset", "rollout", "said", "segment"];
    assert_eq!(fields, stable);
    open.close().unwrap();
}

#[test]
fn segments_ids_and_a_limit_narrow_it() {
    let (_folder, store) = folder();
    fill(&store).close().unwrap();
    let kinds = |options: &[&str]| -> Vec<String> {
        let lines = json_lines(&log(&store, &[options, &["--json"]].concat()));
        lines.iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&["--id", "4"]), ["insert", "retire"]);
    assert_eq!(kinds(&["--id", "5.."]), ["insert"]);
    assert_eq!(kinds(&["--limit", "3"]), ["insert", "insert", "advance"]);
    assert_eq!(kinds(&["--limit", "0"]), [""; 0]);
    assert_eq!(kinds(&["--segment", "1"]), kinds(&[]));
    let unknown = log(&store, &["--segment", "9"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        stderr(&unknown).contains("segment 9 is not in") && stderr(&unknown).contains("it has 1"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn damage_stands_among_the_frames_and_the_exit_code_is_1() {
    let (_folder, store) = folder();
    marked_store(&store);
    let sound = json_lines(&log(&store, &["--json"]));
    flip(&store, &marker(2));
    let damaged = log(&store, &["--json"]);
    assert_eq!(damaged.status.code(), Some(1));
    let lines: Vec<Value> =
        String::from_utf8(damaged.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), sound.len(), "nothing behind it is hidden");
    assert_eq!((&lines[2]["kind"], &lines[2]["rollouts"]), (&json!("damaged"), &json!(["2"])));
    assert_eq!(lines[2]["file"], "seg-00000001.log");
    let table = String::from_utf8(log(&store, &[]).stdout).unwrap();
    assert!(table.contains(" damaged seg-00000001.log at byte ") && table.contains("rollout 2: expected"), "{table}");
}

#[test]
fn a_follower_tells_each_commit_and_ends_when_its_reader_goes() {
    let (_folder, store) = folder();
    let writer = fill(&store);
    let mut follower = rollstore();
    follower.arg("log").arg(&store).args(["--follow", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let before: Vec<Value> = (0..4).map(|_| next()).collect();
    assert_eq!(before[3]["kind"], "retire");
    for id in 10..15_u64 {
        writer.insert(NewRollout::new(id, 5)).unwrap();
        assert_eq!(next()["rollout"], id.to_string(), "it is told while the store is open");
    }
    drop(lines);
    // Nothing more is written: it ends by the pipe alone.
    let output = follower.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    writer.close().unwrap();
}

#[test]
fn a_follower_with_a_limit_ends_by_it() {
    let (_folder, store) = folder();
    fill(&store).close().unwrap();
    assert_eq!(json_lines(&log(&store, &["--follow", "--limit", "2", "--json"])).len(), 2);
}
