//! Rollouts that come from another store stand as they stood there: born steps, versions that have passed, first log-probs.
//!
//! Method: a store with a life behind it is taken over through the public interface, and both answer alike.

use rollstore::{Clocks, ErrorKind, NewRollout, Results, RolloutId, RolloutStore};

fn options() -> rollstore::Options {
    RolloutStore::options().window(8).max_version_lag(1)
}

/// Rollout 1 as it was inserted; 2, computed again without a sampler; 3, without old log-probs.
fn lived(dir: &std::path::Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    store.insert(NewRollout::new(1, 90).old_logps(&[-0.5][..], 0)).unwrap();
    store.insert(NewRollout::new(2, 90).old_logps(&[-0.5][..], 0)).unwrap();
    store.advance_ref_version(95, Some(7)).unwrap();
    store.insert(NewRollout::new(3, 96)).unwrap();
    store.advance_ref_version(97, None).unwrap();
    let plan = store.plan_for(&[2.into()], 97).unwrap();
    store.apply(plan, Results::from_iter([(RolloutId::from(2), vec![-0.75])])).unwrap();
    store
}

#[test]
fn a_rollout_that_is_brought_answers_as_it_did_before() {
    let dir = tempfile::tempdir().unwrap();
    let from = lived(&dir.path().join("from"));
    let to = options().clocks(from.clocks()).open(dir.path().join("to")).unwrap();
    for id in [1, 2, 3] {
        let rollout = from.get(id.into()).unwrap().unwrap();
        let mut new = NewRollout::new(id, rollout.created_step());
        if let Ok(logps) = rollout.old_logps() {
            new = new.old_logps(logps, rollout.ref_version());
        }
        if rollout.keeps_first_old_logps() {
            new = new.first_old_logps(rollout.behaviour_logps().unwrap());
        }
        to.insert(new.as_it_stood(rollout.born_step(), rollout.ref_version())).unwrap();
    }
    assert_eq!(to.clocks(), from.clocks());
    to.close().unwrap();
    let to = options().open(dir.path().join("to")).unwrap();
    assert_eq!((to.clocks(), to.ref_version_of(7)), (from.clocks(), Some(1)));
    for id in [1, 2, 3] {
        let [ours, theirs] = [&from, &to].map(|store| store.get(id.into()).unwrap().unwrap());
        assert_eq!(ours.staleness(98), theirs.staleness(98), "{id}");
        assert_eq!(ours.ref_version(), theirs.ref_version(), "{id}");
        assert_eq!(ours.old_logps().ok(), theirs.old_logps().ok(), "{id}");
        assert_eq!(ours.behaviour_logps().ok(), theirs.behaviour_logps().ok(), "{id}");
        assert_eq!(ours.keeps_first_old_logps(), theirs.keeps_first_old_logps(), "{id}");
    }
    assert_eq!(to.needs_recompute(98), from.needs_recompute(98));
}

#[test]
fn a_store_goes_on_from_the_clocks_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let from = lived(&dir.path().join("from"));
    let to = options().clocks(from.clocks()).open(dir.path().join("to")).unwrap();
    assert!(to.advance_ref_version(95, None).is_err_and(|error| error.to_string().contains("store is at step 97")));
    assert_eq!(to.advance_ref_version(98, None).unwrap(), from.advance_ref_version(98, None).unwrap());
}

#[test]
fn a_store_that_exists_keeps_its_own_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let from = lived(&dir.path().join("from"));
    let clocks = from.clocks();
    from.close().unwrap();
    let error = options().clocks(clocks).open(dir.path().join("from")).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("clocks of its own"), "{error}");
}

#[test]
fn clocks_that_no_store_can_have_are_refused_and_make_none() {
    let dir = tempfile::tempdir().unwrap();
    let sound = lived(&dir.path().join("from")).clocks();
    let line = |change: fn(&mut rollstore::VersionLine)| {
        let mut clocks = sound.clone();
        change(&mut clocks.ref_versions);
        clocks
    };
    let broken = [
        line(|line| line.lineage.clear()),
        line(|line| line.next = 2),
        line(|line| line.next = u64::MAX),
        line(|line| line.lineage.push(1..=1)),
        line(|line| line.labels = vec![(1, 1); 5000]),
        Clocks { step: Some(u64::MAX), ..sound.clone() },
    ];
    for clocks in broken {
        let dir = dir.path().join("to");
        let error = options().clocks(clocks.clone()).open(&dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{clocks:?}: {error}");
        assert!(options().create(false).open(&dir).is_err_and(|error| error.kind() == ErrorKind::NotFound));
    }
}

#[test]
fn first_log_probs_need_newer_ones_of_as_many_tokens_and_no_sampler() {
    let dir = tempfile::tempdir().unwrap();
    let store = options().open(dir.path()).unwrap();
    let new = || NewRollout::new(1, 0).first_old_logps(&[-0.5][..]);
    let sampled = || new().sampler_logps(&[-0.5][..]).old_logps(&[-0.5][..], 0).as_it_stood(0, 0);
    for rollout in [
        new().as_it_stood(0, 0),
        new().old_logps(&[-0.5][..], 0),
        new().old_logps(&[-0.5, -0.5][..], 0).as_it_stood(0, 0),
        sampled(),
        new().old_logps(&[-0.5][..], 0).as_it_stood(u64::MAX, 0),
        new().old_logps(&[-0.5][..], 0).as_it_stood(0, 1),
        NewRollout::new(1, 0).old_logps(&[-0.5][..], 0).as_it_stood(0, 0).first_old_logps(&[f32::NAN][..]),
    ] {
        let error = store.insert(rollout.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{rollout:?}");
    }
    assert!(store.is_empty());
}
