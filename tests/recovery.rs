//! What an unclean stop leaves of the unsealed segment: a torn tail is dropped, damage is named (F2, F4 to F6, F16, F17).
//!
//! Method: a simulated disk; the tail is torn by a power cut, or the bytes of its newest segment are changed by hand
//! where a known rollout lies, which its token ids find.

use std::path::PathBuf;

use rollstore::disk::Disk;
use rollstore::disk::sim::{Fault, OpKind, SimDisk};
use rollstore::{ErrorKind, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, TOKENS, completion_ids, open, rollout};

/// Bytes of a frame's header; the arrays follow, the token ids first.
const HEADER_BYTES: u64 = 128;
/// Where a frame's header keeps the length of its body.
const BODY_LEN_OFFSET: u64 = 56;

/// A killed store of so many batches of one rollout each (ids from 0), and the states behind each batch, the empty one
/// first.
fn killed(batches: u64) -> (SimDisk, Vec<StoreState>) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut states = vec![StoreState::of(&store).unwrap()];
    for id in 0..batches {
        store.insert(rollout(id, 0, 0)).unwrap();
        states.push(StoreState::of(&store).unwrap());
    }
    store.abandon();
    (disk.kill(), states)
}

/// The unsealed segment, and where the frame of a rollout begins in it.
fn frame_of(disk: &SimDisk, id: u64) -> (PathBuf, u64) {
    let segment = bytes::segments(disk, DIR).pop().unwrap();
    let arrays = bytes::find_u32(disk, &segment, &completion_ids(id, TOKENS));
    let frame = bytes::frame_around(disk, &segment, arrays);
    (segment, frame)
}

/// Opening fails, and the error names this file and a byte of the frame at `offset`.
fn assert_damaged(disk: &SimDisk, segment: &PathBuf, offset: u64, what: &str) {
    let error = open(disk).map(RolloutStore::abandon).expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {error}");
    let damage = error.damage().unwrap();
    assert_eq!(&damage.file, segment, "{what}: {error}");
    assert!((offset..offset + 512).contains(&damage.offset), "{what}: frame at {offset}: {error}");
    assert!(!damage.expected.is_empty() && !damage.found.is_empty(), "{what}: {error}");
}

fn assert_opens_as(disk: &SimDisk, expected: &StoreState, what: &str) {
    let store = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&StoreState::of(&store).unwrap(), expected, what);
}

#[test]
fn f02_half_a_frame_at_the_end_is_dropped() {
    let (disk, states) = killed(5);
    let (segment, offset) = frame_of(&disk, 4);
    let whole = bytes::read(&disk, &segment).len() as u64;
    for len in [offset + 1, offset + 64, offset + HEADER_BYTES, offset + HEADER_BYTES + 1, whole - 1] {
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes.truncate(usize::try_from(len).unwrap()));
        assert_opens_as(&copy, &states[4], &format!("cut to {len} of {whole} bytes"));
    }
    assert_opens_as(&disk.kill(), &states[5], "whole");
}

#[test]
fn f02_a_batch_without_its_last_frame_is_dropped_whole() {
    let (disk, states) = killed(2);
    let store = open(&disk).unwrap();
    let mut batch = store.batch();
    (10..14).for_each(|id| batch.insert(rollout(id, 0, 0)).unwrap());
    batch.commit().unwrap();
    store.abandon();
    let disk = disk.kill();
    let (segment, offset) = frame_of(&disk, 13);
    bytes::edit(&disk, &segment, |bytes| bytes.truncate(usize::try_from(offset).unwrap()));
    assert_opens_as(&disk, &states[2], "three frames of four");
}

#[test]
fn f04_zeros_or_garbage_or_old_frames_behind_the_tail_are_dropped() {
    let (disk, states) = killed(3);
    let segment = bytes::segments(&disk, DIR).pop().unwrap();
    let (other, _) = killed(40);
    let foreign = bytes::read(&other, &bytes::segments(&other, DIR).pop().unwrap());
    let own = bytes::read(&disk, &segment);
    let tails: [(&str, Vec<u8>); 5] = [
        ("zeros", vec![0; 10_000]),
        ("ones", vec![0xff; 777]),
        ("another store's frames", foreign[4096..].to_vec()),
        ("its own first frames again", own[4096..].to_vec()),
        ("its own header", own[..4096].to_vec()),
    ];
    for (what, tail) in tails {
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes.extend(&tail));
        assert_opens_as(&copy, &states[3], what);
    }
}

#[test]
fn f05_a_flip_in_an_acknowledged_frame_that_a_later_one_attests_is_named() {
    let (disk, _) = killed(4);
    let (segment, offset) = frame_of(&disk, 1);
    let (_, next) = frame_of(&disk, 2);
    let whole = bytes::read(&disk, &segment);
    let mut found = 0;
    for at in (offset..next).step_by(3).filter(|at| !is_padding(&whole, *at)) {
        let copy = disk.kill();
        bytes::flip(&copy, &segment, at, u8::try_from(at % 8).unwrap());
        assert_damaged(&copy, &segment, offset, &format!("flip at {at}"));
        found += 1;
    }
    assert!(found > 80, "{found} flips");
}

/// Whether a byte may be padding: zeros up to the next 64-byte boundary. Most of it no checksum covers.
fn is_padding(bytes: &[u8], at: u64) -> bool {
    let at = usize::try_from(at).unwrap();
    bytes[at..(at / 64 + 1) * 64].iter().all(|byte| *byte == 0)
}

#[test]
fn f05_a_flip_in_the_last_frame_is_a_torn_tail() {
    let (disk, states) = killed(4);
    let (segment, offset) = frame_of(&disk, 3);
    for at in [offset, offset + 70, offset + HEADER_BYTES + 5] {
        let copy = disk.kill();
        bytes::flip(&copy, &segment, at, 3);
        assert_opens_as(&copy, &states[3], "no later frame says that it was ever durable");
    }
}

#[test]
fn f06_a_length_of_any_value_is_rejected_by_its_header() {
    let (disk, _) = killed(4);
    let (segment, offset) = frame_of(&disk, 1);
    let at = usize::try_from(offset + BODY_LEN_OFFSET).unwrap();
    let whole = bytes::read(&disk, &segment);
    let len = u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    assert_eq!(len, 192, "the body length lies where the format says: three columns of 64 bytes");
    for wrong in [0, len + 64, len - 64, 1 << 31, 1 << 40, u64::MAX, u64::MAX - 127, whole.len() as u64] {
        let copy = disk.kill();
        bytes::edit(&copy, &segment, |bytes| bytes[at..at + 8].copy_from_slice(&wrong.to_le_bytes()));
        assert_damaged(&copy, &segment, offset, &format!("a body of {wrong} bytes"));
    }
}

#[test]
fn f17_a_torn_tail_never_comes_before_new_frames() {
    let (mut disk, mut states) = killed(3);
    for round in 0..3 {
        // Torn, recovered, written to, and killed again.
        let segment = bytes::segments(&disk, DIR).pop().unwrap();
        bytes::edit(&disk, &segment, |bytes| bytes.extend([0xa5; 333]));
        let store = open(&disk).unwrap();
        assert_same(&StoreState::of(&store).unwrap(), states.last().unwrap(), format_args!("round {round}"));
        store.insert(rollout(100 + round, 0, 0)).unwrap();
        states.push(StoreState::of(&store).unwrap());
        store.abandon();
        disk = disk.kill();
    }
    assert_opens_as(&disk, states.last().unwrap(), "after all");
    assert!(disk.list(DIR.as_ref()).is_ok());
}

#[test]
fn f16_a_recovery_that_is_stopped_leaves_the_next_one_all_that_it_found() {
    let (disk, states) = killed(3);
    let whole = disk.kill();
    assert_opens_as(&whole, &states[3], "without a stop");
    // Up to its manifest, recovery is one thread's, and its operations have the same numbers each time.
    let trace = whole.trace();
    let settled = trace.iter().find(|op| op.kind == OpKind::Rename).unwrap().number;
    let mut stopped = 0;
    for op in changing(&trace).filter(|op| op.number <= settled) {
        let copy = disk.kill();
        copy.fail_at(op.number, Fault::PowerCut);
        let error = open(&copy).map(RolloutStore::abandon).expect_err("the power is gone");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        // Power that comes back as if it had never gone: every byte written is there, and every removed one is not.
        assert_opens_as(&copy.kill(), &states[3], &format!("stopped at {op:?}"));
        stopped += 1;
    }
    assert!(stopped > 5, "{stopped} operations");
}
