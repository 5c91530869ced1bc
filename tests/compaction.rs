//! Compaction gives space back and changes nothing that is seen.
//!
//! Method: stores of small segments on real files, with rollouts ended in all ways; what is shown before and after is compared
//! whole, files are counted.

use rollstore::{CompactBudget, NewRollout, Options, Reason, RolloutStore};
use rollstore_testkit::scratch::Scratch;
use rollstore_testkit::state::StoreState;
use rollstore_testkit::store::{check_content, ids, recompute_all, rollout_of};

/// Tokens that make a record of some 17 KB, so that four of them fill a segment.
const TOKENS: usize = 2_000;

fn options(options: Options) -> Options {
    options.segment_bytes(64 << 10).background_compaction(false)
}

fn filled(scratch: &Scratch, rollouts: u64) -> RolloutStore {
    let store = scratch.open_with(options);
    for id in 0..rollouts {
        store.insert(rollout_of(id, id / 8, 0, TOKENS)).unwrap();
    }
    store
}

fn segment_bytes(scratch: &Scratch) -> (usize, u64) {
    let files = std::fs::read_dir(scratch.store_dir()).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("seg-"));
    segments.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.metadata().unwrap().len()))
}

fn shown(store: &RolloutStore) -> StoreState {
    StoreState::of(store).unwrap()
}

#[test]
fn segments_with_nothing_alive_are_dropped_without_copying() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 64);
    let before = segment_bytes(&scratch);
    store.retire_created_before(6, Reason::Trained).unwrap();
    let compacted = store.compact(CompactBudget::bytes(0)).unwrap();
    assert_eq!((compacted.copied_bytes, compacted.segments_written), (0, 0));
    assert!(compacted.segments_dropped >= before.0 as u64 * 2 / 3, "{compacted:?} of {before:?}");
    // The segment that was written to got its footer.
    let after = segment_bytes(&scratch).1;
    assert!(after < before.1 - compacted.freed_bytes + (4 << 10), "{after} bytes are left of {before:?}");
    (48..64).for_each(|id| check_content(&store.get(id.into()).unwrap().unwrap()));
}

#[test]
fn one_call_is_enough_where_everything_is_dead_the_segment_that_is_written_to_included() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 9);
    store.retire(&store.ids(), Reason::Other).unwrap();
    assert!(store.compact(CompactBudget::all()).unwrap().is_done);
    assert_eq!(segment_bytes(&scratch), (0, 0));
    assert_eq!(store.stats().unwrap().log_bytes, 0);
}

#[test]
fn what_is_alive_in_half_dead_segments_is_copied_and_nothing_changes() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 64);
    store.advance_ref_version(3, None).unwrap();
    store.advance_ref_version(4, None).unwrap();
    assert_eq!(store.plan_for(&ids([5, 6]), 4).unwrap().len(), 2);
    store.retire(&ids((0..64).filter(|id| id % 4 > 0)), Reason::Trained).unwrap();
    recompute_all(&store, 12).unwrap();
    let (before, bytes) = (shown(&store), segment_bytes(&scratch).1);
    let compacted = store.compact(CompactBudget::all()).unwrap();
    assert!(compacted.is_done && compacted.copied_bytes > 0, "{compacted:?}");
    let after = segment_bytes(&scratch).1;
    assert!(after * 2 < bytes, "{after} of {bytes} bytes are left");
    assert_eq!(shown(&store), before);
    let live = store.stats().unwrap().live_bytes;
    assert!(after < live * 4 / 3 + (64 << 10), "{after} bytes for {live} alive");

    store.close().unwrap();
    let store = scratch.open_with(options);
    assert_eq!(shown(&store), before);
    store.close().unwrap();
    std::fs::remove_file(scratch.store_dir().join("index.redb")).unwrap();
    assert_eq!(shown(&scratch.open_with(options)), before, "by the footers alone");
}

#[test]
fn d7_retirements_survive_the_compaction_of_their_frames() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 16);
    // The victims' segments stay alive; those of the retirements die.
    let victims = ids((0..16).filter(|id| id % 4 == 0));
    for round in 0..6 {
        let first = 100 + round * 16;
        for id in first..first + 8 {
            store.insert(rollout_of(id, 1, 0, TOKENS)).unwrap();
        }
        if let Some(victim) = victims.get(usize::try_from(round).unwrap()) {
            store.retire(&[*victim], Reason::Trained).unwrap();
        }
    }
    store.retire(&ids((100..300).filter(|id| id % 8 != 7)), Reason::Evicted).unwrap();
    let before = shown(&store);
    store.compact(CompactBudget::all()).unwrap();
    store.close().unwrap();
    for _ in 0..3 {
        std::fs::remove_file(scratch.store_dir().join("index.redb")).unwrap();
        let store = scratch.open_with(options);
        assert_eq!(shown(&store), before);
        store.compact(CompactBudget::all()).unwrap();
        store.close().unwrap();
    }
}

#[test]
fn a_budget_ends_a_compaction_and_the_next_one_goes_on() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 64);
    store.retire(&ids((0..64).filter(|id| id % 4 > 0)), Reason::Trained).unwrap();
    let (mut calls, mut copied, before) = (0, 0, shown(&store));
    loop {
        let compacted = store.compact(CompactBudget::bytes(20 << 10)).unwrap();
        assert!(compacted.copied_bytes <= 60 << 10, "{compacted:?}");
        (calls, copied) = (calls + 1, copied + compacted.copied_bytes);
        if compacted.is_done {
            break;
        }
        assert!(calls < 100, "it never ends");
    }
    assert!(calls > 3, "{calls} calls");
    let live = store.stats().unwrap().live_bytes;
    assert!(copied < live * 3, "{copied} bytes copied for {live} alive");
    assert_eq!(shown(&store), before);
}

#[test]
fn f23_views_keep_what_they_see_and_their_segments_space_until_they_go() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 64);
    let view = store.get(5.into()).unwrap().unwrap();
    store.retire_created_before(100, Reason::Trained).unwrap();
    store.compact(CompactBudget::all()).unwrap();
    check_content(&view);
    let pinned = store.stats().unwrap().pinned_bytes;
    assert!((40 << 10..=70 << 10).contains(&pinned), "one segment, not {pinned} bytes");
    drop(view);
    assert_eq!(store.stats().unwrap().pinned_bytes, 0);
}

#[test]
fn many_small_segments_become_few() {
    let scratch = Scratch::new();
    let store = scratch.open_with(options);
    for id in 0..100 {
        store.insert(NewRollout::new(id, 0).old_logps(vec![-0.5; 20], 0)).unwrap();
        store.checkpoint(scratch.path("saved")).unwrap();
    }
    assert!(store.stats().unwrap().segments > 90);
    let before = shown(&store);
    store.compact(CompactBudget::all()).unwrap();
    assert!(store.stats().unwrap().segments < 20, "{}", store.stats().unwrap().segments);
    assert_eq!(shown(&store), before);
}

#[test]
fn the_background_gives_space_back_without_being_asked() {
    let scratch = Scratch::new();
    let store = scratch.open_with(|options| options.segment_bytes(64 << 10));
    for step in 0..40 {
        for id in 0..8 {
            store.insert(rollout_of(step * 8 + id, step, 0, TOKENS)).unwrap();
        }
        store.retire_created_before(step.saturating_sub(1), Reason::Trained).unwrap();
    }
    // It may be in the middle of its last round.
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while store.stats().unwrap().log_bytes > 8 * (64 << 10) {
        assert!(std::time::Instant::now() < until, "{:?}", store.stats().unwrap());
        std::thread::yield_now();
    }
    (39 * 8..40 * 8).for_each(|id| check_content(&store.get(id.into()).unwrap().unwrap()));
}

#[test]
fn a_second_compaction_finds_nothing_to_do() {
    let scratch = Scratch::new();
    let store = filled(&scratch, 64);
    store.retire(&ids((0..64).filter(|id| id % 3 > 0)), Reason::Trained).unwrap();
    store.compact(CompactBudget::all()).unwrap();
    let again = store.compact(CompactBudget::all()).unwrap();
    assert_eq!((again.copied_bytes, again.segments_dropped, again.is_done), (0, 0, true));
}
