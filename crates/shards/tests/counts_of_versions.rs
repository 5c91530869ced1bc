//! Goal: shards that counted their versions by themselves come together by labels, and each rollout is as stale as it was.
//!
//! Method: shards of one run, one of which was restored in between, so that its numbers are others; every rollout's flags before
//! and after are compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::os::OsDisk;
use rollstore::{Column, Rewind, RolloutId, RolloutStore};
use rollstore_shards::{Error, Shards};
use rollstore_testkit::scratch::{Scratch, with_old};
use rollstore_testkit::shards::options;

fn open(dir: &Path) -> RolloutStore {
    options(Arc::new(OsDisk)).open(dir).unwrap()
}

/// Steps 0 to 5, a rollout in each; restored in the midst, if it is to be, and gone on with.
fn lived(scratch: &Scratch, name: &str, first: u64, is_restored: bool) -> PathBuf {
    let (dir, saved) = (scratch.path(name), scratch.path(format!("{name}-saved")));
    let mut store = open(&dir);
    for step in 0..6 {
        if step == 3 && is_restored {
            store.checkpoint(&saved).unwrap();
            store.advance_ref_version(step, Some(103)).unwrap();
            store.close().unwrap();
            RolloutStore::restore(&saved, &dir).unwrap();
            store = open(&dir);
        }
        let version = store.ref_version();
        let kl = store.kl_ref_version();
        store.insert(with_old(first + step, step, -0.5, version).kl_ref_logps(vec![-0.25; 3], kl)).unwrap();
        store.advance_ref_version(step, Some(100 + step)).unwrap();
        if step == 4 {
            store.advance_kl_ref_version(Some(7)).unwrap();
        }
    }
    store.close().unwrap();
    dir
}

/// Advances behind, whether it is stale, and how the KL reference is called, of each rollout.
fn flags(dir: &Path) -> BTreeMap<RolloutId, (Option<u64>, bool, Option<bool>)> {
    let store = RolloutStore::options().read_only(true).open(dir).unwrap();
    let current = store.kl_ref_version();
    let flags = |id| {
        let rollout = store.get(id).unwrap().unwrap();
        let staleness = rollout.staleness(5);
        assert!(rollout.has(&Column::KlRefLogps));
        (id, (staleness.lag, staleness.stale, rollout.kl_ref_version().map(|version| version == current)))
    };
    store.ids().into_iter().map(flags).collect()
}

#[test]
fn a_restored_shard_comes_together_with_one_that_was_not() {
    let scratch = Scratch::new();
    let (straight, restored) = (lived(&scratch, "straight", 0, false), lived(&scratch, "restored", 50, true));
    let [ours, theirs] = [&straight, &restored].map(|dir| open(dir).clocks());
    assert_ne!(ours.ref_versions, theirs.ref_versions, "the restore left a gap");
    let before: BTreeMap<_, _> = [&straight, &restored].into_iter().flat_map(|dir| flags(dir)).collect();
    for (name, order) in [("a", [&straight, &restored]), ("b", [&restored, &straight])] {
        let all = scratch.path(name);
        let made = Shards::of(order).merge(&all).unwrap();
        assert_eq!(flags(&all), before, "{name}");
        assert_eq!(made.before, made.after);
        let store = open(&all);
        for label in 100..106 {
            let known = order.map(|dir| open(dir).ref_version_of(label)).contains(&store.ref_version_of(label));
            assert!(known && store.ref_version_of(label).is_some(), "label {label}");
        }
        assert_eq!(store.advance_ref_version(6, Some(106)).unwrap(), store.ref_version());
        assert!(store.get(5.into()).unwrap().unwrap().staleness(6).lag == Some(2));
    }
}

#[test]
fn a_shard_that_is_behind_is_as_stale_as_the_run_has_gone_on() {
    let scratch = Scratch::new();
    let (ahead, behind) = (lived(&scratch, "ahead", 0, true), lived(&scratch, "behind", 50, false));
    open(&ahead).advance_ref_version(6, Some(106)).unwrap();
    let all = scratch.path("all");
    Shards::of([&behind, &ahead]).merge(&all).unwrap();
    let (of_behind, of_all) = (flags(&behind), flags(&all));
    for (id, (lag, ..)) in of_behind {
        assert_eq!(of_all[&id].0, lag.map(|lag| lag + 1), "{id}");
    }
}

#[test]
fn what_a_rewind_abandoned_stays_abandoned() {
    let scratch = Scratch::new();
    let [a, b] = [("a", 0, false), ("b", 50, true)].map(|(name, first, restored)| {
        let dir = lived(&scratch, name, first, restored);
        open(&dir).rewind(3, Rewind::Keep).unwrap();
        open(&dir).advance_ref_version(4, Some(200)).unwrap();
        dir
    });
    let before: BTreeMap<_, _> = [&a, &b].into_iter().flat_map(|dir| flags(dir)).collect();
    assert!(before.values().all(|(lag, stale, _)| lag.is_none() && *stale), "{before:?}");
    // Rewound clocks of the KL reference have no label: one is given, as for the others.
    for dir in [&a, &b] {
        open(dir).advance_kl_ref_version(Some(8)).unwrap();
    }
    let all = scratch.path("all");
    Shards::of([&a, &b]).merge(&all).unwrap();
    assert_eq!(flags(&all).values().filter(|(lag, stale, _)| lag.is_none() && *stale).count(), before.len());
}

#[test]
fn versions_without_a_label_are_refused_where_numbers_differ() {
    let scratch = Scratch::new();
    let (a, b) = (lived(&scratch, "a", 0, false), lived(&scratch, "b", 50, true));
    for dir in [&a, &b] {
        let store = open(dir);
        let version = store.advance_ref_version(6, None).unwrap();
        let id = store.ids()[0].get() + 20;
        store.insert(with_old(id, 6, -0.5, version)).unwrap();
    }
    let error = Shards::of([&a, &b]).merge(scratch.path("all")).unwrap_err();
    assert!(matches!(error, Error::Versions { clock: "ref", .. }), "{error:?}");
    assert!(error.to_string().contains("no label") && !scratch.path("all").exists(), "{error}");
}
