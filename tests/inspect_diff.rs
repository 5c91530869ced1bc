//! `inspect::diff` finds what differs between two stores, each thing once, and nothing in stores that hold the same.
//!
//! Method: a checkpoint is compared with the store that it was taken of, after one change of each kind, and after changes
//! that move bytes alone.

use std::path::Path;

use rollstore::inspect::{self, Differences};
use rollstore::{CompactBudget, NewRollout, Plan, Reason, Results, RolloutId, RolloutStore};
use tempfile::TempDir;

/// A store of ten rollouts, and a checkpoint of it.
fn pair() -> (TempDir, RolloutStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).max_version_lag(1).background_compaction(false);
    let store = store.open(dir.path().join("run")).unwrap();
    for id in 0..10 {
        let rollout = NewRollout::new(id, 0).completion_ids(vec![1, 2]).old_logps(vec![-0.5; 2], 0);
        store.insert(rollout.sampler_logps(vec![-0.25; 2]).reward(0.5).group(id / 2)).unwrap();
    }
    store.advance_ref_version(1, None).unwrap();
    store.checkpoint(dir.path().join("saved")).unwrap();
    (dir, store)
}

fn diff(dir: &Path) -> Differences {
    inspect::diff(dir.join("saved"), dir.join("run")).unwrap()
}

/// `what` of each difference of one rollout.
fn changed(differences: &Differences, id: u64) -> Vec<&str> {
    let of_it = differences.rollouts.iter().filter(|change| change.id == id.into());
    of_it.flat_map(|change| &change.changed).map(|changed| changed.what.as_str()).collect()
}

#[test]
fn a_checkpoint_equals_its_store_and_a_restored_one_whatever_moved() {
    let (dir, store) = pair();
    assert_eq!(diff(dir.path()), Differences { same: 10, ..Differences::default() });
    RolloutStore::restore(dir.path().join("saved"), dir.path().join("back")).unwrap();
    assert!(inspect::diff(dir.path().join("back"), dir.path().join("run")).unwrap().is_empty());
    let none: &[RolloutId] = &[];
    store.retire(none, Reason::Trained).unwrap();
    store.compact(CompactBudget::bytes(64 << 20)).unwrap();
    assert!(diff(dir.path()).is_empty());
}

#[test]
fn rollouts_of_one_store_alone_are_named() {
    let (dir, store) = pair();
    store.insert(NewRollout::new(77, 1)).unwrap();
    store.retire(&[3.into(), 4.into()], Reason::Trained).unwrap();
    let differences = diff(dir.path());
    assert_eq!(differences.only_in_a, [3, 4].map(RolloutId::new));
    assert_eq!((differences.only_in_b.as_slice(), differences.same), ([RolloutId::new(77)].as_slice(), 8));
    let counters: Vec<_> = differences.store.iter().map(|changed| changed.what.as_str()).collect();
    assert_eq!(counters, ["counters.inserted", "counters.retired_unused", "counters.retired.trained"]);
    assert_eq!((&differences.store[0].a, &differences.store[0].b), (&Some("10".into()), &Some("11".into())));
}

#[test]
fn log_probs_that_were_computed_again_differ_by_version_step_and_checksum() {
    let (dir, store) = pair();
    let compute = |plan: &Plan| plan.ids().map(|id| (id, vec![-0.75; 2])).collect::<Results>();
    let plan = store.plan_for(&[5.into()], 1).unwrap();
    let results = compute(&plan);
    if !plan.is_empty() {
        store.apply(plan, results).unwrap();
    }
    store.advance_ref_version(9, None).unwrap();
    let plan = store.plan_for(&[5.into()], 9).unwrap();
    let results = compute(&plan);
    assert_eq!(store.apply(plan, results).unwrap().computed, 1);
    let differences = diff(dir.path());
    assert_eq!(changed(&differences, 5), ["born_step", "ref_version", "versions_behind", "columns.old_logps"]);
    assert_eq!(changed(&differences, 6), ["versions_behind"], "it became stale");
    let store: Vec<_> = differences.store.iter().map(|changed| changed.what.as_str()).collect();
    assert!(store.starts_with(&["clock", "ref_version"]), "{store:?}");
}

#[test]
fn a_replaced_rollout_differs_in_all_that_it_came_with() {
    let (dir, store) = pair();
    let rollout = NewRollout::new(2, 1).completion_ids(vec![1, 3, 4]).reward(0.75).group(1);
    store.replace(rollout.column("reward", vec![1_u8]).metadata(b"again")).unwrap();
    let differences = diff(dir.path());
    let expected = [
        "created_step",
        "born_step",
        "ref_version",
        "versions_behind",
        "reward",
        "columns.completion_ids",
        "columns.old_logps",
        "columns.sampler_logps",
        "metadata",
        "columns.reward",
    ];
    assert_eq!(changed(&differences, 2), expected);
    let change = &differences.rollouts[0].changed;
    let told = |what: &str| {
        change.iter().find(|changed| changed.what == what).map(|changed| (changed.a.as_deref(), changed.b.as_deref()))
    };
    assert_eq!(told("reward"), Some((Some("0.5"), Some("0.75"))));
    assert_eq!(told("ref_version"), Some((Some("0"), None)), "it came without old log-probs");
}

#[test]
fn a_rollout_that_cannot_be_read_is_damage_and_the_others_are_compared() {
    let (dir, store) = pair();
    let place = inspect::history(store.dir(), 8.into()).unwrap().frames[0].frame.clone();
    store.close().unwrap();
    let path = dir.path().join("run").join(format!("seg-{:08}.log", place.segment));
    let bytes = std::fs::read(&path).unwrap();
    let mut rotten = bytes.clone();
    rotten[usize::try_from(place.offset).unwrap() + 140] ^= 1;
    // The checkpoint shares the file: it keeps a copy of what is whole.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, rotten).unwrap();
    let differences = diff(dir.path());
    assert_eq!((differences.damage.len(), differences.same), (1, 9), "{differences:?}");
    assert_eq!(differences.damage[0].rollouts, [RolloutId::new(8)]);
    assert!(!differences.is_empty());
}
