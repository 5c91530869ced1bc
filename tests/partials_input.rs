//! Calls on partial rollouts that cannot be meant are refused with a reason, and leave nothing behind.
//!
//! Method: each wrong call on a store with a live and a partial rollout; the error says what is wrong, and what the store
//! shows, its last LSN included, is as before.

use rollstore::{Column, ErrorKind, NewRollout, Provenance, RolloutStore};
use rollstore_testkit::scratch::{Scratch, assert_says, outline, with_old};
use rollstore_testkit::store::{append, ids, partial};

/// A store with rollout 1, and partial rollout 8 of 10 tokens, created at step 3.
fn begun(scratch: &Scratch) -> RolloutStore {
    let store = scratch.open();
    store.insert(with_old(1, 3, -0.5, 0)).unwrap();
    store.begin_partial(partial(8, 3)).unwrap();
    append(&store, 8, 10).unwrap();
    store
}

fn refused<T: std::fmt::Debug>(
    store: &RolloutStore,
    call: impl FnOnce(&RolloutStore) -> rollstore::Result<T>,
    kind: ErrorKind,
    parts: &[&str],
) {
    let before = (outline(store), store.partials());
    assert_says(&call(store).unwrap_err(), kind, parts);
    assert_eq!((outline(store), store.partials()), before, "{parts:?}");
}

#[test]
fn a_begin_takes_what_is_known_before_the_first_token_and_nothing_else() {
    let scratch = Scratch::new();
    let store = begun(&scratch);
    let new = || NewRollout::new(20, 3);
    let others = [
        (new().reward(1.0), "a reward"),
        (new().advantage(1.0), "an advantage"),
        (new().metadata(b"own"), "metadata"),
        (new().completion_ids(vec![1]), "completion_ids"),
        (new().sampler_logps(vec![-0.5]), "sampler_logps"),
        (new().old_logps(vec![-0.5], 0), "old_logps"),
        (new().loss_mask(vec![1]), "loss_mask"),
        (new().column("own", vec![1_u8]), "own"),
        (new().version_spans(&[(1, 0)]), "version spans"),
        (new().provenance(Column::SamplerLogps, Provenance::raw("engine")), "a provenance"),
    ];
    for (rollout, what) in others {
        refused(&store, |store| store.begin_partial(rollout), ErrorKind::Invalid, &["rollout 20", what, "finish"]);
    }
    let begin = |id, step| move |store: &RolloutStore| store.begin_partial(NewRollout::new(id, step));
    refused(&store, begin(1, 3), ErrorKind::Invalid, &["rollout 1", "is live"]);
    refused(&store, begin(8, 3), ErrorKind::Invalid, &["rollout 8", "open partial", "abandon"]);
    refused(&store, begin(20, u64::MAX), ErrorKind::Invalid, &["is no step"]);
}

#[test]
fn an_id_with_an_open_partial_cannot_be_inserted_or_replaced() {
    let scratch = Scratch::new();
    let store = begun(&scratch);
    let new = || with_old(8, 3, -0.5, 0);
    refused(
        &store,
        |store| store.insert(new()),
        ErrorKind::Invalid,
        &["rollout 8", "open partial", "finish or abandon"],
    );
    refused(&store, |store| store.replace(new()), ErrorKind::NotFound, &["rollout 8"]);
}

#[test]
fn an_append_needs_a_begun_rollout_and_lengths_that_agree() {
    let scratch = Scratch::new();
    let store = begun(&scratch);
    let append = |id: u64, tokens: usize, logps: usize, span| {
        move |store: &RolloutStore| store.append(id.into(), vec![1; tokens], vec![-0.5; logps], span)
    };
    refused(&store, append(9, 2, 2, (1, 2)), ErrorKind::NotFound, &["rollout 9", "begin"]);
    refused(&store, append(9, 0, 0, (1, 0)), ErrorKind::NotFound, &["rollout 9", "begin"]);
    refused(&store, append(1, 2, 2, (1, 2)), ErrorKind::Invalid, &["rollout 1", "whole already"]);
    refused(&store, append(8, 2, 3, (1, 2)), ErrorKind::Invalid, &["completion_ids has 2", "sampler_logps has 3"]);
    refused(&store, append(8, 2, 2, (7, 3)), ErrorKind::Invalid, &["version 7 covers 3 tokens, 2 are appended"]);
    refused(&store, append(8, 2, 2, (7, 0)), ErrorKind::Invalid, &["version 7 covers 0 tokens, 2 are appended"]);
}

#[test]
fn a_finish_agrees_with_what_was_begun() {
    let scratch = Scratch::new();
    let store = begun(&scratch);
    let finish = |rest: NewRollout<'static>| move |store: &RolloutStore| store.finish(rest);
    let new = || NewRollout::new(8, 3);
    refused(&store, finish(NewRollout::new(9, 3)), ErrorKind::NotFound, &["rollout 9"]);
    refused(&store, finish(NewRollout::new(1, 3)), ErrorKind::NotFound, &["rollout 1"]);
    refused(&store, finish(NewRollout::new(8, 4)), ErrorKind::Invalid, &["created step 4", "begun with 3"]);
    refused(&store, finish(new().group(9)), ErrorKind::Invalid, &["group 9", "begun with 2"]);
    refused(&store, finish(new().prompt_ids(vec![1])), ErrorKind::Invalid, &["prompt_ids is given twice"]);
    refused(&store, finish(new().completion_ids(vec![1])), ErrorKind::Invalid, &["11", "sampler_logps has 10"]);
    let last = || new().completion_ids(vec![1]).sampler_logps(vec![-0.5]);
    refused(&store, finish(last()), ErrorKind::Invalid, &["cover 10 tokens of 11"]);
    refused(&store, finish(last().version_spans(&[(1, 2)])), ErrorKind::Invalid, &["cover 12 tokens of 11"]);
    refused(&store, finish(new().old_logps(vec![-0.5; 9], 0)), ErrorKind::Invalid, &["old_logps has 9"]);
    refused(&store, finish(new().old_logps(vec![-0.5; 10], 5)), ErrorKind::Invalid, &["never issued"]);
    refused(&store, finish(new().old_logps(vec![f32::NAN; 10], 0)), ErrorKind::Invalid, &["old_logps[0] is NaN"]);
    store.finish(last().version_spans(&[(1, 0)])).unwrap();
    assert_eq!(store.get(8.into()).unwrap().unwrap().version_spans(), [(0, 10), (1, 1)]);
}

#[test]
fn the_pieces_of_a_batch_are_not_there_for_a_finish_of_the_same_batch() {
    let scratch = Scratch::new();
    let store = begun(&scratch);
    let both = |store: &RolloutStore| {
        let mut batch = store.batch();
        batch.append(8.into(), vec![1], vec![-0.5], (1, 1))?;
        let refused = batch.finish(NewRollout::new(8, 3));
        // The whole batch is refused, also where the caller passes over the error.
        assert!(batch.commit().is_err());
        refused
    };
    refused(&store, both, ErrorKind::Invalid, &["rollout 8", "in this batch", "last tokens to finish"]);
}

#[test]
fn a_store_that_cannot_write_refuses_and_one_that_is_closed_too() {
    let scratch = Scratch::new();
    begun(&scratch).close().unwrap();
    let reader = scratch.open_with(|options| options.read_only(true));
    let refuses = |store: &RolloutStore| {
        assert!(store.begin_partial(NewRollout::new(9, 3)).is_err());
        assert!(store.append(8.into(), vec![1], vec![-0.5], (1, 1)).is_err());
        assert!(store.finish(NewRollout::new(8, 3)).is_err());
        assert!(store.abandon_partials(&ids([8])).is_err());
    };
    refuses(&reader);
    assert_eq!(reader.partial(8.into()).unwrap().unwrap().completion_ids.len(), 10);
    let other = reader.clone();
    reader.close().unwrap();
    refuses(&other);
    assert_eq!(other.partial(8.into()).unwrap_err().kind(), ErrorKind::Invalid);
}
