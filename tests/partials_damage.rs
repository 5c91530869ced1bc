//! A partial rollout that lost a piece to damage says so, and is never taken for a shorter one or a whole one.
//!
//! Method: one bit of a known piece of a closed store is flipped, in its tokens and in its header; the store is read as it
//! is, and again after a repair.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{ErrorKind, NewRollout, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::store::{self, DIR, append, ids, open, options, partial, rollout};

/// Bytes of a frame's header, in front of its first array.
/// Where the first frame of a segment lies.
const FRAMES_BEGIN: u64 = 4096;

/// A store with rollout 1, and partial rollout 8 of a prompt and three pieces of 20 tokens, closed.
fn begun() -> SimDisk {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.insert(rollout(1, 3, 0)).unwrap();
    store.begin_partial(partial(8, 3)).unwrap();
    (0..3).for_each(|_| append(&store, 8, 20).unwrap());
    store.close().unwrap();
    disk
}

/// What of a piece is spoilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Tokens,
}

/// Flips a bit of one piece.
fn spoil(disk: &SimDisk, piece: usize, part: Part) {
    let tokens = store::next_tokens(8, piece * 20, 20).0;
    let segment = bytes::segments(disk, DIR).remove(0);
    let at = bytes::find_u32(disk, &segment, &tokens);
    let place = match part {
        Part::Header => bytes::frame_around(disk, &segment, at) + 9,
        Part::Tokens => at,
    };
    bytes::flip(disk, &segment, place, 3);
}

fn kinds(store: &RolloutStore) -> [ErrorKind; 3] {
    let kind = |failed: Option<rollstore::Error>| failed.expect("an error").kind();
    let finish = store.finish(NewRollout::new(8, 3)).err();
    [kind(store.partial(8.into()).err()), kind(finish), kind(append(store, 8, 1).err())]
}

#[test]
fn d6_a_damaged_piece_is_named_and_never_finished() {
    let disk = begun();
    spoil(&disk, 1, Part::Tokens);
    let store = open(&disk).unwrap();
    let error = store.partial(8.into()).unwrap_err();
    assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(8.into())));
    assert_eq!(store.finish(NewRollout::new(8, 3)).unwrap_err().kind(), ErrorKind::Damaged);
    assert!(store.get(1.into()).unwrap().unwrap().old_logps().is_ok(), "the rollout beside it is sound");
    let verified = store.verify().unwrap();
    assert_eq!(verified.findings.iter().map(|finding| finding.rollouts.clone()).collect::<Vec<_>>(), [ids([8])]);
}

#[test]
fn d6_a_piece_that_a_repair_could_not_keep_is_missed() {
    for (piece, part) in [(0, Part::Tokens), (0, Part::Header), (1, Part::Tokens), (1, Part::Header)] {
        let disk = begun();
        spoil(&disk, piece, part);
        let repaired = options(Arc::new(disk.clone())).repair(DIR).unwrap();
        assert_eq!(repaired.rollouts_lost.contains(&8.into()), part == Part::Tokens, "piece {piece}: {repaired:?}");
        let store = open(&disk).unwrap();
        let partials = store.partials();
        assert_eq!((partials.len(), partials[0].is_whole), (1, false), "piece {piece}, its {part:?}");
        assert_eq!(kinds(&store), [ErrorKind::Damaged; 3]);

        assert_eq!(store.abandon_partials(&ids([8])).unwrap(), 1);
        store.begin_partial(partial(8, 3)).unwrap();
        append(&store, 8, 5).unwrap();
        store.finish(NewRollout::new(8, 3)).unwrap();
        assert_eq!(store.get(8.into()).unwrap().unwrap().sampler_logps().unwrap(), store::sampler_logps(8, 5));
    }
}

#[test]
fn where_the_last_piece_is_lost_generation_goes_on_from_the_one_before() {
    let disk = begun();
    spoil(&disk, 2, Part::Tokens);
    let repaired = options(Arc::new(disk.clone())).repair(DIR).unwrap();
    assert_eq!(repaired.rollouts_lost, ids([8]), "{repaired:?}");
    let store = open(&disk).unwrap();
    assert_eq!(store.partial(8.into()).unwrap().unwrap().completion_ids, store::completion_ids(8, 40));
    append(&store, 8, 5).unwrap();
    store.finish(NewRollout::new(8, 3)).unwrap();
    assert_eq!(store.get(8.into()).unwrap().unwrap().completion_ids().unwrap(), store::completion_ids(8, 45));
}

#[test]
fn d5_a_rollout_whose_pieces_end_was_lost_takes_their_place_all_the_same() {
    let disk = begun();
    let store = open(&disk).unwrap();
    store.finish(NewRollout::new(8, 3).reward(2.0)).unwrap();
    store.close().unwrap();
    // The finish wrote the end of the pieces, and then the rollout, to a segment of its own.
    bytes::flip(&disk, &bytes::segments(&disk, DIR).remove(1), FRAMES_BEGIN + 20, 1);
    let repaired = options(Arc::new(disk.clone())).repair(DIR).unwrap();
    assert!(repaired.all_stale && repaired.frames_kept == 1, "{repaired:?}");
    let store = open(&disk).unwrap();
    assert_eq!((store.partials().len(), store.ids()), (0, ids([1, 8])));
    assert_eq!(store.get(8.into()).unwrap().unwrap().reward(), Some(2.0));
}
