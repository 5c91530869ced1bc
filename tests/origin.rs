//! The figures that the project started from: what a static schedule computes, and what a check per rollout does.
//!
//! Method: the smallest store that shows each, with a counter in place of a model.

use rollstore::{Budget, NewRollout, Plan, Results, RolloutId, RolloutStore, ServedFrom};
use rollstore_testkit::store::sorted;

fn store(window: u64) -> (tempfile::TempDir, RolloutStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(window).open(dir.path().join("rollouts")).unwrap();
    (dir, store)
}

fn rollout(id: u64, created_step: u64) -> NewRollout<'static> {
    NewRollout::new(id, created_step).completion_ids(vec![1, 2, 3])
}

/// Stands in for a forward pass; counts what it is asked for.
fn forward(computed: &mut u64) -> impl FnMut(&Plan) -> Result<Results, std::convert::Infallible> {
    |work| {
        *computed += work.len() as u64;
        Ok(work.ids().map(|id| (id, vec![-0.5; 3])).collect())
    }
}

/// Three rollouts, born at steps 0, 0 and 95, none with old logps.
fn three() -> (tempfile::TempDir, RolloutStore) {
    let (dir, store) = store(10);
    for (id, born) in [(1, 0), (2, 0), (3, 95)] {
        store.insert(rollout(id, born)).unwrap();
    }
    (dir, store)
}

fn ids<const N: usize>(ids: [u64; N]) -> Vec<RolloutId> {
    ids.map(RolloutId::new).to_vec()
}

#[test]
fn static_modulo_computes_all_three() {
    let (_dir, store) = three();
    let (step, every) = (100, 50);
    let computed = if step % every == 0 { store.ids().len() } else { 0 };
    assert_eq!(computed, 3, "one of them is within its window and need not be computed");
    assert_eq!(store.count_needs_recompute(step), 2);
}

#[test]
fn only_stale_recomputed() {
    let (_dir, store) = three();
    let mut computed = 0;
    let done = store.recompute(100, Budget::unlimited(), forward(&mut computed)).unwrap();
    assert_eq!((done.computed, computed), (2, 2));
    for id in ids([1, 2]) {
        let view = store.get(id).unwrap().unwrap();
        assert_eq!((view.born_step(), view.created_step()), (100, 0));
        assert_eq!(view.old_logps().unwrap(), [-0.5; 3]);
    }
}

#[test]
fn window_keeps_fresh() {
    let (_dir, store) = three();
    store.recompute(100, Budget::unlimited(), forward(&mut 0)).unwrap();
    let third = store.get(3.into()).unwrap().unwrap();
    assert_eq!(third.born_step(), 95);
    assert!(third.staleness(100).missing, "it has no logps yet and is computed only once it is used");
    assert!(third.old_logps().is_err());
}

#[test]
fn lazy_unused_never_computed() {
    let (_dir, store) = store(10);
    for id in 0..5 {
        store.insert(rollout(id, 0).old_logps(vec![-1.0; 3], 0)).unwrap();
    }
    store.advance_ref_version(1, None).unwrap();
    assert_eq!(store.stale().len(), 5, "one record made them all stale");

    let mut computed = 0;
    let served = store.get_or_compute(&ids([3]), 1, forward(&mut computed)).unwrap();
    assert_eq!((computed, served[0].source()), (1, ServedFrom::Computed));
    assert_eq!(served[0].old_logps().unwrap(), [-0.5; 3]);
    assert_eq!(sorted(store.stale()), ids([0, 1, 2, 4]), "those that no one used were not computed");

    let again = store.get_or_compute(&ids([3]), 1, forward(&mut computed)).unwrap();
    assert_eq!((computed, again[0].source()), (1, ServedFrom::Stored));
}

#[test]
fn budget_smooths() {
    let (_dir, store) = store(10);
    // Inserted against the order of their age, to show that the oldest come first.
    for id in (0..5).rev() {
        store.insert(rollout(id, 96 + id)).unwrap();
    }
    assert!(store.needs_recompute(100).is_empty(), "all are within their window");
    store.advance_ref_version(100, None).unwrap();
    let mut rounds = Vec::new();
    for _ in 0..4 {
        let mut asked = Vec::new();
        let done = store
            .recompute(100, Budget::rollouts(2), |work| {
                asked.extend(work.ids());
                Ok::<_, std::convert::Infallible>(work.ids().map(|id| (id, vec![-0.5; 3])).collect())
            })
            .unwrap();
        assert_eq!(done.computed, asked.len() as u64);
        rounds.push(asked);
    }
    assert_eq!(rounds, [ids([0, 1]), ids([2, 3]), ids([4]), ids([])]);
}

#[test]
fn never_computed_rollouts_are_computed_on_access() {
    let (_dir, store) = store(10);
    store.insert(rollout(1, 0)).unwrap();
    assert!(store.needs_recompute(0).is_empty(), "nothing is computed that no one uses");
    let mut computed = 0;
    let served = store.get_or_compute(&ids([1]), 0, forward(&mut computed)).unwrap();
    assert_eq!((computed, served[0].old_logps().unwrap()), (1, &[-0.5; 3][..]));
}
