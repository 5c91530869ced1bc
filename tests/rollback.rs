//! A trainer that goes back, by restore or rewind, never meets a number of the abandoned future again, and nothing of it is ever
//! fresh, whatever lag the run allows (D9).
//!
//! Method: the same run with lags 0, 1 and 3, which goes back from step 15 to step 10 in each of the three ways and trains on;
//! every LSN, segment and ref version of both futures is collected.

use std::collections::BTreeSet;
use std::fs;

use rollstore::{Rewind, RolloutStore};
use rollstore_testkit::scratch::Scratch;
use rollstore_testkit::store::{recompute_all, rollout_of};

/// Tokens of a record of which a segment holds few.
const TOKENS: usize = 1_500;

/// How the trainer goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Back {
    Restore,
    Keep,
    Drop,
}

/// Numbers that were given since the last look.
#[derive(Debug, Default)]
struct Given {
    lsns: BTreeSet<u64>,
    segments: BTreeSet<String>,
    versions: BTreeSet<u64>,
}

fn open(scratch: &Scratch, lag: u64) -> RolloutStore {
    scratch.open_with(|options| options.max_version_lag(lag).segment_bytes(64 << 10).background_compaction(false))
}

fn segments(scratch: &Scratch) -> BTreeSet<String> {
    let names = fs::read_dir(scratch.store_dir()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("seg-")).collect()
}

/// One step: three rollouts, an advance, what is due.
fn train(scratch: &Scratch, store: &RolloutStore, step: u64, given: &mut Given) {
    let before = segments(scratch);
    for id in store.allocate_ids(3).unwrap() {
        let lsn = store.insert(rollout_of(id.get(), step, store.ref_version(), TOKENS)).unwrap();
        given.lsns.insert(lsn.get());
    }
    given.versions.insert(store.advance_ref_version(step, None).unwrap());
    recompute_all(store, step).unwrap();
    given.segments.extend(segments(scratch).difference(&before).cloned());
}

fn goes_back(lag: u64, back: Back) {
    let scratch = Scratch::new();
    let mut store = open(&scratch, lag);
    let mut past = Given::default();
    (0..=10).for_each(|step| train(&scratch, &store, step, &mut past));
    store.checkpoint(scratch.path("saved")).unwrap();
    let mut abandoned = Given::default();
    (11..=15).for_each(|step| train(&scratch, &store, step, &mut abandoned));
    let of_future: Vec<_> = store.ids().into_iter().filter(|id| id.get() >= 33).collect();
    assert_eq!(of_future.len(), 15);

    match back {
        Back::Restore => {
            store.close().unwrap();
            RolloutStore::restore(scratch.path("saved"), scratch.store_dir()).unwrap();
            store = open(&scratch, lag);
        }
        Back::Keep => drop(store.rewind(10, Rewind::Keep).unwrap()),
        Back::Drop => drop(store.rewind(10, Rewind::Drop).unwrap()),
    }
    let is_there = |store: &RolloutStore| of_future.iter().filter(|id| store.get(**id).unwrap().is_some()).count();
    assert_eq!(is_there(&store), if back == Back::Keep { 15 } else { 0 });
    for step in 0..40 {
        for id in &of_future {
            let view = store.get(*id).unwrap();
            assert!(view.is_none_or(|view| !view.staleness(step).is_fresh()), "{id} is fresh at step {step}");
        }
    }
    // A worker that still computes for the abandoned future hands in what it has.
    for version in &abandoned.versions {
        let late = store.allocate_ids(1).unwrap().next().unwrap();
        if store.insert(rollout_of(late.get(), 10, *version, TOKENS)).is_ok() {
            assert!(!store.get(late).unwrap().unwrap().staleness(10).is_fresh(), "version {version}");
        }
    }

    let mut new = Given::default();
    (10..=15).for_each(|step| train(&scratch, &store, step, &mut new));
    assert!(new.lsns.is_disjoint(&abandoned.lsns) && new.lsns.is_disjoint(&past.lsns), "an LSN is given twice");
    assert!(new.segments.is_disjoint(&abandoned.segments), "a segment's number is given twice");
    assert!(new.versions.is_disjoint(&abandoned.versions), "a ref version is given twice");
    assert!(!new.segments.is_empty() && !abandoned.segments.is_empty(), "segments were begun in both futures");
}

#[test]
fn d9_after_a_restore_no_number_comes_again_and_nothing_abandoned_is_fresh() {
    [0, 1, 3].into_iter().for_each(|lag| goes_back(lag, Back::Restore));
}

#[test]
fn d9_after_a_rewind_that_keeps_no_number_comes_again_and_nothing_abandoned_is_fresh() {
    [0, 1, 3].into_iter().for_each(|lag| goes_back(lag, Back::Keep));
}

#[test]
fn d9_after_a_rewind_that_drops_no_number_comes_again_and_nothing_abandoned_is_fresh() {
    [0, 1, 3].into_iter().for_each(|lag| goes_back(lag, Back::Drop));
}
