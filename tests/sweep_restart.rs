//! A sweep at a fixed step and version that is killed at random points computes every rollout exactly once, but for at most
//! one micro-batch a kill (S1 of the sweep's room), and orders, failures and restarts do not change that.
//!
//! Method: the closure counts each rollout that it is asked for. The store's disk dies at random operations, as a killed
//! process leaves it or as a power cut does, and the sweep is run again; then the same with a child process that is killed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rollstore::disk::os::OsDisk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore::{Budget, Order, Plan, Query, RolloutStore};
use rollstore_testkit::settings::{random, scale, seed};
use rollstore_testkit::store::{DIR, check_content, forward, ids, open, open_in_turn, options, rollout};
use rollstore_testkit::{bytes, child};

const ROLLOUTS: u64 = 3_000;
const MICRO_BATCH: usize = 8;
const STEP: u64 = 20;
const KILLS: u64 = 100;

/// A store whose rollouts were created over 16 steps, by three versions: due at [`STEP`], all of them.
fn fill(store: &RolloutStore, rollouts: u64) {
    for version in 0..3 {
        let mut batch = store.batch();
        for id in (0..rollouts).filter(|id| id % 3 == version) {
            batch.insert(rollout(id, id % 16, version)).unwrap();
        }
        batch.commit().unwrap();
        store.advance_ref_version(STEP, None).unwrap();
    }
    store.advance_ref_version(STEP, None).unwrap();
}

/// Counts how often each rollout was computed.
type Counts = BTreeMap<u64, u64>;

/// Runs the sweep until it is finished or the disk is dead; true where it is finished.
fn sweep(store: &RolloutStore, query: Query, order: Order, counts: &mut Counts) -> bool {
    let sweep = store.sweep("refresh", query).order(order).micro_batch(MICRO_BATCH);
    let count = |work: &Plan| {
        work.ids().for_each(|id| *counts.entry(id.get()).or_default() += 1);
        forward(work)
    };
    sweep.run(STEP, Budget::unlimited(), count).is_ok_and(|swept| swept.finished)
}

/// Each was computed, and no more than a micro-batch for each kill a second time.
fn assert_counted(counts: &Counts, rollouts: u64, kills: u64, what: &str) {
    assert_eq!(counts.len() as u64, rollouts, "{what}: every rollout was computed");
    let again: u64 = counts.values().map(|count| count - 1).sum();
    assert!(again <= kills * MICRO_BATCH as u64, "{what}: {again} computed again after {kills} kills");
}

/// Every rollout is of the current version and this step, with the arrays that the closure gave.
fn assert_computed(store: &RolloutStore, what: &str) {
    for id in store.ids() {
        let view = store.get(id).unwrap().unwrap();
        assert_eq!((view.ref_version(), view.born_step()), (store.ref_version(), STEP), "{what}: rollout {id}");
        check_content(&view);
    }
}

#[test]
fn a_sweep_killed_at_100_random_points_computes_every_rollout_once_and_a_micro_batch_a_kill_again() {
    let cases = [
        (Query::All, Order::OldestBornFirst),
        (Query::All, Order::LogOrder),
        (Query::CreatedBefore(16), Order::StalestFirst),
        (Query::NeedsRecompute, Order::OldestBornFirst),
    ];
    for (query, order) in cases {
        let what = format!("{query:?}, {order:?}");
        let mut disk = SimDisk::new();
        let store = open_in_turn(&disk).unwrap();
        fill(&store, ROLLOUTS);
        store.abandon();
        disk = disk.kill();
        // How many disk operations a sweep takes tells how far apart the kills must lie.
        let whole = disk.as_if_crashed(CrashImage { seed: 0, style: ImageStyle::Everything });
        let store = open_in_turn(&whole).unwrap();
        let opened = whole.operation_count();
        assert!(sweep(&store, query, order, &mut Counts::new()), "{what}");
        let apart = (whole.operation_count() - opened) / (KILLS * scale());

        let (mut counts, mut kills) = (Counts::new(), 0);
        loop {
            let store = open_in_turn(&disk).unwrap();
            disk.fail_at(disk.operation_count() + random(seed(), kills) % apart, Fault::PowerCut);
            let finished = sweep(&store, query, order, &mut counts);
            store.abandon();
            if finished {
                break;
            }
            let style = ImageStyle::ALL[usize::try_from(kills).unwrap() % ImageStyle::ALL.len()];
            let image = CrashImage { seed: random(seed(), kills), style };
            disk = if kills.is_multiple_of(2) { disk.kill() } else { disk.crash(image) };
            kills += 1;
            assert!(kills < 5 * KILLS * scale(), "{what}: the sweep comes to its end");
        }
        assert!(kills >= KILLS, "{what}: {kills} kills");
        assert_counted(&counts, ROLLOUTS, kills, &what);
        assert!(counts.values().any(|count| *count > 1), "{what}: some kills cost a micro-batch");
        assert_computed(&open_in_turn(&disk.kill()).unwrap(), &what);
    }
}

#[test]
fn a_sweep_that_was_killed_behind_its_last_commit_computes_nothing_again() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store, 40);
    assert!(sweep(&store, Query::All, Order::LogOrder, &mut Counts::new()));
    store.abandon();
    let disk = disk.crash(CrashImage { seed: 1, style: ImageStyle::NothingUnsynced });
    let mut counts = Counts::new();
    assert!(sweep(&open(&disk).unwrap(), Query::All, Order::LogOrder, &mut counts));
    assert_eq!(counts, Counts::new());
}

#[test]
fn progress_outlives_the_index_compaction_and_a_restored_checkpoint() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store, 400);
    let run = |store: &RolloutStore, budget| {
        let mut counts = Counts::new();
        let sweep = store.sweep("refresh", Query::All).micro_batch(MICRO_BATCH);
        let swept = sweep.run(STEP, budget, |work: &Plan| {
            work.ids().for_each(|id| *counts.entry(id.get()).or_default() += 1);
            forward(work)
        });
        (counts, swept.unwrap().finished)
    };
    let (first, _) = run(&store, Budget::rollouts(100));
    store.checkpoint("/saved").unwrap();
    let (second, _) = run(&store, Budget::rollouts(100));
    store.retire(&ids(first.keys().copied().step_by(2)), rollstore::Reason::Trained).unwrap();
    store.compact(rollstore::CompactBudget::all()).unwrap();
    store.abandon();
    let disk = disk.kill();
    bytes::remove(&disk, format!("{DIR}/index.redb").as_ref());
    let store = open(&disk).unwrap();
    let (third, finished) = run(&store, Budget::unlimited());
    assert!(finished && [&first, &second, &third].iter().map(|counts| counts.len()).sum::<usize>() == 400);
    assert!(third.keys().all(|id| !first.contains_key(id) && !second.contains_key(id)));
    store.close().unwrap();

    options(Arc::new(disk.clone())).restore("/saved", DIR).unwrap();
    let (again, finished) = run(&open(&disk).unwrap(), Budget::unlimited());
    assert!(finished && again.len() == 300, "the checkpoint's progress came back: {}", again.len());
    assert!(again.keys().all(|id| !first.contains_key(id)));
}

#[test]
fn a_restart_tries_what_was_set_aside_behind_the_rest() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    fill(&store, 48);
    let poisoned = store.ids()[0];
    let run = |store: &RolloutStore, budget| {
        let mut tried = Vec::new();
        let swept = store.sweep("refresh", Query::All).micro_batch(MICRO_BATCH).run(STEP, budget, |work: &Plan| {
            tried.extend(work.ids());
            let results = forward(work).unwrap();
            let kept = results.ids().any(|id| id == poisoned);
            if kept { Ok::<_, Infallible>(rollstore::Results::new()) } else { Ok(results) }
        });
        (tried, swept.unwrap())
    };
    assert_eq!(run(&store, Budget::rollouts(24)).0[0], poisoned);
    store.abandon();
    let (tried, swept) = run(&open(&disk.kill()).unwrap(), Budget::rollouts(24));
    assert!(!tried.contains(&poisoned), "the position lies behind it");
    assert_eq!((swept.computed, swept.finished), (24, false));
}

/// The child: not a test of its own, it returns at once where it is not asked for.
#[test]
fn child_sweeps_until_it_is_killed() {
    let Some((_, dir)) = child::role() else { return };
    let store = options(Arc::new(OsDisk)).open(dir.join("rollouts")).unwrap();
    let mut log = OpenOptions::new().create(true).append(true).open(dir.join("computed")).unwrap();
    let swept = store.sweep("refresh", Query::All).micro_batch(MICRO_BATCH).run(STEP, Budget::unlimited(), |work| {
        // Told before the results are stored, in one write: a kill cannot make it tell too little.
        let line: Vec<String> = work.ids().map(|id| id.to_string()).collect();
        log.write_all((line.join(" ") + " ").as_bytes()).unwrap();
        println!("\ncomputed");
        forward(work)
    });
    assert!(swept.unwrap().finished);
    fs::write(dir.join("finished"), "").unwrap();
}

/// Runs the child and kills it once it reported so many micro-batches; true where it came to the end before.
fn run_and_kill(dir: &Path, micro_batches: u64) -> bool {
    let mut command = child::command("child_sweeps_until_it_is_killed", "sweeps", dir);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (mut seen, mut text, mut buffer) = (0, String::new(), [0; 256]);
    while seen < micro_batches {
        let len = output.read(&mut buffer).unwrap();
        if len == 0 {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&buffer[..len]));
        seen = text.matches("\ncomputed").count() as u64;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    dir.join("finished").exists()
}

#[test]
fn a_child_that_is_killed_while_it_sweeps_computes_every_rollout_once_and_a_micro_batch_a_kill_again() {
    const ROLLOUTS: u64 = 600;
    let dir = tempfile::tempdir().unwrap();
    let store = options(Arc::new(OsDisk)).open(dir.path().join("rollouts")).unwrap();
    fill(&store, ROLLOUTS);
    store.close().unwrap();
    let mut kills = 0;
    while !run_and_kill(dir.path(), 1 + random(seed(), kills) % 8) {
        kills += 1;
        assert!(kills < ROLLOUTS, "the sweep comes to its end");
    }
    assert!(kills > 5, "{kills} kills");
    let text = fs::read_to_string(dir.path().join("computed")).unwrap();
    let mut counts = Counts::new();
    text.split_whitespace().for_each(|id| *counts.entry(id.parse().unwrap()).or_default() += 1);
    assert_counted(&counts, ROLLOUTS, kills, "killed children");
    assert_computed(&options(Arc::new(OsDisk)).open(dir.path().join("rollouts")).unwrap(), "killed children");
}
