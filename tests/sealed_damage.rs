//! Harm to sealed segments: a body's flip costs its rollout alone, a missing or cut file is named, a bad footer is
//! rebuilt (F7, F8, F13).
//!
//! Method: a closed store of several small segments on a simulated disk; files are changed by hand.

use std::path::{Path, PathBuf};

use rollstore::disk::sim::SimDisk;
use rollstore::{ErrorKind, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, check_content, ids, old_logps, open, rollout_of};

const TOKENS: usize = 256;
/// Bytes of the trailer that ends a sealed segment.
const TRAILER_BYTES: usize = 64;

/// A closed store of 120 rollouts in several segments.
fn closed() -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for id in 0..120 {
        store.insert(rollout_of(id, 0, 0, TOKENS)).unwrap();
    }
    store.retire(&ids([3, 50]), rollstore::Reason::Trained).unwrap();
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    assert!(bytes::segments(&disk, DIR).len() >= 4);
    (disk.kill(), state)
}

fn index() -> PathBuf {
    Path::new(DIR).join("index.redb")
}

/// The segment with a rollout's old logps, and their offset.
fn place_of(disk: &SimDisk, id: u64) -> (PathBuf, u64) {
    let wanted: Vec<u8> = old_logps(id, 0, TOKENS).iter().flat_map(|logp| logp.to_le_bytes()).collect();
    let holds = |path: &PathBuf| bytes::read(disk, path).windows(wanted.len()).any(|window| window == wanted);
    let segment = bytes::segments(disk, DIR).into_iter().find(holds).unwrap();
    let offset = bytes::find_f32(disk, &segment, &old_logps(id, 0, TOKENS));
    (segment, offset)
}

/// The segments with their content, read before the first copy of the disk is made.
fn contents(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    bytes::segments(disk, DIR).into_iter().map(|path| (path.clone(), bytes::read(disk, &path))).collect()
}

/// Opening fails and names this file.
fn assert_names(disk: &SimDisk, file: &Path, what: &str) {
    let error = open(disk).map(RolloutStore::abandon).expect_err(what);
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(file)), "{what}: {error}");
}

#[test]
fn f07_a_flip_in_a_sealed_body_costs_that_column_alone() {
    let (disk, _) = closed();
    let (segment, offset) = place_of(&disk, 20);
    bytes::flip(&disk, &segment, offset + 100, 5);
    for with_index in [true, false] {
        if !with_index {
            bytes::remove(&disk, &index());
        }
        let store = open(&disk).unwrap();
        let view = store.get(20.into()).unwrap().unwrap();
        let error = view.old_logps().unwrap_err();
        assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(20.into())), "{error}");
        let damage = error.damage().unwrap();
        assert_eq!((&damage.file, damage.offset), (&segment, offset), "{error}");
        assert!(view.completion_ids().is_ok(), "the column beside it is whole");
        for id in store.ids().into_iter().filter(|id| *id != 20.into()) {
            check_content(&store.get(id).unwrap().unwrap());
        }
        let plan = store.plan_for(&ids([19, 20, 21]), 0);
        assert!(plan.is_ok(), "a plan goes on past it: {plan:?}");
        store.close().unwrap();
    }
}

#[test]
fn f07_a_flip_in_a_sealed_frames_header_costs_that_rollout_alone() {
    let (disk, _) = closed();
    let (segment, offset) = place_of(&disk, 20);
    // Token ids come first, then the old logps; the header comes before both.
    let header = offset - (TOKENS as u64 * 4) - 128;
    for at in [0, 4, 8, 24, 72, 100] {
        let copy = disk.kill();
        bytes::flip(&copy, &segment, header + at, 1);
        let store = open(&copy).unwrap();
        let error = store.get(20.into()).unwrap_err();
        assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(20.into())), "byte {at}: {error}");
        assert_eq!(error.damage().unwrap().file, segment);
        for id in store.ids().into_iter().filter(|id| *id != 20.into()) {
            check_content(&store.get(id).unwrap().unwrap());
        }
    }
}

#[test]
fn f08_a_missing_sealed_segment_is_named() {
    let (disk, _) = closed();
    for segment in bytes::segments(&disk, DIR) {
        let copy = disk.kill();
        bytes::remove(&copy, &segment);
        assert_names(&copy, &segment, "missing");
    }
}

#[test]
fn f08_a_short_or_long_sealed_segment_is_named() {
    let (disk, _) = closed();
    for (segment, whole) in contents(&disk) {
        let len = whole.len();
        for wrong in [0, 100, 4096, len - TRAILER_BYTES, len - 1, len + 1, len + 4096] {
            let copy = disk.kill();
            bytes::edit(&copy, &segment, |bytes| bytes.resize(wrong, 0));
            assert_names(&copy, &segment, &format!("{wrong} bytes of {len}"));
        }
    }
}

#[test]
fn f08_a_swapped_segment_is_named() {
    let (disk, _) = closed();
    let segments = bytes::segments(&disk, DIR);
    let other = bytes::read(&disk, &segments[1]);
    bytes::edit(&disk, &segments[0], |bytes| *bytes = other);
    assert_names(&disk, &segments[0], "another segment of the same store under its name");
}

#[test]
fn f08_a_bad_footer_is_rebuilt_by_a_scan_with_the_same_answers() {
    let (disk, state) = closed();
    bytes::remove(&disk, &index());
    for (segment, whole) in contents(&disk) {
        let (len, footer) = (whole.len(), footer_offset(&whole));
        for at in [footer, footer + 40, len - TRAILER_BYTES - 1, len - TRAILER_BYTES, len - 30, len - 1] {
            let copy = disk.kill();
            bytes::flip(&copy, &segment, at as u64, 6);
            let store = open(&copy).unwrap_or_else(|error| panic!("{}, byte {at}: {error}", segment.display()));
            assert_same(&StoreState::of(&store).unwrap(), &state, format_args!("{}, byte {at}", segment.display()));
        }
    }
}

/// Where the footer begins: the trailer says so in its fourth field.
fn footer_offset(bytes: &[u8]) -> usize {
    let field = bytes.len() - TRAILER_BYTES + 24;
    usize::try_from(u64::from_le_bytes(bytes[field..field + 8].try_into().unwrap())).unwrap()
}

#[test]
fn f08_a_bad_footer_does_not_hide_a_bad_frame_before_it() {
    let (disk, _) = closed();
    bytes::remove(&disk, &index());
    for (segment, whole) in contents(&disk) {
        let footer = footer_offset(&whole);
        // One bad sector over the end of the last frame and the footer.
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes[footer - 64..footer + 64].fill(0x5a));
        assert_names(&copy, &segment, "the last frame and the footer");
        // As bad as it gets: the trailer too.
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes[footer - 64..].fill(0x5a));
        assert_names(&copy, &segment, "the last frame, the footer and the trailer");
    }
}

#[test]
fn f13_the_end_of_a_listed_segment_cut_by_hand_is_named_while_later_ones_exist() {
    let (disk, _) = closed();
    let segments = bytes::segments(&disk, DIR);
    let middle = &segments[1];
    bytes::edit(&disk, middle, |bytes| bytes.truncate(bytes.len() / 2));
    assert_names(&disk, middle, "cut in half");
}

#[test]
fn f13_a_removed_newest_segment_is_named_sealed_or_not() {
    let (disk, _) = closed();
    let copy = disk.kill();
    let newest = bytes::segments(&copy, DIR).pop().unwrap();
    bytes::remove(&copy, &newest);
    assert_names(&copy, &newest, "sealed");

    let disk = disk.kill();
    let store = open(&disk).unwrap();
    store.insert(rollout_of(1000, 0, 0, TOKENS)).unwrap();
    store.abandon();
    let newest = bytes::segments(&disk, DIR).pop().unwrap();
    bytes::remove(&disk, &newest);
    assert_names(&disk, &newest, "active");
}

#[test]
fn f13_an_active_segment_cut_below_what_is_attested_is_named() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.insert(rollout_of(0, 0, 0, TOKENS)).unwrap();
    store.close().unwrap();
    let segment = bytes::segments(&disk, DIR).pop().unwrap();
    for len in [0, 4095] {
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes.truncate(len));
        assert_names(&copy, &segment, "header");
    }
}
