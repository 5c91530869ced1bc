//! A quota refuses a batch before anything is written, and what retires and compacts makes room again (D12).
//!
//! Method: a store with small segments and a quota of eight on a simulated disk, whose segment files are added up after
//! every call.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::disk::{Access, Disk};
use rollstore::{CompactBudget, ErrorKind, Options, Reason, RolloutStore, limits};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, options, rollout, rollout_of};

const QUOTA: u64 = 8 * limits::SEGMENT_BYTES_MIN;

fn with_quota(disk: &SimDisk, bytes: u64) -> Options {
    options(Arc::new(disk.clone())).flush_in_turn().quota_bytes(bytes)
}

fn segment_bytes(disk: &SimDisk) -> u64 {
    let len = |path: &Path| disk.open(path, Access::Read).unwrap().len().unwrap();
    bytes::segments(disk, DIR).iter().map(|path| len(path)).sum()
}

/// Inserts rollouts of some kilobytes until one is refused. Returns the id of that one, and the error.
fn fill(store: &RolloutStore, first: u64) -> (u64, rollstore::Error) {
    for id in first..first + 1_000 {
        if let Err(error) = store.insert(rollout_of(id, 0, 0, 400)) {
            return (id, error);
        }
    }
    panic!("nothing was refused");
}

#[test]
fn d12_a_batch_beyond_the_quota_is_refused_before_anything_is_written() {
    let disk = SimDisk::new();
    let store = with_quota(&disk, QUOTA).open(DIR).unwrap();
    let (id, error) = fill(&store, 0);
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let told = error.to_string();
    assert!(told.contains(&QUOTA.to_string()) && told.contains("compact") && told.contains("quota_bytes"), "{told}");
    let (state, print) = (StoreState::of(&store).unwrap(), disk.fingerprint());
    let operations = changing(&disk.trace()).count();
    for id in id..id + 3 {
        assert_eq!(store.insert(rollout_of(id, 0, 0, 400)).unwrap_err().kind(), ErrorKind::Full);
    }
    assert_eq!((changing(&disk.trace()).count(), disk.fingerprint()), (operations, print), "nothing was written");
    assert_same(&StoreState::of(&store).unwrap(), &state, "refused");
    assert_eq!(store.len() as u64, id);
    // It is the size that is refused, and the writer goes on.
    store.retire(&ids([0]), Reason::Trained).unwrap();
    store.advance_ref_version(1, None).unwrap();
}

#[test]
fn d12_retiring_and_compacting_makes_room_and_no_call_leaves_more_than_the_quota() {
    let disk = SimDisk::new();
    let store = with_quota(&disk, QUOTA).open(DIR).unwrap();
    let (mut next, mut refused) = (0, 0);
    // Every second one lives on, so that no segment is all dead: what lives must be copied.
    for _ in 0..6 {
        let (id, error) = fill(&store, next);
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(segment_bytes(&disk) <= QUOTA, "{} bytes when full", segment_bytes(&disk));
        refused += 1;
        let live = store.ids();
        let ending: Vec<_> = live.iter().copied().filter(|id| id.get() % 2 == 1 || id.get() + 90 < next).collect();
        store.retire(&ending, Reason::Trained).unwrap();
        assert!(segment_bytes(&disk) <= QUOTA, "{} bytes behind the retirement", segment_bytes(&disk));
        let compacted = store.compact(CompactBudget::all()).unwrap();
        assert!(compacted.copied_bytes > 0 && compacted.freed_bytes > compacted.copied_bytes, "{compacted:?}");
        assert!(segment_bytes(&disk) < QUOTA / 4 * 3, "{} bytes behind the compaction", segment_bytes(&disk));
        next = id;
    }
    assert_eq!(refused, 6);
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn d12_a_store_at_its_quota_closes_and_opens_again() {
    let disk = SimDisk::new();
    let store = with_quota(&disk, QUOTA).open(DIR).unwrap();
    let (id, _) = fill(&store, 0);
    let state = StoreState::of(&store).unwrap();
    store.close().unwrap();
    assert!(segment_bytes(&disk) <= QUOTA, "{} bytes, footers included", segment_bytes(&disk));
    let store = with_quota(&disk, QUOTA).open(DIR).unwrap();
    assert_same(&StoreState::of(&store).unwrap(), &state, "reopened");
    assert_eq!(store.insert(rollout_of(id, 0, 0, 400)).unwrap_err().kind(), ErrorKind::Full);
    store.close().unwrap();
    // A quota is the option of an opening: a higher one lets it go on, a lower one stops what grows.
    let store = with_quota(&disk, 2 * QUOTA).open(DIR).unwrap();
    store.insert(rollout_of(id, 0, 0, 400)).unwrap();
    store.close().unwrap();
    let store = with_quota(&disk, QUOTA / 4).open(DIR).unwrap();
    assert_eq!(store.insert(rollout(id + 1, 0, 0)).unwrap_err().kind(), ErrorKind::Full);
    store.retire_created_before(1, Reason::Evicted).unwrap();
    store.compact(CompactBudget::all()).unwrap();
    store.insert(rollout(id + 1, 0, 0)).unwrap();
}

#[test]
fn a_quota_below_two_segments_is_refused_at_open() {
    let least = 2 * limits::SEGMENT_BYTES_MIN;
    let refused = with_quota(&SimDisk::new(), least - 1).open(DIR).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains(&least.to_string()), "{refused}");
    with_quota(&SimDisk::new(), least).open(DIR).unwrap();
}
