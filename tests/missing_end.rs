//! Acknowledged frames that are missing behind whole ones are damage to whoever looks: open, verify and repair (D6).
//!
//! Method: a segment on a simulated disk is cut at the end of a frame, where every byte that is left is sound.

use std::path::PathBuf;
use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{ErrorKind, Reason, Repaired, RolloutStore, inspect};
use rollstore_testkit::bytes;
use rollstore_testkit::store::{DIR, check_content, ids, open, options, rollout, sorted};

/// Advances after which a manifest is written, which attests what lies before it.
const ADVANCES: u64 = 300;

/// A store with one rollout kept, one retired, and a manifest that knows of both. Also gives the end of the segment as it
/// was before the retirement.
fn store() -> rollstore::Result<(SimDisk, u64)> {
    let disk = SimDisk::new();
    // One segment takes all of it.
    let store = options(Arc::new(disk.clone())).segment_bytes(1 << 20).open(DIR)?;
    store.insert(rollout(1, 0, 0))?;
    store.insert(rollout(2, 0, 0))?;
    let end = store.stats()?.log_bytes;
    store.retire(&ids([2]), Reason::Trained)?;
    for _ in 0..ADVANCES {
        store.advance_ref_version(0, None)?;
    }
    store.abandon();
    Ok((disk.kill(), end))
}

/// Cuts the first segment at `end`.
fn cut(disk: &SimDisk, end: u64) -> PathBuf {
    let segment = bytes::segments(disk, DIR).swap_remove(0);
    bytes::edit(disk, &segment, |file| file.truncate(usize::try_from(end).unwrap()));
    segment
}

fn repair(disk: &SimDisk) -> (Repaired, RolloutStore) {
    let repaired = options(Arc::new(disk.clone())).repair(DIR).unwrap();
    assert!(inspect::verify_on(disk, DIR.as_ref()).unwrap().is_sound());
    (repaired, open(disk).unwrap())
}

#[test]
fn the_segment_being_written_cut_between_two_frames_is_damage() {
    let (disk, end) = store().unwrap();
    let segment = cut(&disk, end);
    let error = open(&disk).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*segment)), "{error}");
    let found = inspect::verify_on(&disk, DIR.as_ref()).unwrap().findings;
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&finding.damage.file, finding.damage.offset), (&segment, end));
}

#[test]
fn repair_makes_what_is_left_of_the_segment_being_written_stale() {
    let (disk, end) = store().unwrap();
    cut(&disk, end);
    let (repaired, store) = repair(&disk);
    assert!(repaired.all_stale, "the retirement is among what was lost: {repaired:?}");
    assert_eq!(sorted(store.stale()), sorted(store.ids()));
    check_content(&store.get(1.into()).unwrap().unwrap());
}

#[test]
fn repair_makes_what_is_left_of_a_segment_that_recovery_cut_stale() {
    let (disk, end) = store().unwrap();
    open(&disk).unwrap().close().unwrap();
    cut(&disk, end);
    assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Damaged);
    let (repaired, store) = repair(&disk);
    assert!(repaired.all_stale, "the retirement is among what was lost: {repaired:?}");
    assert_eq!(sorted(store.stale()), sorted(store.ids()));
}
