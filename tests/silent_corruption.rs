//! Mistakes of a trainer that would train on wrong log-probs without a word: each errors, warns, drops or recomputes, and
//! none reads as fresh.
//!
//! Method: one test for each mistake, made just as a trainer would make it.

#![expect(clippy::float_cmp, reason = "log-probs are kept bit for bit: equal, or wrong")]

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rollstore::{Budget, Column, ErrorKind, Padded, Reason, RolloutId, RolloutStore, ServedFrom, Stale};
use rollstore_testkit::scratch::{Scratch, bare, ids, model, outline, results, with_old};

#[track_caller]
fn assert_not_fresh(store: &RolloutStore, id: u64, step: u64) {
    let id = RolloutId::new(id);
    let staleness = store.get(id).unwrap().unwrap().staleness(step);
    assert!(!staleness.is_fresh(), "rollout {id} at step {step}: {staleness:?}");
    assert_eq!(store.plan_for(&[id], step).unwrap().len(), 1, "it is computed before it is used");
    assert!(gather(store, &[id], step, Stale::Error).is_err(), "it is not served");
}

fn gather(store: &RolloutStore, ids: &[RolloutId], step: u64, stale: Stale) -> rollstore::Result<Vec<f32>> {
    let mut tensor = vec![9.0; ids.len() * 3];
    let gathered = store.gather(ids, Column::OldLogps, step, stale, &mut Padded::new(&mut tensor, 3, 0.0));
    assert!(gathered.is_ok() || tensor.iter().all(|value| *value == 9.0), "a refused gather leaves the buffer alone");
    gathered.map(|()| tensor)
}

/// A store at step 137 that a trainer, which reloaded step 100, kept.
fn kept_from_the_future(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open();
    store.insert(with_old(1, 99, -1.0, 0)).unwrap();
    store.advance_ref_version(137, None).unwrap();
    store.insert(with_old(2, 137, -1.0, 1)).unwrap();
    store
}

#[test]
fn a_resume_without_a_restore_is_refused_at_the_first_act() {
    let scratch = Scratch::new();
    let store = kept_from_the_future(&scratch);
    let before = outline(&store);
    let told = [
        store.advance_ref_version(100, None).unwrap_err(),
        store.plan_for(&ids([1]), 100).unwrap_err(),
        store.plan_due(100, Budget::unlimited()).unwrap_err(),
        store.plan_kl_ref_for(&ids([1]), 100).unwrap_err(),
        store.recompute(100, Budget::unlimited(), model(-0.5)).unwrap_err(),
        store.get_or_compute(&ids([1]), 100, model(-0.5)).unwrap_err(),
        store.weight_update(100, || -> Result<(), Infallible> { panic!("the weights must not change") }).unwrap_err(),
    ];
    for error in told {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with("store is at step 137, call gave 100; restore"), "{error}");
    }
    assert_eq!(outline(&store), before);
    assert!(store.get(2.into()).unwrap().unwrap().staleness(100).from_future, "reads only flag");
}

#[test]
fn a_resume_without_a_restore_is_refused_at_the_open_where_the_step_is_told() {
    let scratch = Scratch::new();
    kept_from_the_future(&scratch).close().unwrap();
    let open = |step| RolloutStore::options().resume_step(step).open(scratch.store_dir());
    let refused = open(100).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().starts_with("store is at step 137, the trainer resumes at 100"), "{refused}");
    open(137).unwrap();
}

#[test]
fn logps_that_arrive_after_an_advance_keep_the_version_that_made_them() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for step in 0..5 {
        store.advance_ref_version(step, None).unwrap();
    }
    let generated_at = store.ref_version();
    assert_eq!(generated_at, 5);
    // The generation is still under way when the weights change; its rollout arrives afterwards.
    store.advance_ref_version(5, None).unwrap();
    store.insert(with_old(1, 5, -1.0, generated_at)).unwrap();
    assert_eq!(store.get(1.into()).unwrap().unwrap().ref_version(), 5, "not 6, the version of now");
    assert_eq!(store.stale(), ids([1]));
    assert_not_fresh(&store, 1, 5);
}

#[test]
fn an_advance_while_a_plan_is_out_leaves_its_results_stale() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 1)).unwrap();
    let plan = store.plan_for(&ids([1]), 1).unwrap();
    store.advance_ref_version(2, None).unwrap();
    let computed = results(&plan, -0.5);
    assert_eq!(store.apply(plan, computed).unwrap().computed, 1, "kept, under the version that made it");
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!((view.ref_version(), view.born_step(), view.old_logps().unwrap()), (0, 1, &[-0.5; 3][..]));
    assert_not_fresh(&store, 1, 2);
}

#[test]
fn a_late_result_never_reaches_a_rollout_that_took_the_place_of_its_own() {
    for what in ["replaced", "retired and inserted again", "retired", "computed"] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(bare(1, 1)).unwrap();
        let plan = store.plan_for(&ids([1]), 1).unwrap();
        match what {
            "replaced" => drop(store.replace(with_old(1, 2, -2.0, 0)).unwrap()),
            "computed" => drop(store.get_or_compute(&ids([1]), 2, model(-2.0)).unwrap()),
            _ => drop(store.retire(&ids([1]), Reason::Stale).unwrap()),
        }
        if what == "retired and inserted again" {
            store.insert(with_old(1, 2, -2.0, 0)).unwrap();
        }
        let late = results(&plan, -0.5);
        let applied = store.apply(plan, late).unwrap();
        assert_eq!((applied.computed, applied.dropped), (0, 1), "{what}");
        assert_eq!(store.stats().unwrap().counters.dropped, 1, "{what}");
        match store.get(1.into()).unwrap() {
            Some(view) => assert_eq!(view.old_logps().unwrap(), [-2.0; 3], "{what}"),
            None => assert_eq!(what, "retired"),
        }
    }
}

#[test]
fn values_of_a_late_result_are_checked_before_its_lateness() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 1)).unwrap();
    let plan = store.plan_for(&ids([1]), 1).unwrap();
    store.retire(&ids([1]), Reason::Stale).unwrap();
    let broken = results(&plan, f32::NAN);
    assert_eq!(store.apply(plan, broken).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_gather_names_what_is_not_fresh_and_serves_it_only_on_request() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    store.insert(with_old(2, 20, -2.0, 0)).unwrap();
    store.insert(bare(3, 1)).unwrap();
    let refused = gather(&store, &ids([2, 1]), 20, Stale::Error).unwrap_err();
    assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::Invalid, Some(1.into())));
    let values = gather(&store, &ids([2, 1]), 20, Stale::Allow).unwrap();
    assert_eq!(values, [-2.0, -2.0, -2.0, -1.0, -1.0, -1.0]);
    for stale in [Stale::Error, Stale::Allow] {
        let refused = gather(&store, &ids([2, 3]), 20, stale).unwrap_err();
        assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::NotFound, Some(3.into())), "there is nothing");
    }
    store.advance_ref_version(20, None).unwrap();
    assert_not_fresh(&store, 2, 20);
}

#[test]
fn kl_reference_logps_of_an_older_reference_are_not_served() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0).kl_ref_logps(vec![-3.0; 3], 0)).unwrap();
    store.advance_kl_ref_version(None).unwrap();
    let mut tensor = [0.0; 3];
    let mut out = Padded::new(&mut tensor, 3, 0.0);
    let refused = store.gather(&ids([1]), Column::KlRefLogps, 1, Stale::Error, &mut out).unwrap_err();
    assert!(refused.to_string().contains("of version 0, the current one is 1"), "{refused}");
    assert!(store.get(1.into()).unwrap().unwrap().staleness(1).is_fresh(), "the clock of old logps is another one");
    let plan = store.plan_kl_ref_for(&ids([1]), 1).unwrap();
    let computed = results(&plan, -0.75);
    store.apply(plan, computed).unwrap();
    store.gather(&ids([1]), Column::KlRefLogps, 1, Stale::Error, &mut out).unwrap();
    assert_eq!(tensor, [-0.75; 3]);
}

/// A trainer that advances at every optimizer step and takes several over the same rollouts.
fn advance_per_optimizer_step(store: &RolloutStore, use_rollouts: impl Fn(&[RolloutId], u64)) {
    let batch = ids(0..64);
    for id in &batch {
        store.insert(with_old(id.get(), 0, -1.0, 0)).unwrap();
    }
    for step in 0..8 {
        store.advance_ref_version(step, None).unwrap();
        use_rollouts(&batch, step);
    }
}

#[test]
fn a_ratio_that_is_always_one_is_warned_of() {
    let scratch = Scratch::new();
    let store = scratch.open();
    advance_per_optimizer_step(&store, |batch, step| drop(store.get_or_compute(batch, step, model(-0.5)).unwrap()));
    let warnings = store.stats().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("ratio")), "{warnings:?}");
}

#[test]
fn a_ratio_that_is_always_one_is_warned_of_where_plans_are_run_by_hand() {
    let scratch = Scratch::new();
    let store = scratch.open();
    advance_per_optimizer_step(&store, |batch, step| {
        let plan = store.plan_for(batch, step).unwrap();
        let computed = results(&plan, -0.5);
        store.apply(plan, computed).unwrap();
        gather(&store, batch, step, Stale::Error).unwrap();
    });
    let warnings = store.stats().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("ratio")), "{warnings:?}");
}

#[test]
fn a_trainer_that_reuses_its_logps_is_not_warned() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.max_version_lag(3));
    advance_per_optimizer_step(&store, |batch, step| drop(store.get_or_compute(batch, step, model(-0.5)).unwrap()));
    assert_eq!(store.stats().unwrap().warnings, Vec::<String>::new());
}

#[test]
fn another_models_store_is_refused() {
    let scratch = Scratch::new();
    scratch.open_with(|options| options.run_identity(b"qwen3-8b")).close().unwrap();
    for read_only in [false, true] {
        let options = RolloutStore::options().window(8).run_identity(b"llama-8b").read_only(read_only);
        let refused = options.open(scratch.store_dir()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        let text = refused.to_string();
        assert!(text.contains("qwen3-8b") && text.contains("llama-8b"), "{text}");
    }
    let _same = scratch.open_with(|options| options.run_identity(b"qwen3-8b"));
}

#[test]
fn a_live_id_is_not_inserted_again() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    let before = outline(&store);
    let refused = store.insert(with_old(1, 2, -2.0, 0)).unwrap_err();
    assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::Invalid, Some(1.into())));
    assert_eq!(outline(&store), before);
    assert_eq!(store.get(1.into()).unwrap().unwrap().old_logps().unwrap(), [-1.0; 3]);
}

#[test]
fn a_retired_id_that_comes_again_inherits_nothing() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.insert(bare(1, 1).kl_ref_logps(vec![-3.0; 3], 0)).unwrap();
    store.get_or_compute(&ids([1]), 1, model(-1.0)).unwrap();
    let earlier = store.get(1.into()).unwrap().unwrap().insert_lsn();
    store.retire(&ids([1]), Reason::Trained).unwrap();
    store.insert(bare(1, 1)).unwrap();
    for reopened in [false, true] {
        if reopened {
            store.close().unwrap();
            store = scratch.open();
        }
        let view = store.get(1.into()).unwrap().unwrap();
        assert!(view.insert_lsn() > earlier);
        assert_eq!(view.old_logps().unwrap_err().kind(), ErrorKind::NotFound, "reopened: {reopened}");
        assert_eq!(view.kl_ref_logps().unwrap_err().kind(), ErrorKind::NotFound, "reopened: {reopened}");
        assert_eq!(view.behaviour_logps().unwrap_err().kind(), ErrorKind::NotFound, "reopened: {reopened}");
        assert!(view.staleness(1).missing, "reopened: {reopened}");
    }
    assert_not_fresh(&store, 1, 1);
}

#[test]
fn a_new_incarnation_does_not_count_as_used_because_the_one_before_was() {
    for replaced in [false, true] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 1, -1.0, 0)).unwrap();
        assert!(store.plan_for(&ids([1]), 1).unwrap().is_empty());
        if replaced {
            store.replace(with_old(1, 1, -2.0, 0)).unwrap();
        } else {
            store.retire(&ids([1]), Reason::Trained).unwrap();
            store.insert(with_old(1, 1, -2.0, 0)).unwrap();
        }
        assert_eq!(store.stats().unwrap().counters.retired_unused, 0, "the first was used");
        store.retire(&ids([1]), Reason::Evicted).unwrap();
        assert_eq!(store.stats().unwrap().counters.retired_unused, 1, "no one asked for the second, {replaced}");
    }
}

#[test]
fn an_absurd_step_is_refused_and_does_not_move_the_clock() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.advance_ref_version(100, None).unwrap();
    store.insert(with_old(1, 100, -1.0, 1)).unwrap();
    let before = outline(&store);
    for absurd in [10_101, u64::from(u32::MAX), u64::MAX] {
        let told = [
            store.insert(bare(2, absurd)).unwrap_err(),
            store.advance_ref_version(absurd, None).unwrap_err(),
            store.plan_for(&ids([1]), absurd).unwrap_err(),
            store.recompute(absurd, Budget::unlimited(), model(-0.5)).unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&absurd.to_string()), "{error}");
        }
    }
    assert_eq!(outline(&store), before);
    store.insert(bare(2, 10_100)).unwrap();
}

#[test]
fn a_step_that_is_minus_one_by_a_slip_is_refused_by_a_new_store_too() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let slip = 0_u64.wrapping_sub(1);
    assert_eq!(store.insert(bare(1, slip)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.advance_ref_version(slip, None).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!((store.clock(), store.is_empty()), (None, true));
}

#[test]
fn a_plan_from_before_a_restore_is_dropped() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 1)).unwrap();
    store.checkpoint(scratch.path("saved")).unwrap();
    let plan = store.plan_for(&ids([1]), 1).unwrap();
    let store = scratch.restored(store, scratch.path("saved"));
    let late = results(&plan, -0.5);
    let applied = store.apply(plan, late).unwrap();
    assert_eq!((applied.computed, applied.dropped), (0, 1));
    assert_not_fresh(&store, 1, 1);
}

#[test]
fn nothing_of_an_abandoned_future_reads_as_fresh_after_a_restore() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.max_version_lag(1_000));
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    store.checkpoint(scratch.path("saved")).unwrap();
    let abandoned = store.advance_ref_version(1, None).unwrap();
    let store = scratch.restored(store, scratch.path("saved"));
    assert!(store.get(1.into()).unwrap().unwrap().staleness(1).is_fresh(), "the trainer has version 0 again");
    // A worker that still runs the abandoned weights sends what it made.
    store.insert(with_old(2, 1, -1.0, abandoned)).unwrap();
    assert_not_fresh(&store, 2, 1);
    assert!(store.advance_ref_version(1, None).unwrap() > abandoned, "no version is issued twice");
    assert_not_fresh(&store, 2, 1);
}

#[test]
fn a_weight_update_that_fails_or_panics_leaves_everything_stale() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    let failed = store.weight_update(1, || Err::<(), _>("the push broke off")).unwrap_err();
    assert_eq!((failed.kind(), store.ref_version()), (ErrorKind::Compute, 1));
    assert!(failed.to_string().contains("the push broke off"), "{failed}");
    assert_not_fresh(&store, 1, 1);

    store.get_or_compute(&ids([1]), 1, model(-0.5)).unwrap();
    let update = || store.weight_update(1, || -> Result<(), Infallible> { panic!("out of memory") });
    catch_unwind(AssertUnwindSafe(update)).unwrap_err();
    assert_eq!(store.ref_version(), 2);
    assert_not_fresh(&store, 1, 1);
}

#[test]
fn a_plan_of_weights_in_change_is_refused() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    let refused = |done: rollstore::Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::Invalid);
    let update = || {
        refused(store.plan_for(&ids([1]), 1).map(drop));
        refused(store.plan_due(1, Budget::unlimited()).map(drop));
        refused(store.plan_kl_ref_for(&ids([1]), 1).map(drop));
        refused(store.recompute(1, Budget::unlimited(), model(-0.5)).map(drop));
        refused(store.get_or_compute(&ids([1]), 1, model(-0.5)).map(drop));
        refused(store.weight_update(1, || Ok::<_, Infallible>(())));
        Ok::<_, Infallible>(())
    };
    store.weight_update(1, update).unwrap();
    assert_eq!(store.ref_version(), 1);
    assert_eq!(store.plan_for(&ids([1]), 1).unwrap().ref_version(), 1, "afterwards it is made of the new ones");
}

#[test]
fn a_plan_of_another_store_is_dropped() {
    let (ours, theirs) = (Scratch::new(), Scratch::new());
    let (store, other) = (ours.open(), theirs.open());
    for store in [&store, &other] {
        // The same rollout by every number: id, incarnation, version.
        store.insert(bare(1, 1)).unwrap();
    }
    let plan = other.plan_for(&ids([1]), 1).unwrap();
    let foreign = results(&plan, -0.5);
    let applied = store.apply(plan, foreign).unwrap();
    assert_eq!((applied.computed, applied.dropped), (0, 1));
    assert_not_fresh(&store, 1, 1);
}

#[test]
fn an_access_does_not_serve_what_took_a_rollouts_place_meanwhile() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 1, -1.0, 0)).unwrap();
    store.insert(bare(2, 1)).unwrap();
    store.advance_ref_version(1, None).unwrap();
    store.get_or_compute(&ids([1]), 1, model(-1.5)).unwrap();
    // Both lose their places while the second is computed: the first was fresh, its successor is stale.
    let served = store
        .get_or_compute(&ids([1, 2]), 1, |work| {
            assert_eq!(work.ids().collect::<Vec<_>>(), ids([2]));
            store.replace(with_old(1, 1, -7.0, 0)).unwrap();
            store.replace(with_old(2, 1, -8.0, 0)).unwrap();
            model(-0.5)(work)
        })
        .unwrap();
    for served in served {
        let id = served.rollout().id();
        let serves = !matches!(served.source(), ServedFrom::Declined | ServedFrom::Late);
        assert!(!serves && served.old_logps().is_err(), "rollout {id}: {:?}", served.source());
    }
}
