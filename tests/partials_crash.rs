//! What was appended survives every crash up to the last commit, and what was finished or abandoned stays so, wherever
//! compaction put the pieces and the record that ended them (D1, D2, D3, D7, D9).
//!
//! Method: the power is cut, and the process killed, at every disk operation of stores whose partial rollouts are begun,
//! appended to, finished, abandoned, moved, saved and brought back; and stores whose index is taken away.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{CompactBudget, NewRollout, Reason, Rewind, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::{Run, Sweep};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{self, DIR, append, ids, open_in_turn, options, partial, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

/// Four records of so many tokens fill a segment.
const TOKENS: usize = 1_800;

const SAVED: &str = "/saved";

fn fill(store: &RolloutStore, first: u64, count: u64) -> Result {
    (first..first + count).try_for_each(|id| store.insert(rollout_of(id, 3, 0, TOKENS)).map(drop))
}

fn finish(store: &RolloutStore, id: u64) -> Result {
    store.finish(NewRollout::new(id, 3).reward(0.5)).map(drop)
}

#[test]
fn partial_rollouts_survive_a_cut_at_any_operation() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        store.advance_ref_version(3, None)?;
        run.acknowledge(&store)?;
        store.begin_partial(partial(1, 3))?;
        run.acknowledge(&store)?;
        append(&store, 1, 16)?;
        run.acknowledge(&store)?;
        let mut batch = store.batch();
        batch.begin_partial(partial(2, 3))?;
        for (id, from) in [(1, 16), (2, 0)] {
            let (tokens, logps, span) = store::next_tokens(id, from, 900);
            batch.append(id.into(), tokens, logps, span)?;
        }
        batch.commit()?;
        run.acknowledge(&store)?;
        for id in 10..14 {
            fill(&store, id, 1)?;
            run.acknowledge(&store)?;
        }
        finish(&store, 1)?;
        run.acknowledge(&store)?;
        store.abandon_partials(&ids([2]))?;
        run.acknowledge(&store)?;
        store.begin_partial(partial(2, 3))?;
        run.acknowledge(&store)?;
        store.rewind(2, Rewind::Drop)?;
        run.acknowledge(&store)?;
        store.close()
    };
    let swept = Sweep::of(&workload).within_recovery(1).within_every(4).goes_on_every(4).run();
    assert!(swept.points > 30 && swept.within_recovery > 100, "{swept:?}");
}

#[test]
fn a_compaction_that_is_cut_at_any_operation_neither_loses_a_piece_nor_brings_one_back() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        for id in 1..4 {
            store.begin_partial(partial(id, 3))?;
            append(&store, id, 700)?;
        }
        fill(&store, 10, 6)?;
        (1..4).try_for_each(|id| append(&store, id, 700))?;
        fill(&store, 20, 6)?;
        finish(&store, 2)?;
        store.abandon_partials(&ids([3]))?;
        store.retire(&ids((10..26).filter(|id| id % 6 > 0)), Reason::Trained)?;
        run.acknowledge(&store)?;
        run.cut_from_here();
        store.compact(CompactBudget::all())?;
        append(&store, 1, 10)?;
        run.acknowledge(&store)?;
        finish(&store, 1)?;
        run.acknowledge(&store)?;
        store.compact(CompactBudget::all())?;
        store.close()
    };
    let swept = Sweep::of(&workload).within_recovery(1).within_every(4).goes_on_every(4).run();
    assert!(swept.points > 30, "{swept:?}");
}

#[test]
fn a_restore_that_is_cut_at_any_operation_shows_the_partial_rollouts_of_one_moment() {
    let workload = |run: &mut Run| -> Result {
        let store = run.open()?;
        store.begin_partial(partial(1, 3))?;
        append(&store, 1, 16)?;
        store.begin_partial(partial(2, 3))?;
        run.acknowledge(&store)?;
        run.save(&store, SAVED)?;
        append(&store, 1, 16)?;
        finish(&store, 1)?;
        store.abandon_partials(&ids([2]))?;
        store.begin_partial(partial(3, 3))?;
        run.acknowledge(&store)?;
        store.close()?;
        run.cut_from_here();
        options(Arc::new(run.disk().clone())).restore(SAVED, DIR)?;
        run.acknowledge_closed()?;
        let store = run.open()?;
        append(&store, 1, 4)?;
        run.acknowledge(&store)?;
        finish(&store, 1)?;
        run.acknowledge(&store)
    };
    let swept = Sweep::of(&workload).saving(SAVED, None).within_recovery(1).within_every(4).goes_on_every(4).run();
    assert!(swept.points > 20, "{swept:?}");
}

/// A store whose index lags behind: it was flushed before `act`, and the process was then killed.
fn killed_behind_its_index(
    begin: fn(&RolloutStore) -> Result,
    act: fn(&RolloutStore) -> Result,
) -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open_in_turn(&disk).unwrap();
    begin(&store).unwrap();
    store.flush_index().unwrap();
    act(&store).unwrap();
    let shown = StoreState::of(&store).unwrap();
    store.abandon();
    (disk.kill(), shown)
}

#[test]
fn an_index_that_lags_behind_ends_and_goes_on_with_what_the_log_says() {
    let begin = |store: &RolloutStore| -> Result {
        for id in 1..5 {
            store.begin_partial(partial(id, 3))?;
            append(store, id, 700)?;
        }
        fill(store, 10, 8)
    };
    let act = |store: &RolloutStore| -> Result {
        finish(store, 1)?;
        store.abandon_partials(&ids([2]))?;
        store.begin_partial(partial(2, 3))?;
        append(store, 3, 10)?;
        fill(store, 20, 8)?;
        append(store, 3, 10)
    };
    let (disk, shown) = killed_behind_its_index(begin, act);
    for keeps_index in [true, false] {
        if !keeps_index {
            bytes::remove(&disk, format!("{DIR}/index.redb").as_ref());
        }
        let store = open_in_turn(&disk).unwrap();
        assert_same(&StoreState::of(&store).unwrap(), &shown, format_args!("with its index: {keeps_index}"));
        store.close().unwrap();
    }
}

#[test]
fn d7_what_was_abandoned_stays_so_after_the_segment_of_its_end_is_gone() {
    for finished in [true, false] {
        let disk = SimDisk::new();
        let store = open_in_turn(&disk).unwrap();
        // The pieces lie beside rollouts that live; the record of the end beside rollouts that do not.
        store.begin_partial(partial(1, 3)).unwrap();
        append(&store, 1, 100).unwrap();
        fill(&store, 10, 7).unwrap();
        append(&store, 1, 100).unwrap();
        fill(&store, 20, 7).unwrap();
        if finished {
            finish(&store, 1).unwrap();
        } else {
            store.abandon_partials(&ids([1])).unwrap();
        }
        fill(&store, 30, 8).unwrap();
        store.retire(&ids([1].into_iter().chain(24..38)), Reason::Trained).unwrap();
        let before = StoreState::of(&store).unwrap();
        for _ in 0..3 {
            store.compact(CompactBudget::all()).unwrap();
        }
        assert!(store.stats().unwrap().counters.retired_total() > 0);
        store.close().unwrap();
        bytes::remove(&disk, format!("{DIR}/index.redb").as_ref());
        let reopened = open_in_turn(&disk).unwrap();
        assert_same(&StoreState::of(&reopened).unwrap(), &before, format_args!("finished: {finished}"));
    }
}

#[test]
fn open_pieces_are_alive_and_those_that_ended_are_given_back() {
    let disk = SimDisk::new();
    let store = open_in_turn(&disk).unwrap();
    store.begin_partial(partial(1, 3)).unwrap();
    for _ in 0..3 {
        fill(&store, 10, 5).unwrap();
        append(&store, 1, 1_000).unwrap();
        store.retire(&store.ids(), Reason::Trained).unwrap();
    }
    store.compact(CompactBudget::all()).unwrap();
    let stats = store.stats().unwrap();
    assert!((24_000..26_000).contains(&stats.live_bytes), "{} bytes of 3,000 tokens are alive", stats.live_bytes);
    assert!(stats.log_bytes < 40_000, "{} bytes are left of 17 records", stats.log_bytes);
    assert_eq!(store.partial(1.into()).unwrap().unwrap().sampler_logps, store::sampler_logps(1, 3_000));
    store.abandon_partials(&ids([1])).unwrap();
    store.compact(CompactBudget::all()).unwrap();
    let left = store.stats().unwrap().log_bytes;
    assert!(left < 8 << 10, "{left} bytes are left: more than the segment that is written to");
}
