//! A rollout that is generated in parts is no rollout until it is finished, and then one like any other.
//!
//! Method: stores on a simulated disk with partial rollouts beside whole ones; every question that a trainer can ask is
//! asked; what was finished is compared with what was inserted at once, bit for bit.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Budget, Column, ErrorKind, Flat, NewRollout, Reason, Retirement, Rewind, RolloutStore, Stale};
use rollstore_testkit::state::StoreState;
use rollstore_testkit::store::{self, DIR, append, ids, open, options, partial, rollout};

/// Sampler log-probs with every kind of NaN among them.
const ODD_LOGPS: [u32; 6] = [0xbf00_0000, 0x7fc0_0000, 0x7f80_0001, 0xffc0_dead, 0x8000_0000, 0x7fff_ffff];

fn odd_logps() -> Vec<f32> {
    ODD_LOGPS.map(f32::from_bits).to_vec()
}

/// A store of one rollout and one partial one, 8, of 40 tokens.
fn begun(disk: &SimDisk) -> RolloutStore {
    let store = open(disk).unwrap();
    store.insert(rollout(1, 5, 0)).unwrap();
    store.begin_partial(partial(8, 3)).unwrap();
    append(&store, 8, 30).unwrap();
    append(&store, 8, 10).unwrap();
    store
}

fn finish(store: &RolloutStore, id: u64, created_step: u64) {
    store.finish(NewRollout::new(id, created_step)).unwrap();
}

#[test]
fn an_unfinished_rollout_is_seen_by_nobody_who_asks_for_rollouts() {
    let store = begun(&SimDisk::new());
    store.advance_ref_version(5, None).unwrap();
    store.advance_ref_version(60, None).unwrap();
    let one = ids([1]);
    assert_eq!((store.ids(), store.len(), store.group(2).len()), (one.clone(), 1, 0));
    assert!(store.get(8.into()).unwrap().is_none());
    assert_eq!((store.stale(), store.out_of_window(60), store.missing()), (one.clone(), one.clone(), vec![]));
    assert_eq!(store.needs_recompute(60), one);
    assert_eq!(store.plan_due(60, Budget::unlimited()).unwrap().ids().collect::<Vec<_>>(), one);
    assert_eq!(store.plan_for(&ids([8]), 60).unwrap_err().kind(), ErrorKind::NotFound);
    let gathered = store.gather(&ids([8]), Column::SamplerLogps, 60, Stale::Allow, &mut Flat::<f32>::default());
    assert_eq!(gathered.unwrap_err().kind(), ErrorKind::NotFound);
    let stats = store.stats().unwrap();
    assert_eq!((stats.live, stats.partials, stats.tokens, stats.missing, stats.stale), (1, 1, 16, 0, 1));
    assert_eq!((stats.oldest_born_step, stats.counters.inserted), (Some(5), 1));

    finish(&store, 8, 3);
    assert_eq!((store.ids(), store.group(2)), (ids([8, 1]), ids([8])));
    assert_eq!((store.stats().unwrap().partials, store.stats().unwrap().counters.inserted), (0, 2));
}

#[test]
fn what_was_finished_equals_what_was_inserted_whole() {
    let tokens: Vec<u32> = (100..106).collect();
    let rest = |rollout: NewRollout<'static>| {
        let rollout = rollout.reward(0.5).advantage(-1.5).metadata(b"own").loss_mask(vec![1, 1, 0, 1, 1, 0]);
        rollout.old_logps(vec![-0.25; 6], 0).column("routing", vec![7_u8; 33])
    };
    let parts = open(&SimDisk::new()).unwrap();
    parts.begin_partial(NewRollout::with_key("uid-7", 4).group(3).prompt_ids(vec![1, 2])).unwrap();
    let id = rollstore::RolloutId::from_key("uid-7");
    parts.append(id, &tokens[..1], &odd_logps()[..1], (u64::MAX, 1)).unwrap();
    parts.append(id, &[][..], &[][..], (3, 0)).unwrap();
    parts.append(id, &tokens[1..3], &odd_logps()[1..3], (u64::MAX, 2)).unwrap();
    let last = NewRollout::new(id, 4).completion_ids(tokens[3..].to_vec()).sampler_logps(odd_logps()[3..].to_vec());
    parts.finish(rest(last.version_spans(&[(6, 3)]))).unwrap();

    let whole = open(&SimDisk::new()).unwrap();
    let rollout = NewRollout::with_key("uid-7", 4).group(3).prompt_ids(vec![1, 2]).completion_ids(tokens);
    let spans = [(u64::MAX, 3), (6, 3)];
    whole.insert(rest(rollout.sampler_logps(odd_logps()).version_spans(&spans))).unwrap();

    let shown = |store: &RolloutStore| StoreState::of(store).unwrap().without_lsns();
    assert_eq!(shown(&parts).diff(&shown(&whole)), "");
    let view = parts.get(id).unwrap().unwrap();
    assert_eq!(view.version_spans(), spans);
    let bits: Vec<u32> = view.sampler_logps().unwrap().iter().map(|logp| logp.to_bits()).collect();
    assert_eq!(bits, ODD_LOGPS);
}

#[test]
fn what_was_appended_comes_back_with_the_store_with_its_index_or_without() {
    let disk = SimDisk::new();
    let store = begun(&disk);
    let before = StoreState::of(&store).unwrap();
    assert_eq!(before.partials.len(), 1);
    store.close().unwrap();
    for keeps_index in [true, false] {
        if !keeps_index {
            rollstore_testkit::bytes::remove(&disk, format!("{DIR}/index.redb").as_ref());
        }
        let reader = options(Arc::new(disk.clone())).read_only(true).open(DIR).unwrap();
        assert_eq!(StoreState::of(&reader).unwrap().diff(&before), "");
        let store = open(&disk).unwrap();
        assert_eq!(StoreState::of(&store).unwrap().diff(&before), "", "with its index: {keeps_index}");
        store.close().unwrap();
    }
    let store = open(&disk).unwrap();
    append(&store, 8, 5).unwrap();
    finish(&store, 8, 3);
    assert_eq!(store.get(8.into()).unwrap().unwrap().sampler_logps().unwrap(), store::sampler_logps(8, 45));
}

#[test]
fn no_retirement_ends_a_partial_rollout() {
    let store = begun(&SimDisk::new());
    store.advance_ref_version(9, None).unwrap();
    assert_eq!(store.retire(&ids([8]), Reason::Evicted).unwrap(), 0);
    assert_eq!(store.would_retire(&Retirement::CreatedBefore(9)), 1);
    assert_eq!(store.retire_created_before(9, Reason::Evicted).unwrap(), 1);
    assert_eq!(store.retire_version_before(9, Reason::Evicted).unwrap(), 0);
    assert_eq!(store.retire_groups(&[2], Reason::Evicted).unwrap(), 0);
    finish(&store, 8, 3);
    assert_eq!(store.ids(), ids([8]), "the line ended what was inserted before it");
}

#[test]
fn an_abandoned_id_is_free_and_inherits_nothing() {
    let store = begun(&SimDisk::new());
    let live_bytes = store.stats().unwrap().live_bytes;
    assert_eq!(store.abandon_partials(&ids([8, 1, 99, 8])).unwrap(), 1);
    assert!(store.partials().is_empty() && store.stats().unwrap().live_bytes < live_bytes);
    assert_eq!(store.stats().unwrap().counters.retired_total(), 0, "it was no rollout");
    store.begin_partial(NewRollout::new(8, 5)).unwrap();
    let again = store.partial(8.into()).unwrap().unwrap();
    assert_eq!((again.prompt_ids, again.completion_ids.len(), again.created_step), (None, 0, 5));
    store.abandon_partials(&ids([8])).unwrap();
    store.insert(rollout(8, 5, 0)).unwrap();
}

#[test]
fn an_index_that_still_has_the_rollout_before_gives_way_to_a_partial_one() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.insert(rollout(8, 3, 0)).unwrap();
    store.flush_index().unwrap();
    store.retire(&ids([8]), Reason::Trained).unwrap();
    store.begin_partial(partial(8, 3)).unwrap();
    let before = StoreState::of(&store).unwrap();
    store.abandon();
    let disk = disk.kill();
    assert_eq!(StoreState::of(&open(&disk).unwrap()).unwrap().diff(&before), "");
}

#[test]
fn ids_of_partial_rollouts_are_never_handed_out() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.begin_partial(NewRollout::new(500, 0)).unwrap();
    assert!(store.allocate_ids(1).unwrap().all(|id| id.get() > 500));
    store.abandon_partials(&ids([500])).unwrap();
    store.begin_partial(NewRollout::new(1 << 40, 0)).unwrap();
    store.close().unwrap();
    assert!(open(&disk).unwrap().allocate_ids(1).unwrap().all(|id| id.get() > 1 << 40));
}

#[test]
fn a_batch_begins_appends_finishes_and_abandons_as_one() {
    let store = begun(&SimDisk::new());
    store.begin_partial(partial(9, 3)).unwrap();
    let mut batch = store.batch();
    batch.begin_partial(partial(10, 4)).unwrap();
    for from in [0, 10] {
        let (tokens, logps, span) = store::next_tokens(10, from, 10);
        batch.append(10.into(), tokens, logps, span).unwrap();
    }
    batch.finish(NewRollout::new(8, 3).reward(1.0)).unwrap();
    batch.abandon_partials(&ids([9]));
    batch.retire(&ids([8]), Reason::Trained); // finished before it: a rollout by then
    assert_eq!(store.partials().len(), 2, "nothing happens before the commit");
    assert_eq!(batch.commit().unwrap().retired, 1);
    let partials = store.partials();
    assert_eq!((partials.len(), partials[0].id, partials[0].tokens), (1, 10.into(), 20));
    assert_eq!(store.ids(), ids([1]));
}

#[test]
fn a_finish_does_not_lose_what_was_appended_meanwhile() {
    let store = begun(&SimDisk::new());
    let mut batch = store.batch();
    batch.finish(NewRollout::new(8, 3)).unwrap();
    append(&store, 8, 1).unwrap();
    assert_eq!(batch.commit().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.partials()[0].tokens, 41);
}

#[test]
fn a_rewind_that_drops_ends_partial_rollouts_begun_later_and_one_that_keeps_ends_none() {
    for (later, left) in [(Rewind::Keep, ids([8, 9])), (Rewind::Drop, ids([8]))] {
        let store = begun(&SimDisk::new());
        store.advance_ref_version(5, None).unwrap();
        store.begin_partial(partial(9, 5)).unwrap();
        store.rewind(3, later).unwrap();
        assert_eq!(store.partials().iter().map(|partial| partial.id).collect::<Vec<_>>(), left, "{later:?}");
        finish(&store, 8, 3);
        assert!(store.stale().is_empty() || later == Rewind::Keep, "{:?}", store.stale());
    }
}

#[test]
fn a_restore_brings_the_partial_rollouts_of_the_checkpoint_back() {
    let disk = SimDisk::new();
    let store = begun(&disk);
    store.checkpoint("/saved").unwrap();
    let saved = StoreState::of(&store).unwrap();
    append(&store, 8, 7).unwrap();
    finish(&store, 8, 3);
    store.begin_partial(partial(9, 5)).unwrap();
    store.close().unwrap();
    options(Arc::new(disk.clone())).restore("/saved", DIR).unwrap();
    let store = open(&disk).unwrap();
    assert_eq!(StoreState::of(&store).unwrap().diff(&saved), "");
    append(&store, 8, 1).unwrap();
    finish(&store, 8, 3);
    assert_eq!(store.get(8.into()).unwrap().unwrap().completion_ids().unwrap().len(), 41);
}
