//! Goal: `verify` beside a writer never takes a write under way for damage. Method: a child process commits, rolls
//! segments and writes manifests while the program verifies a hundred times; and a replay, whose restores take
//! segments away, is verified until it ends.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{json, recorded_trace, rollstore};
use rollstore::{NewRollout, Reason, RolloutStore, limits};
use serde_json::Value;

/// Where the writer finds its store. Without it, the writer's test does nothing.
const STORE: &str = "ROLLSTORE_TEST_WRITER_STORE";

/// Commits that the writer makes for each byte that it is given.
const COMMITS: u64 = 8;

/// The child's side: some commits for each byte of standard input, until that is closed.
#[test]
#[ignore = "it is the child process of the tests beside it"]
fn writer() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let options = RolloutStore::options().window(8).segment_bytes(limits::SEGMENT_BYTES_MIN);
    let store = options.open(path).unwrap();
    println!("\nopen");
    let mut step = 0;
    for byte in std::io::stdin().lock().bytes() {
        byte.unwrap();
        for _ in 0..COMMITS {
            let mut batch = store.batch();
            for id in step * 4..step * 4 + 4 {
                let tokens = 16 + usize::try_from(id * 7 % 300).unwrap();
                batch.insert(NewRollout::new(id, step).old_logps(vec![-0.5; tokens], store.ref_version())).unwrap();
            }
            batch.advance_ref_version(step, None);
            batch.commit().unwrap();
            let past: Vec<_> =
                (step * 4).checked_sub(40).map(|id| (id..id + 4).map(Into::into).collect()).unwrap_or_default();
            store.retire(&past, Reason::Trained).unwrap();
            step += 1;
        }
    }
}

/// Starts the writer and waits until its store is open. Its output is kept: the pipe must live as long as it does.
fn start_writer(store: &Path) -> (Child, impl Sized) {
    let mut writer = Command::new(std::env::current_exe().unwrap());
    writer.args(["--exact", "writer", "--ignored", "--nocapture"]).env(STORE, store);
    let mut writer = writer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(told.by_ref().any(|line| line.unwrap() == "open"), "the writer ended early");
    (writer, told)
}

fn verify(store: &Path) -> Value {
    let output = rollstore().arg("verify").arg(store).arg("--json").output().unwrap();
    let report = json(&output);
    assert_eq!(report["sound"], true, "{report}");
    report
}

#[test]
fn a_hundred_looks_beside_a_writer_find_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (mut writer, _told) = start_writer(&store);
    let mut work = writer.stdin.take().unwrap();
    let mut looks = Vec::new();
    for _ in 0..100 {
        // The pipe holds work for the whole look; the writer is never waited for.
        work.write_all(b"+").unwrap();
        looks.push(verify(&store)["last_lsn"].as_u64().unwrap());
    }
    assert!(writer.try_wait().unwrap().is_none(), "the writer was there to the end");
    drop(work);
    assert!(writer.wait().unwrap().success());
    assert!(looks.is_sorted(), "what was seen once stays: {looks:?}");
    let end = verify(&store);
    looks.dedup();
    assert!(looks.len() > 20, "the writer wrote meanwhile: {looks:?}");
    assert_eq!(end["in_flight_bytes"], 0, "{end}");
    assert!(end["last_lsn"].as_u64().unwrap() >= 100 * COMMITS * 5);
}

#[test]
fn a_replay_with_its_checkpoints_and_restores_is_sound_at_every_look() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut replay = rollstore();
    replay.arg("replay").arg(recorded_trace()).arg("--store").arg(&store).args(["--kill", "8"]);
    let mut replay = replay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut looks = 0;
    while replay.try_wait().unwrap().is_none() {
        let output = rollstore().arg("verify").arg(&store).arg("--json").output().unwrap();
        // Before the first manifest there is nothing to look at.
        let absent = looks == 0 && output.status.code() == Some(2);
        if !absent {
            assert_eq!(json(&output)["sound"], true);
            looks += 1;
        }
    }
    assert!(replay.wait().unwrap().success() && looks > 5, "{looks} looks");
}
