//! A process that is killed loses nothing that it reported as committed (D1, D2, D3, P1), on real files, whoever looks on.
//!
//! Method: this test binary runs itself as a child, which commits in a loop and reports each acknowledged batch through
//! its standard output. Beside it, a reader opens the store again and again and reads every array, and the inspector
//! checks every byte of it. The parent kills the child with SIGKILL at a random moment, opens the store and checks every
//! batch up to the last one reported, and starts it again. `ROLLSTORE_TEST_SCALE` multiplies the rounds.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rollstore::disk::os::OsDisk;
use rollstore::{ErrorKind, Reason, RolloutStore, inspect};
use rollstore_testkit::child;
use rollstore_testkit::settings::{self, random, seed};
use rollstore_testkit::store::{check_content, ids, options, recompute_all, rollout_of};

const ROUNDS: u64 = 200;
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
    let Some((_, dir)) = child::role() else { return };
    let store = open(&dir);
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

/// Runs a child until it reported some batches, kills it a little later, and returns how many batches it reported in all.
/// `reported` says so while it runs.
fn run_and_kill(dir: &Path, round: u64, reported: &AtomicU64) -> u64 {
    let mut command = child::command("child_commits_until_it_is_killed", "writer", dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let chance = random(seed(), round);
    let (enough, pause) = (chance % 12, Duration::from_micros(chance >> 32 & 0x3fff));
    thread::scope(|scope| {
        let (heard, wait) = std::sync::mpsc::channel();
        scope.spawn(move || listen(output, enough, reported, &heard));
        // Either so many batches were reported, or the child ended by itself, which is found below.
        let _ = wait.recv();
        // The kill falls anywhere in a commit, a recompute or a roll: this pause aims it and waits for nothing.
        thread::sleep(pause);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.code().is_none(), "the child was not killed, it ended with {status}");
    });
    reported.load(Ordering::SeqCst)
}

/// Hears out a child, and says once when it has reported `enough` batches.
fn listen(output: ChildStdout, enough: u64, reported: &AtomicU64, heard: &std::sync::mpsc::Sender<()>) {
    let mut count = 0;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(number) = line.strip_prefix("acknowledged ") {
            reported.store(number.parse::<u64>().unwrap() + 1, Ordering::SeqCst);
            count += 1;
        }
        if count >= enough {
            let _ = heard.send(());
        }
    }
}

/// The store is some prefix of the batches, whole. Returns their number.
fn check_prefix(store: &RolloutStore) -> u64 {
    let committed = next_batch(store);
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

/// Every batch that was acknowledged is there whole, and at most the one under way behind them. Returns their number.
fn check(store: &RolloutStore, acknowledged: u64) -> u64 {
    let committed = check_prefix(store);
    assert!(committed >= acknowledged, "{acknowledged} batches were acknowledged, {committed} are there");
    assert!(committed <= acknowledged + 1, "{committed} batches, {acknowledged} acknowledged: one was under way");
    committed
}

/// Opens the store beside its writer until told to stop: each time it is a prefix that holds what was reported before.
/// Returns how often it saw one.
fn look_on(dir: &Path, reported: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut seen = 0;
    while !stop.load(Ordering::SeqCst) {
        let before = reported.load(Ordering::SeqCst);
        match options(Arc::new(OsDisk)).read_only(true).open(dir) {
            Ok(store) => {
                let found = check_prefix(&store);
                assert!(found >= before, "{before} batches were reported before the reader opened, it sees {found}");
                seen += 1;
            }
            Err(error) => assert!(before == 0 && error.kind() == ErrorKind::NotFound, "beside the writer: {error}"),
        }
    }
    seen
}

/// Checks every byte beside the writer until told to stop: nothing is ever called damage. Returns how often it looked.
fn inspect_on(dir: &Path, stop: &AtomicBool) -> u64 {
    let mut seen = 0;
    while !stop.load(Ordering::SeqCst) {
        match inspect::verify(dir) {
            Ok(verification) => {
                assert!(verification.findings.is_empty(), "beside the writer: {:?}", verification.findings);
                seen += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "beside the writer: {error}"),
        }
        // It takes all of a core where it may: the writer needs one too.
        thread::yield_now();
    }
    seen
}

#[test]
fn p01_a_killed_process_loses_nothing_that_it_reported_whoever_looks_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("rollouts");
    let (reported, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (committed, seen, inspected) = thread::scope(|scope| {
        let reader = scope.spawn(|| look_on(&dir, &reported, &stop));
        let inspector = scope.spawn(|| inspect_on(&dir, &stop));
        let writer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rounds(&dir, &reported)));
        stop.store(true, Ordering::SeqCst);
        let (seen, inspected) = (reader.join().unwrap(), inspector.join().unwrap());
        (writer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), seen, inspected)
    });
    let rounds = settings::rounds(ROUNDS);
    assert!(committed > rounds, "{committed} batches in {rounds} rounds: the children came to commit");
    assert!(seen > rounds / 10 && inspected > rounds / 10, "{seen} looks of the reader, {inspected} of the inspector");
}

/// The rounds of one store. Returns how many batches it holds at the end.
fn rounds(dir: &Path, reported: &AtomicU64) -> u64 {
    let mut committed = 0;
    for round in 0..settings::rounds(ROUNDS) {
        let acknowledged = run_and_kill(dir, round, reported).max(committed);
        // Who does not write sees the same, without the lock and before anything is recovered.
        let reader = options(Arc::new(OsDisk)).read_only(true);
        // A child that was killed before it came to anything left no store.
        let seen = reader.open(dir).map_or(0, |seen| check(&seen, acknowledged));
        let store = open(dir);
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
    committed
}
