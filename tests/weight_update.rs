//! Weights, plans and closures: what waits for what, what is refused, and what a failing closure leaves behind.
//!
//! Method: threads meet at channels and barriers; what is asserted is what was decided, never how long it took.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use rollstore::{Budget, ErrorKind, NewRollout, Plan, Results, RolloutId, RolloutStore, ServedFrom};
use rollstore_testkit::store::sorted;
use rollstore_testkit::values::logp;

/// Times that a thread lets others go first, to give a missing wait the chance to show.
const YIELDS: u32 = 2_000;

fn store_of(rollouts: u64) -> (tempfile::TempDir, RolloutStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).open(dir.path().join("rollouts")).unwrap();
    for id in 0..rollouts {
        store.insert(NewRollout::new(id, 1).completion_ids(vec![1, 2, 3])).unwrap();
    }
    (dir, store)
}

fn ids(count: u64) -> Vec<RolloutId> {
    (0..count).map(RolloutId::new).collect()
}

fn all(work: &Plan, value: f32) -> Results {
    work.ids().map(|id| (id, vec![value; 3])).collect()
}

fn old_logps(store: &RolloutStore, id: u64) -> Vec<f32> {
    store.get(id.into()).unwrap().unwrap().old_logps().unwrap().to_vec()
}

#[test]
fn plans_wait_while_a_weight_update_runs() {
    let (_dir, store) = store_of(4);
    let planned = AtomicU64::new(0);
    let (begin, begun) = mpsc::channel();
    let versions = thread::scope(|scope| {
        let planners: Vec<_> = (0..3)
            .map(|way| {
                let (store, planned, begin) = (&store, &planned, begin.clone());
                let (go, wait) = mpsc::channel::<()>();
                let planner = scope.spawn(move || {
                    wait.recv().unwrap();
                    begin.send(()).unwrap();
                    let plan = match way {
                        0 => store.plan_for(&ids(4), 1).unwrap(),
                        1 => store.plan_due(1, Budget::unlimited()).unwrap(),
                        _ => store.plan_kl_ref_for(&ids(4), 1).unwrap(),
                    };
                    planned.fetch_add(1, Ordering::SeqCst);
                    plan.ref_version()
                });
                (go, planner)
            })
            .collect();
        store
            .weight_update(1, || {
                for (go, _) in &planners {
                    go.send(()).unwrap();
                    begun.recv().unwrap();
                }
                for _ in 0..YIELDS {
                    thread::yield_now();
                }
                assert_eq!(planned.load(Ordering::SeqCst), 0, "a plan was made of weights in change");
                Ok::<_, Infallible>(())
            })
            .unwrap();
        planners.into_iter().map(|(_, planner)| planner.join().unwrap()).collect::<Vec<u64>>()
    });
    assert_eq!(versions, [1, 1, 0], "plans of old logps carry the new version; the KL reference has its own");
}

#[test]
fn reads_and_writes_do_not_wait_for_a_weight_update() {
    let (_dir, store) = store_of(1);
    store
        .weight_update(1, || {
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    store.insert(NewRollout::new(7, 1)).unwrap();
                    assert!(store.stale().is_empty());
                    store.get(7.into()).unwrap().is_some()
                });
                assert!(other.join().unwrap());
                Ok::<_, Infallible>(())
            })
        })
        .unwrap();
}

#[test]
fn results_of_a_plan_made_before_an_update_are_stored_and_stale() {
    let (_dir, store) = store_of(2);
    let plan = store.plan_for(&ids(2), 1).unwrap();
    store.weight_update(2, || Ok::<_, Infallible>(())).unwrap();
    assert_eq!(plan.ref_version(), 0);
    let results = all(&plan, -0.5);
    let applied = store.apply(plan, results).unwrap();
    assert_eq!((applied.computed, applied.dropped), (2, 0));
    let view = store.get(0.into()).unwrap().unwrap();
    assert_eq!((view.ref_version(), view.born_step()), (0, 1), "version and step are the plan's");
    assert!(view.staleness(2).stale);
    assert_eq!(sorted(store.stale()), ids(2));
}

#[test]
fn a_failed_update_advances_all_the_same_and_gives_its_error() {
    let (_dir, store) = store_of(1);
    let error = store.weight_update(1, || Err::<(), _>("the optimizer diverged")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compute);
    assert!(error.to_string().contains("the optimizer diverged"), "{error}");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the optimizer diverged");
    assert_eq!((store.ref_version(), store.clock()), (1, Some(1)), "when in doubt, stale");
    store.weight_update(1, || Ok::<_, Infallible>(())).unwrap();
    assert_eq!(store.ref_version(), 2);
}

#[test]
fn a_panicking_update_advances_all_the_same_and_panics_on() {
    let (_dir, store) = store_of(1);
    let update = || store.weight_update(1, || -> Result<(), Infallible> { panic!("out of memory") });
    let panic = catch_unwind(AssertUnwindSafe(update)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"out of memory"));
    assert_eq!(store.ref_version(), 1);
    assert_eq!(store.plan_for(&ids(1), 1).unwrap().ref_version(), 1, "plans no longer wait");
}

#[test]
fn an_update_at_a_wrong_step_is_refused_before_the_weights_change() {
    let (_dir, store) = store_of(0);
    store.advance_ref_version(100, None).unwrap();
    let called = AtomicBool::new(false);
    let update = || {
        called.store(true, Ordering::SeqCst);
        Ok::<_, Infallible>(())
    };
    for step in [50, 1_000_000] {
        let error = store.weight_update(step, update).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&step.to_string()), "{error}");
    }
    assert!(!called.load(Ordering::SeqCst));
    assert_eq!(store.ref_version(), 1);
}

#[test]
fn what_would_wait_for_itself_is_refused_inside_an_update() {
    let (_dir, store) = store_of(2);
    let computed = AtomicU64::new(0);
    let compute = |work: &Plan| {
        computed.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(all(work, -0.5))
    };
    let mut refused = Vec::new();
    store
        .weight_update(1, || {
            refused.push(store.plan_for(&ids(2), 1).unwrap_err());
            refused.push(store.plan_due(1, Budget::unlimited()).unwrap_err());
            refused.push(store.plan_kl_ref_for(&ids(2), 1).unwrap_err());
            refused.push(store.get_or_compute(&ids(2), 1, compute).unwrap_err());
            refused.push(store.recompute(1, Budget::unlimited(), compute).unwrap_err());
            refused.push(store.weight_update(1, || Ok::<_, Infallible>(())).unwrap_err());
            // What does not depend on the weights is allowed.
            store.insert(NewRollout::new(50, 1)).unwrap();
            store.set_cursor(b"within").unwrap();
            assert_eq!(store.get(50.into()).unwrap().unwrap().created_step(), 1);
            Ok::<_, Infallible>(())
        })
        .unwrap();
    for error in &refused {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("closure"), "{error}");
    }
    assert_eq!((refused.len(), computed.load(Ordering::SeqCst)), (6, 0));
    assert_eq!(store.ref_version(), 1, "only the outer update advanced");
}

#[test]
fn a_compute_closure_may_use_the_store() {
    let (_dir, store) = store_of(3);
    let served = store
        .get_or_compute(&ids(2), 1, |work| {
            assert!(store.get(2.into())?.is_some());
            store.insert(NewRollout::new(10, 1))?;
            let inner = store.plan_for(&[2.into()], 1)?;
            let results = all(&inner, -0.25);
            store.apply(inner, results)?;
            store.weight_update(1, || Ok::<_, Infallible>(()))?;
            Ok::<_, rollstore::Error>(all(work, -0.5))
        })
        .unwrap();
    assert_eq!(served.iter().map(rollstore::Served::source).collect::<Vec<_>>(), [ServedFrom::Computed; 2]);
    assert_eq!(served[0].old_logps().unwrap(), [-0.5; 3]);
    assert_eq!(old_logps(&store, 2), [-0.25; 3]);
    assert_eq!(store.get(0.into()).unwrap().unwrap().ref_version(), 0, "made before the update inside");
}

#[test]
fn a_result_that_someone_else_outran_comes_late() {
    let outrun = |and_then: &dyn Fn(&RolloutStore)| {
        let (dir, store) = store_of(1);
        let served = store.get_or_compute(&ids(1), 1, |work| {
            store.advance_ref_version(1, None)?;
            store.get_or_compute(&ids(1), 1, |inner| Ok::<_, Infallible>(all(inner, -0.25)))?;
            and_then(&store);
            Ok::<_, rollstore::Error>(all(work, -0.5))
        });
        assert_eq!(old_logps(&store, 0), [-0.25; 3], "the late result of older weights never overwrites");
        (dir, served.unwrap().remove(0))
    };
    let (_dir, fresh) = outrun(&|_| {});
    assert_eq!((fresh.source(), fresh.old_logps().unwrap()), (ServedFrom::Stored, &[-0.25; 3][..]));
    let (_dir, stale) = outrun(&|store| assert_eq!(store.advance_ref_version(1, None).unwrap(), 2));
    assert_eq!(stale.source(), ServedFrom::Late);
    assert_eq!(stale.old_logps().unwrap_err().kind(), ErrorKind::Invalid, "what it has now is not fresh");
}

#[test]
fn a_failing_or_panicking_compute_closure_stores_nothing_and_poisons_nothing() {
    let (_dir, store) = store_of(3);
    let before = store.stats().unwrap();
    let error = store.get_or_compute(&ids(3), 1, |_| Err::<Results, _>("out of memory")).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("out of memory")), (ErrorKind::Compute, true), "{error}");
    let panicking = || store.get_or_compute(&ids(3), 1, |_| -> Result<Results, Infallible> { panic!("out of memory") });
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    let after = store.stats().unwrap();
    assert_eq!((after.last_lsn, after.missing), (before.last_lsn, 3), "no frame was written");

    store.get_or_compute(&ids(3), 1, |work| Ok::<_, Infallible>(all(work, -0.5))).unwrap();
    assert_eq!(store.stats().unwrap().missing, 0);
    store.weight_update(1, || Ok::<_, Infallible>(())).unwrap();

    let panicking = || store.recompute(1, Budget::unlimited(), |_| -> Result<Results, Infallible> { panic!("again") });
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    assert_eq!(sorted(store.stale()), ids(3));
    let done = store.recompute(1, Budget::unlimited(), |work| Ok::<_, Infallible>(all(work, -0.75))).unwrap();
    assert_eq!(done.computed, 3);
}

#[test]
fn many_that_compute_the_same_rollouts_agree_on_one_result() {
    const THREADS: usize = 8;
    const ROLLOUTS: u64 = 20;
    const ROUNDS: u64 = 10;
    let (_dir, store) = store_of(ROLLOUTS);
    for round in 1..=ROUNDS {
        let computed_before = store.stats().unwrap().counters.computed;
        let barrier = Barrier::new(THREADS);
        let served: Vec<Vec<f32>> = thread::scope(|scope| {
            let compute = |thread: u64| {
                let (store, barrier) = (&store, &barrier);
                move || {
                    barrier.wait();
                    let value = logp(thread);
                    let served =
                        store.get_or_compute(&ids(ROLLOUTS), round, |work| Ok::<_, Infallible>(all(work, value)));
                    served.unwrap().iter().map(|row| row.old_logps().unwrap()[0]).collect()
                }
            };
            let threads: Vec<_> = (1..=THREADS as u64).map(|thread| scope.spawn(compute(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stored: Vec<f32> = (0..ROLLOUTS).map(|id| old_logps(&store, id)[0]).collect();
        for values in &served {
            assert_eq!(*values, stored, "round {round}: someone was served what is not stored");
        }
        let computed = store.stats().unwrap().counters.computed - computed_before;
        assert_eq!(computed, ROLLOUTS, "round {round}: each was stored once");
        store.advance_ref_version(round, None).unwrap();
    }
}

#[test]
fn a_clock_that_moved_on_meanwhile_does_not_keep_the_version_back() {
    let (_dir, store) = store_of(1);
    store.advance_ref_version(10, None).unwrap();
    let before = store.ref_version();
    let update = store.weight_update(10, || store.advance_ref_version(50, None));
    assert_eq!(update.unwrap(), before + 1, "another thread's advance, at a later step");
    assert_eq!((store.ref_version(), store.clock()), (before + 2, Some(50)), "the weights changed twice");
}
