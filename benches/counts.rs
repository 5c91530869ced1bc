//! The hot paths, for `cargo xtask counts`, which counts their instructions under callgrind.
//!
//! Settings: all defaults, rollouts of 1,024 f32 where no other length is said. `counts PATH` prepares a store, runs the path
//! inside `counted` and prints how many operations that were; callgrind counts what happens inside, on that thread alone.
//! `counts --list` names the paths. With neither each is run once and nothing is counted.
//!
//! A harness of its own: nothing is timed.

#![expect(clippy::print_stdout, reason = "what a benchmark prints is its result")]

mod common;

use std::hint::black_box;

use common::{insert_rows, insert_tiny, random, rows, scratch, store, sum};
use rollstore::{Column, NewRollout, Padded, Reason, Results, Rollout, RolloutId, RolloutStore, Stale};
use tempfile::TempDir;

/// Rows of the small stores that are read from.
const ROWS: usize = 64;
/// Rollouts that a scan finds, and as many that it does not find.
const MATCHES: u64 = 10_000;

/// Runs a path and tells how many operations it counted.
type Path = fn() -> u64;

const PATHS: [(&str, Path); 11] = [
    ("get, first value", || reads(20, |rollout| old_logps(rollout)[0])),
    ("get, whole array summed", || reads(20, |rollout| sum(old_logps(rollout)))),
    ("get, its checksum not yet checked", first_reads),
    ("staleness of a rollout", staleness),
    ("insert, 1,024 f32", insert),
    ("recompute, 1,024 f32", recompute),
    ("stale scan, a match", || scan(RolloutStore::stale)),
    ("out-of-window scan, a match", || scan(|store| store.out_of_window(100))),
    ("gather, a row of 1,024 f32", gather),
    ("retire, an id", retire),
    ("advance", advance),
];

/// What is counted: callgrind begins where this is entered, and stops where it is left.
#[inline(never)]
fn counted<T>(path: impl FnOnce() -> T) -> T {
    black_box(path())
}

/// A store with rollouts 0 to 63, and their ids.
fn filled() -> (TempDir, RolloutStore, Vec<RolloutId>) {
    let dir = scratch();
    let store = store(&dir);
    insert_rows(&store, 0..ROWS as u64, &rows(ROWS, &mut random()));
    (dir, store, (0..ROWS as u64).map(RolloutId::new).collect())
}

fn get(store: &RolloutStore, id: RolloutId) -> Rollout {
    store.get(id).expect("a sound frame").expect("a live rollout")
}

fn old_logps(rollout: &Rollout) -> &[f32] {
    rollout.old_logps().expect("old logps")
}

fn reads(rounds: usize, use_rollout: impl Fn(&Rollout) -> f32) -> u64 {
    let (_dir, store, ids) = filled();
    let read_all = || ids.iter().map(|id| use_rollout(&get(&store, *id))).sum::<f32>();
    read_all();
    counted(|| (0..rounds).map(|_| read_all()).sum::<f32>());
    store.abandon();
    (rounds * ids.len()) as u64
}

/// Another process wrote these: their checksums are looked at when they are first read.
fn first_reads() -> u64 {
    let (dir, written, ids) = filled();
    written.close().expect("a clean close");
    let store = store(&dir);
    counted(|| ids.iter().map(|id| old_logps(&get(&store, *id))[0]).sum::<f32>());
    store.abandon();
    ids.len() as u64
}

fn staleness() -> u64 {
    let (_dir, store, ids) = filled();
    let rollouts: Vec<Rollout> = ids.iter().map(|id| get(&store, *id)).collect();
    counted(|| rollouts.iter().for_each(|rollout| _ = black_box(rollout.staleness(black_box(100)))));
    store.abandon();
    ids.len() as u64
}

/// Four commits of 64; the store's first one is behind it.
fn insert() -> u64 {
    let (_dir, store, _ids) = filled();
    let rows = rows(ROWS, &mut random());
    counted(|| {
        for first in (1..5).map(|commit| commit * ROWS as u64) {
            let mut batch = store.batch();
            for (id, row) in (first..).zip(&rows) {
                batch.insert(NewRollout::new(id, 0).old_logps(row, 0)).expect("a sound rollout");
            }
            batch.commit().expect("a commit");
        }
    });
    store.abandon();
    4 * ROWS as u64
}

fn recompute() -> u64 {
    let (_dir, store, ids) = filled();
    store.advance_ref_version(1, None).expect("an advance");
    let results: Results = ids.iter().copied().zip(rows(ROWS, &mut random())).collect();
    let applied = counted(|| {
        let plan = store.plan_for(&ids, 1).expect("a plan");
        store.apply(plan, results).expect("a commit")
    });
    store.abandon();
    applied.computed
}

fn scan(ids: impl Fn(&RolloutStore) -> Vec<RolloutId>) -> u64 {
    let dir = scratch();
    let store = store(&dir);
    insert_tiny(&store, 0..MATCHES);
    store.advance_ref_version(100, None).expect("an advance");
    let mut batch = store.batch();
    for id in MATCHES..2 * MATCHES {
        batch.insert(NewRollout::new(id, 100).old_logps(&[-0.5; 4][..], 1)).expect("a sound rollout");
    }
    batch.commit().expect("a commit");
    // What the first one does for the others is not of a scan.
    assert_eq!(ids(&store).len() as u64, MATCHES, "half of them are found");
    let found = counted(|| (0..10).map(|_| ids(&store).len() as u64).sum());
    store.abandon();
    found
}

fn gather() -> u64 {
    let (_dir, store, ids) = filled();
    let mut tensor = vec![0.0; ROWS * common::ROW_VALUES];
    let mut gather = || {
        let mut padded = Padded::new(&mut tensor, common::ROW_VALUES, 0.0);
        store.gather(&ids, Column::OldLogps, 0, Stale::Error, &mut padded).expect("fresh rows");
    };
    gather();
    counted(|| (0..4).for_each(|_| gather()));
    store.abandon();
    4 * ids.len() as u64
}

fn retire() -> u64 {
    let (_dir, store, ids) = filled();
    let retired = counted(|| store.retire(&ids, Reason::Trained).expect("a commit"));
    store.abandon();
    retired
}

fn advance() -> u64 {
    let (_dir, store, _ids) = filled();
    counted(|| (0..100).for_each(|_| _ = store.advance_ref_version(0, None).expect("an advance")));
    store.abandon();
    100
}

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "--list" {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    // `cargo bench` gives an option, which is no path.
    let is_chosen = |name: &str| argument.is_empty() || argument.starts_with('-') || argument == name;
    PATHS.iter().filter(|(name, _)| is_chosen(name)).for_each(|(_, path)| println!("{}", path()));
}
