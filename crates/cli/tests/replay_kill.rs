//! Goal: a replay that is killed at any moment goes on to the same result. Method: `--kill` with several counts and
//! settings against the run without kills, and kills that come from outside.

mod common;

use common::{access, event, json, put, recorded_trace, rollstore, write_trace};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn replay(trace: &Path, store: &Path, options: &[&str]) -> Value {
    let options: Vec<&str> = ["--json"].iter().chain(options).copied().collect();
    json(&common::replay(trace, store, &options))
}

/// The report without the one field in which kills may show.
fn without_kills(mut report: Value) -> Value {
    report["kills"] = 0.into();
    report
}

/// How many times as long the suite runs.
fn scale() -> u32 {
    std::env::var("ROLLSTORE_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

#[test]
fn kills_change_no_number() {
    let settings: [&[&str]; 3] = [
        &["--kill", "5"],
        &["--kill", "12", "--window", "2", "--lag", "0"],
        &["--kill", "5", "--mode", "snapshot", "--clock", "micro"],
    ];
    for options in settings {
        let folder = tempfile::tempdir().unwrap();
        let killed = replay(&recorded_trace(), &folder.path().join("killed"), options);
        let whole = replay(&recorded_trace(), &folder.path().join("whole"), &options[2..]);
        assert_eq!(killed["kills"].to_string(), options[1]);
        assert_eq!(without_kills(killed), whole, "{options:?}");
    }
}

#[test]
fn a_short_trace_is_killed_as_often_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &[put(1, 0), access(1, 0)]);
    let report = replay(&trace, &folder.path().join("store"), &["--kill", "9"]);
    assert_eq!((&report["kills"], &report["access_rows"]), (&9.into(), &1.into()));
}

#[test]
fn kills_around_a_resume_do_not_take_the_counts_back() {
    // Little else happens in this trace, so that most kills fall on the saves, the crashes and the resumes.
    let mut lines = vec![put(1, 0), access(1, 0)];
    for v in 1..=8 {
        lines.extend([event("version", 1), access(1, 1), event("save", 1)]);
        lines.extend([event("version", 2), put(10 + v, 2), access(1, 2), event("crash", 2), event("resume", 1)]);
        lines.push(access(1, 1));
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &lines);
    let whole = replay(&trace, &folder.path().join("whole"), &["--lag", "0"]);
    assert_eq!((&whole["restores"], &whole["inserted"], &whole["live"]), (&8.into(), &9.into(), &1.into()));
    for round in 0..4 * scale() {
        let killed = replay(&trace, &folder.path().join(format!("killed-{round}")), &["--lag", "0", "--kill", "20"]);
        assert_eq!(without_kills(killed), whole);
    }
}

#[test]
fn a_replay_killed_from_outside_goes_on_when_it_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    for milliseconds in [5, 20, 60] {
        let mut command = rollstore();
        command.arg("replay").arg(recorded_trace()).arg("--store").arg(&store).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(replay(&recorded_trace(), &store, &[])["values_crc32"], "69d6ac95");
    // A replay that is complete is reported again.
    assert_eq!(replay(&recorded_trace(), &store, &[])["inserted"], 1184);
}

#[test]
fn a_child_that_fails_gives_its_message_and_code() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &[put(1, 0), access(2, 0)]);
    let output = common::replay(&trace, &folder.path().join("store"), &["--kill", "1"]);
    // The one kill may come before the child meets the line; the failure comes all the same.
    assert_eq!(output.status.code(), Some(2));
    assert!(common::stderr(&output).contains("line 2: rollout 2 is not live"), "{}", common::stderr(&output));
}
