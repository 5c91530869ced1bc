//! A gather of rows that were read before, which opens no rollout, serves what a view shows at the same moment.
//!
//! Method: gather twice, so that every place is known, then once more behind each kind of change, and compare with views.

use rollstore::{
    Column, CompactBudget, ErrorKind, Flat, NewRollout, Reads, Reason, Results, RolloutId, RolloutStore, Stale,
};
use rollstore_testkit::scratch::{Scratch, ids};

const STEP: u64 = 100;

fn filled(scratch: &Scratch, reads: Reads) -> RolloutStore {
    let store = scratch
        .open_with(|options| options.window(8).reads(reads).segment_bytes(64 << 10).background_compaction(false));
    for id in 0..64_u16 {
        let tokens: Vec<u32> = (0..200 + u32::from(id)).collect();
        let logps = vec![-1.0 - f32::from(id); tokens.len()];
        let id = u64::from(id);
        store.insert(NewRollout::new(id, STEP).completion_ids(tokens).old_logps(logps, store.ref_version())).unwrap();
    }
    store
}

fn gathered(store: &RolloutStore, ids: &[RolloutId], step: u64) -> rollstore::Result<Flat<f32>> {
    let mut flat = Flat::default();
    store.gather(ids, Column::OldLogps, step, Stale::Error, &mut flat)?;
    Ok(flat)
}

/// Gathers twice, and compares with views both times.
fn assert_as_viewed(store: &RolloutStore, ids: &[RolloutId], step: u64) {
    let views: Vec<f32> =
        ids.iter().flat_map(|id| store.get(*id).unwrap().unwrap().old_logps().unwrap().to_vec()).collect();
    for _ in 0..2 {
        assert_eq!(gathered(store, ids, step).unwrap().values, views);
        let mut tokens: Flat<u32> = Flat::default();
        store.gather(ids, Column::CompletionIds, step, Stale::Error, &mut tokens).unwrap();
        assert_eq!(tokens.cu_seqlens.len(), ids.len() + 1);
        assert_eq!(tokens.values.len(), views.len());
    }
}

#[test]
fn rows_that_are_known_are_those_of_the_views() {
    for reads in [Reads::Mapped, Reads::Copied] {
        let scratch = Scratch::new();
        let store = filled(&scratch, reads);
        assert_as_viewed(&store, &ids([5, 60, 0, 5]), STEP);
        assert_as_viewed(&store, &ids(0..64), STEP);
    }
}

#[test]
fn a_recompute_a_replacement_and_a_move_are_seen() {
    let scratch = Scratch::new();
    let store = filled(&scratch, Reads::Mapped);
    let all = ids(0..64);
    assert_as_viewed(&store, &all, STEP);

    store.advance_ref_version(STEP, None).unwrap();
    let plan = store.plan_for(&all, STEP).unwrap();
    let results: Results = plan.rollouts().map(|row| (row.id(), vec![-9.0; row.token_count() as usize])).collect();
    store.apply(plan, results).unwrap();
    assert!(gathered(&store, &all, STEP).unwrap().values.iter().all(|logp| *logp == -9.0));
    assert_as_viewed(&store, &all, STEP);

    store.replace(NewRollout::new(7, STEP).completion_ids(&[1, 2][..]).old_logps(&[-3.0, -4.0][..], 1)).unwrap();
    assert_eq!(gathered(&store, &ids([7]), STEP).unwrap().values, [-3.0, -4.0]);

    store.retire(&ids((0..64).filter(|id| id % 2 == 0)), Reason::Trained).unwrap();
    assert!(store.compact(CompactBudget::all()).unwrap().copied_bytes > 0);
    assert_as_viewed(&store, &ids((0..64).filter(|id| id % 2 == 1)), STEP);
}

#[test]
fn what_went_stale_or_ended_is_refused_although_it_is_known() {
    let scratch = Scratch::new();
    let store = filled(&scratch, Reads::Mapped);
    assert_as_viewed(&store, &ids([1, 2]), STEP);

    let out_of_window = gathered(&store, &ids([1, 2]), STEP + 9).unwrap_err();
    assert_eq!(out_of_window.kind(), ErrorKind::Invalid);
    store.advance_ref_version(STEP, None).unwrap();
    let stale = gathered(&store, &ids([1, 2]), STEP).unwrap_err();
    assert_eq!((stale.kind(), stale.rollout()), (ErrorKind::Invalid, Some(RolloutId::new(1))));
    let mut flat: Flat<f32> = Flat::default();
    store.gather(&ids([1, 2]), Column::OldLogps, STEP, Stale::Allow, &mut flat).unwrap();
    assert_eq!(flat.values.len(), 201 + 202);

    store.retire(&ids([2]), Reason::Trained).unwrap();
    let ended = store.gather(&ids([1, 2]), Column::OldLogps, STEP, Stale::Allow, &mut flat).unwrap_err();
    assert_eq!((ended.kind(), ended.rollout()), (ErrorKind::NotFound, Some(RolloutId::new(2))));
}

#[test]
fn known_rows_of_another_type_are_refused() {
    let scratch = Scratch::new();
    let store = filled(&scratch, Reads::Mapped);
    assert_as_viewed(&store, &ids([1]), STEP);
    let mut wrong: Flat<u32> = Flat::default();
    let refused = store.gather(&ids([1]), Column::OldLogps, STEP, Stale::Error, &mut wrong).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(wrong.values.is_empty());
}

#[test]
fn known_rows_are_counted_as_asked_and_served() {
    let scratch = Scratch::new();
    let store = filled(&scratch, Reads::Mapped);
    for times in 1..4 {
        gathered(&store, &ids([1, 2, 3]), STEP).unwrap();
        let counters = store.stats().unwrap().counters;
        assert_eq!((counters.asked, counters.served), (3 * times, 3 * times));
    }
    store.retire(&ids(0..64), Reason::Trained).unwrap();
    assert_eq!(store.stats().unwrap().counters.retired_unused, 61);
}
