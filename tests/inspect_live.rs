//! Every report beside a writer that commits, retires, compacts and checkpoints: no damage, no failure, and nothing that lives
//! is missing.
//!
//! Method: a thread writes in rounds, each with all of these; meanwhile each report is made again and again, until the
//! writer is done. A rollout that lives through all of it must be in each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rollstore::inspect::{self, Fate, LogItem};
use rollstore::{CompactBudget, NewRollout, Reason, RolloutId, RolloutStore, limits};

const LASTING: RolloutId = RolloutId::new(0);

fn open(dir: &Path) -> RolloutStore {
    let options = RolloutStore::options().window(8).segment_bytes(limits::SEGMENT_BYTES_MIN);
    let store = options.background_compaction(false).open(dir).unwrap();
    store.insert(NewRollout::new(LASTING.get(), 0).old_logps(vec![-0.5; 8], 0)).unwrap();
    store
}

/// Commits that fill segments, most of whose rollouts end; then their space is given back.
fn write(store: &RolloutStore, dir: &Path, rounds: u64) {
    for round in 0..rounds {
        let ids = 1 + round * 200..201 + round * 200;
        for some in ids.clone().collect::<Vec<_>>().chunks(20) {
            let mut batch = store.batch();
            for id in some {
                batch.insert(NewRollout::new(*id, round).old_logps(vec![-0.5; 300], store.ref_version())).unwrap();
            }
            batch.advance_ref_version(round, None);
            batch.commit().unwrap();
        }
        let ended: Vec<RolloutId> = ids.filter(|id| id % 10 != 0).map(Into::into).collect();
        store.retire(&ended, Reason::Trained).unwrap();
        store.checkpoint(dir.join("saved")).unwrap();
        store.compact(CompactBudget::bytes(64 << 20)).unwrap();
    }
}

/// Looks until the writer is done; gives how often.
fn look_beside_a_writer(mut look: impl FnMut(&Path)) -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let store = open(&run);
    let is_done = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&store, dir.path(), 20);
            is_done.store(true, Ordering::Release);
        });
        let mut looks = 0;
        while !is_done.load(Ordering::Acquire) {
            look(&run);
            looks += 1;
        }
        looks
    });
    assert!(looks > 3, "{looks} looks");
    looks
}

#[test]
fn a_whole_log_tells_what_lives_wherever_it_was_copied_to() {
    look_beside_a_writer(|run| {
        let mut tells_it = false;
        for item in inspect::log(run).unwrap() {
            match item.unwrap() {
                LogItem::Frame(frame) => tells_it |= frame.rollout == Some(LASTING),
                damaged => panic!("{damaged:?}"),
            }
        }
        assert!(tells_it);
    });
}

#[test]
fn a_history_has_one_frame_that_is_served() {
    look_beside_a_writer(|run| {
        let history = inspect::history(run, LASTING).unwrap();
        assert!(history.damage.is_empty() && history.incomplete.is_empty(), "{history:?}");
        let served = history.frames.iter().filter(|told| told.fate == Fate::Served).count();
        assert_eq!(served, 1, "{history:?}");
    });
}

#[test]
fn segments_are_sound_and_ascend() {
    let mut was_copied = false;
    look_beside_a_writer(|run| {
        let segments = inspect::segments(run).unwrap();
        assert!(segments.damage.is_empty(), "{:?}", segments.damage);
        assert!(segments.segments.is_sorted_by_key(|segment| segment.id));
        assert!(segments.segments.iter().any(|segment| segment.live_bytes > Some(0)));
        was_copied |= segments.segments.iter().any(|segment| segment.is_compacted);
    });
    assert!(was_copied, "compaction went on meanwhile");
}

#[test]
fn two_looks_at_one_store_differ_only_by_what_was_written_between_them() {
    look_beside_a_writer(|run| {
        let differences = inspect::diff(run, run).unwrap();
        assert!(differences.damage.is_empty(), "{:?}", differences.damage);
        let is_lasting = |id: &&RolloutId| **id == LASTING;
        assert!(!differences.only_in_a.iter().chain(&differences.only_in_b).any(|id| is_lasting(&id)));
        // Its log-probs are never computed again; its lag alone may grow.
        let changed = differences.rollouts.iter().flat_map(|change| &change.changed);
        assert!(changed.into_iter().all(|changed| changed.what == "versions_behind"), "{:?}", differences.rollouts);
    });
}

#[test]
fn a_report_names_no_damage_and_counts_one_state() {
    look_beside_a_writer(|run| {
        let report = inspect::report(run).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        let (buffer, drift) = (report.buffer.unwrap(), report.drift.unwrap());
        let lengths: u64 = buffer.lengths.bins.iter().map(|bin| bin.value.count).sum();
        assert_eq!((lengths, drift.rollouts + drift.without), (buffer.live, buffer.live));
        assert!(report.past.total.inserted > 0 && report.past.frames > 0);
    });
}
