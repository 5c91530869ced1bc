//! A process that is killed loses nothing that it reported as committed (D1, D2, D3, P1), on real files.
//!
//! Method: this test binary runs itself as a child, which commits in a loop and reports each acknowledged batch through
//! its standard output. The parent kills it with SIGKILL at a random moment, opens the store and checks every batch up
//! to the last one reported, and starts it again. `ROLLSTORE_TEST_SCALE` multiplies the rounds.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rollstore::disk::os::OsDisk;
use rollstore::{Reason, RolloutStore};
use rollstore_testkit::settings::{random, scale, seed};
use rollstore_testkit::store::{check_content, ids, options, recompute_all, rollout_of};

/// Where the child keeps its store; it is a child where this is set.
const CHILD_DIR: &str = "ROLLSTORE_TEST_KILL_DIR";
const ROUNDS: u64 = 50;
/// Rollouts in a batch.
const ROLLOUTS: u64 = 4;
/// Batches whose rollouts are live: older ones are retired, so that the store stays small.
const LIVE: u64 = 40;

fn open(dir: &Path) -> RolloutStore {
    options(Arc::new(OsDisk)).open(dir).unwrap()
}

fn batch_ids(number: u64) -> std::ops::Range<u64> {
    number * ROLLOUTS..(number + 1) * ROLLOUTS
}

/// The number of the batch to commit next: the cursor says how many there were.
fn next_batch(store: &RolloutStore) -> u64 {
    store.cursor().map_or(0, |cursor| u64::from_le_bytes(cursor[..].try_into().unwrap()))
}

/// A whole trainer step in one batch: rollouts, an end of life, the clock, the cursor.
fn commit(store: &RolloutStore, number: u64) {
    let tokens = 16 + usize::try_from(random(1, number) % 300).unwrap();
    let mut batch = store.batch();
    for id in batch_ids(number) {
        batch.insert(rollout_of(id, number, store.ref_version(), tokens)).unwrap();
    }
    if let Some(old) = number.checked_sub(LIVE) {
        batch.retire(&ids(batch_ids(old)), Reason::Trained);
    }
    batch.advance_ref_version(number, Some(number));
    batch.cursor(&(number + 1).to_le_bytes());
    batch.commit().unwrap();
}

/// The child: not a test of its own, it returns at once where it is not asked for.
#[test]
fn child_commits_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD_DIR) else { return };
    let store = open(dir.as_ref());
    let mut out = std::io::stdout();
    let mut number = next_batch(&store);
    loop {
        commit(&store, number);
        writeln!(out, "\nacknowledged {number}").unwrap();
        out.flush().unwrap();
        number += 1;
        if number.is_multiple_of(7) {
            recompute_all(&store, number - 1).unwrap();
        }
    }
}

/// Runs a child until it reported some batches, kills it a little later, and returns the last one that it reported.
fn run_and_kill(dir: &Path, round: u64) -> Option<u64> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["child_commits_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let chance = random(seed(), round);
    let (enough, pause) = (chance % 12, Duration::from_micros(chance >> 32 & 0x3fff));
    let (heard, wait) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut last = None;
        let mut count = 0;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                last = Some(number.parse().unwrap());
                count += 1;
            }
            if count >= enough {
                let _ = heard.send(());
            }
        }
        last
    });
    // Either so many batches were reported, or the child ended by itself, which is found below.
    let _ = wait.recv();
    // The kill falls anywhere in a commit, a recompute or a roll: this pause aims it and waits for nothing.
    thread::sleep(pause);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "the child was not killed, it ended with {status}");
    reader.join().unwrap()
}

/// Every batch that was acknowledged is there whole, and at most the one under way behind them. Returns their number.
fn check(store: &RolloutStore, acknowledged: u64) -> u64 {
    let committed = next_batch(store);
    assert!(committed >= acknowledged, "{acknowledged} batches were acknowledged, {committed} are there");
    assert!(committed <= acknowledged + 1, "{committed} batches, {acknowledged} acknowledged: one was under way");
    let live: BTreeSet<u64> = store.ids().iter().map(|id| id.get()).collect();
    let oldest = committed.saturating_sub(LIVE);
    assert_eq!(live, (oldest * ROLLOUTS..committed * ROLLOUTS).collect(), "whole batches, and no other rollout");
    for id in store.ids() {
        check_content(&store.get(id).unwrap().unwrap());
    }
    assert_eq!(store.ref_version(), committed, "one advance a batch");
    assert_eq!(store.clock(), committed.checked_sub(1));
    let counters = store.stats().unwrap().counters;
    assert_eq!((counters.inserted, counters.retired_total()), (committed * ROLLOUTS, oldest * ROLLOUTS));
    committed
}

#[test]
fn d1_a_killed_process_loses_nothing_that_it_reported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("rollouts");
    let mut committed = 0;
    for round in 0..ROUNDS * scale() {
        let acknowledged = run_and_kill(&dir, round).map_or(committed, |last| last + 1);
        // Who does not write sees the same, without the lock and before anything is recovered.
        let reader = options(Arc::new(OsDisk)).read_only(true);
        // A child that was killed before it came to anything left no store.
        let seen = reader.open(&dir).map_or(0, |seen| check(&seen, acknowledged));
        let store = open(&dir);
        let found = check(&store, acknowledged);
        assert_eq!(seen, found, "round {round}");
        assert!(found >= committed, "round {round}: {found} batches, there were {committed}");
        committed = found;
        match round % 3 {
            0 => store.close().unwrap(),
            1 => store.abandon(),
            _ => {
                commit(&store, committed);
                committed += 1;
            }
        }
    }
    assert!(committed > ROUNDS, "{committed} batches: the children came to commit");
}
