//! What `inspect::segments` says of each segment agrees with the store that wrote it, sealed or not, sound or damaged.
//!
//! Method: a store of known frames is looked at while it is open, after a checkpoint, after a compaction, and with a byte
//! changed; sums are held against its own figures.

use std::path::Path;

use rollstore::inspect::{self, SegmentLife, SegmentReport};
use rollstore::{CompactBudget, NewRollout, Reason, RolloutId, RolloutStore};

fn store(dir: &Path) -> RolloutStore {
    let store = RolloutStore::options().window(8).background_compaction(false).open(dir).unwrap();
    for step in 3..13 {
        store.advance_ref_version(step, None).unwrap();
        let rollout = NewRollout::new(step, step).old_logps(vec![-0.5; 900], store.ref_version());
        store.insert(rollout).unwrap();
    }
    store.insert(NewRollout::new(99, 2)).unwrap();
    store
}

fn reports(dir: &Path) -> Vec<SegmentReport> {
    let segments = inspect::segments(dir).unwrap();
    assert!(segments.damage.is_empty(), "{segments:?}");
    segments.segments
}

#[test]
fn a_segment_that_is_written_to_and_a_sealed_one_tell_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let open = reports(dir.path());
    assert_eq!((open.len(), open[0].state, open[0].is_compacted), (1, SegmentLife::Written, false));
    assert_eq!((open[0].frames, open[0].lsns.clone()), (21, Some(1..=21)));
    assert_eq!((open[0].born_steps.clone(), open[0].ref_versions.clone()), (Some(2..=12), Some(1..=10)));
    store.checkpoint(dir.path().join("saved")).unwrap();
    let sealed = reports(dir.path());
    assert_eq!((sealed[0].state, sealed[0].frames, &sealed[0].lsns), (SegmentLife::Sealed, 21, &open[0].lsns));
    assert_eq!((&sealed[0].born_steps, &sealed[0].ref_versions), (&open[0].born_steps, &open[0].ref_versions));
    assert_eq!(reports(&dir.path().join("saved")), sealed[..1], "a checkpoint has the same segment");
}

#[test]
fn live_and_dead_bytes_add_up_to_what_the_store_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let gone: Vec<RolloutId> = (3..9).map(Into::into).collect();
    store.retire(&gone, Reason::Trained).unwrap();
    store.checkpoint(dir.path().join("saved")).unwrap();
    let live: u64 = reports(dir.path()).iter().map(|segment| segment.live_bytes.unwrap()).sum();
    assert_eq!(live, store.stats().unwrap().live_bytes);
    let dead = reports(dir.path())[0].dead_bytes().unwrap();
    assert!(dead > 6 * 900 * 4, "{dead}");
    assert!(store.compact(CompactBudget::bytes(64 << 20)).unwrap().copied_bytes > 0);
    let compacted = reports(dir.path());
    let copy = compacted.iter().find(|segment| segment.is_compacted).expect("a segment of copies");
    assert_eq!((copy.frames, copy.born_steps.clone()), (5, Some(2..=12)));
    assert_eq!(copy.live_bytes, Some(store.stats().unwrap().live_bytes));
}

#[test]
fn a_segment_tells_the_step_that_it_was_begun_at_and_the_clock_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.checkpoint(dir.path().join("saved")).unwrap();
    store.advance_ref_version(40, None).unwrap();
    let segments = inspect::segments(dir.path()).unwrap();
    assert_eq!(segments.clock, Some(40));
    let begun: Vec<_> = segments.segments.iter().map(|segment| segment.begun_at_step).collect();
    assert_eq!(begun, [None, Some(12)], "the first one was begun before the trainer acted");
}

#[test]
fn a_damaged_footer_is_told_and_the_frames_speak_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.close().unwrap();
    let sound = reports(dir.path());
    let path = dir.path().join(format!("seg-{:08}.log", sound[0].id));
    let mut bytes = std::fs::read(&path).unwrap();
    let trailer = bytes.len() - 60;
    bytes[trailer] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = inspect::segments(dir.path()).unwrap();
    assert_eq!(damaged.damage.len(), 1, "{damaged:?}");
    assert_eq!(damaged.segments, sound, "nothing that it tells is lost");
}

#[test]
fn a_store_that_does_not_open_still_shows_its_segments() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).close().unwrap();
    let sound = reports(dir.path());
    let path = dir.path().join(format!("seg-{:08}.log", sound[0].id));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = inspect::segments(dir.path()).unwrap();
    assert!(!damaged.damage.is_empty());
    let report = &damaged.segments[0];
    assert_eq!((report.live_bytes, report.dead_bytes()), (None, None));
    assert!(report.frames > 5 && report.frames < sound[0].frames, "{report:?}");
}
