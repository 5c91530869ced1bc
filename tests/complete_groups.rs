//! Scans and plans that take complete groups alone leave out every rollout whose group lacks one, and nothing else.
//!
//! Method: groups of four, some of which lost a rollout, are asked for by each scan; the answer is compared with what the
//! same scan without the filter gives and the groups as they are.

use rollstore::disk::sim::SimDisk;
use rollstore::{Budget, NewRollout, Reason, RolloutId, RolloutStore};
use rollstore_testkit::store::{open_in_turn, sorted};

const GROUP_LEN: usize = 4;

/// Rollouts 0 to 39 in groups of four, born at ten steps; 40 and 41 are in none. Groups 1 and 6 lost a rollout each. Every
/// third rollout has no old log-probs, the others are of version 0 of two.
fn store() -> RolloutStore {
    let store = open_in_turn(&SimDisk::new()).unwrap();
    for id in 0..42 {
        let rollout = NewRollout::new(id, 100 + id / 4).completion_ids(&[1, 2][..]);
        let rollout = if id % 3 == 0 { rollout } else { rollout.old_logps(&[-0.5; 2][..], 0) };
        store.insert(if id < 40 { rollout.group(id / 4) } else { rollout }).unwrap();
    }
    store.retire(&[5.into(), 26.into()], Reason::Evicted).unwrap();
    for step in 0..10 {
        store.advance_ref_version(110 + step, None).unwrap();
    }
    store
}

/// What a scan gave, without those whose group is not whole.
fn complete(store: &RolloutStore, ids: Vec<RolloutId>) -> Vec<RolloutId> {
    let is_complete = |id: &RolloutId| {
        let group = store.get(*id).unwrap().unwrap().group();
        group.is_some_and(|group| store.group(group).len() >= GROUP_LEN)
    };
    ids.into_iter().filter(is_complete).collect()
}

#[test]
fn every_scan_gives_what_it_gives_without_the_rollouts_of_incomplete_groups() {
    let store = store();
    let only = store.complete_groups(GROUP_LEN);
    let step = 112;
    let scans = [
        ("ids", only.ids(), store.ids()),
        ("out_of_window", only.out_of_window(step), store.out_of_window(step)),
        ("stale", only.stale(), store.stale()),
        ("needs_recompute", only.needs_recompute(step), store.needs_recompute(step)),
        ("missing", only.missing(), store.missing()),
    ];
    for (name, filtered, all) in scans {
        let expected = complete(&store, all.clone());
        assert!(!expected.is_empty() && expected.len() < all.len(), "{name} tells the two apart");
        assert_eq!(sorted(filtered), sorted(expected), "{name}");
    }
}

#[test]
fn a_plan_spends_its_budget_on_complete_groups_alone() {
    let store = store();
    let needed = store.complete_groups(GROUP_LEN).needs_recompute(120);
    let due: Vec<RolloutId> = store.ids().into_iter().filter(|id| needed.contains(id)).collect();
    assert_eq!(due.len(), needed.len());
    for count in [0, 1, 7, due.len()] {
        let plan = store.complete_groups(GROUP_LEN).plan_due(120, Budget::rollouts(count as u64)).unwrap();
        assert_eq!(plan.ids().collect::<Vec<_>>(), due[..count]);
    }
    store.retire(&[0.into()], Reason::Trained).unwrap();
    let plan = store.complete_groups(GROUP_LEN).plan_due(120, Budget::unlimited()).unwrap();
    assert!(plan.ids().all(|id| id.get() > 3), "group 0 lacks one now");
}

#[test]
fn zero_asks_for_no_group_and_a_number_that_no_group_has_leaves_nothing() {
    let store = store();
    assert_eq!(store.complete_groups(0).ids(), store.ids());
    assert_eq!(store.complete_groups(1).ids().len(), store.len() - 2, "two have no group");
    assert_eq!(store.complete_groups(GROUP_LEN + 1).ids(), []);
}
