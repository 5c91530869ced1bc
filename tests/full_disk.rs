//! A disk that fills up in the middle of a seal, a manifest, an index commit, a checkpoint or a compaction fails that
//! operation and no more: reads go on, and nothing half made is seen after a reopen (D12, F11).
//!
//! Method: each disk operation that one of them takes is refused for want of space, once or from there on; the store is
//! read, space returns, and the next process opens it.

use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{Fault, Op, OpKind, SimDisk};
use rollstore::{CompactBudget, ErrorKind, Reason, RolloutStore};
use rollstore_testkit::crash::changing;
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, ids, open_in_turn, options, rollout, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

const SAVED: &str = "/saved";

/// What is done to a store with an active segment, an index and a checkpoint.
type Act = fn(&RolloutStore) -> Result;

/// A store that fills most of its segment, behind a checkpoint whose segment is half dead.
fn begin(disk: &SimDisk) -> RolloutStore {
    let store = open_in_turn(disk).unwrap();
    store.insert(rollout_of(1, 0, 0, 3_000)).unwrap();
    store.insert(rollout(4, 0, 0)).unwrap();
    store.checkpoint(SAVED).unwrap();
    store.flush_index().unwrap();
    store.insert(rollout_of(2, 0, 0, 7_000)).unwrap();
    store.retire(&ids([1]), Reason::Trained).unwrap();
    store
}

/// The disk operations that `act` takes, and the states before and behind it.
fn learn(act: Act) -> (Vec<Op>, [StoreState; 2]) {
    // Reading takes operations too: the one that is counted reads nothing before.
    let before = StoreState::of(&begin(&SimDisk::new())).unwrap();
    let disk = SimDisk::new();
    let store = begin(&disk);
    let from = disk.operation_count();
    act(&store).unwrap();
    let until = disk.operation_count();
    let trace = disk.trace();
    let ops = changing(&trace).filter(|op| (from..until).contains(&op.number)).cloned().collect();
    (ops, [before, StoreState::of(&store).unwrap()])
}

/// No name of something unfinished is left in the store, every byte is sound, and the checkpoint opens.
fn assert_whole(store: &RolloutStore, disk: &SimDisk, when: &str) {
    assert!(store.verify().unwrap().is_sound(), "{when}: {:?}", store.verify());
    let names = disk.list(DIR.as_ref()).unwrap();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{when}: {names:?}");
    let saved = options(Arc::new(disk.clone())).read_only(true).open(SAVED);
    let saved = saved.unwrap_or_else(|error| panic!("{when}: the checkpoint: {error}"));
    assert!(saved.verify().unwrap().is_sound(), "{when}: the checkpoint");
}

/// Refuses space to each operation of `act`; those that are its `own` must fail it. Returns how many did.
fn fill_up(act: Act, own: fn(&Op) -> bool) -> u64 {
    let (ops, states) = learn(act);
    let mut failed = 0;
    for (op, lasting) in ops.iter().flat_map(|op| [(op, false), (op, true)]) {
        let when = format!("no space {} at {op:?}", if lasting { "from there on" } else { "once" });
        let disk = SimDisk::new();
        let store = begin(&disk);
        if lasting {
            disk.fail_from(op.number, Fault::Enospc);
        } else {
            disk.fail_at(op.number, Fault::Enospc);
        }
        let done = act(&store);
        let at = disk.trace().into_iter().find(|found| found.number == op.number).unwrap();
        assert_eq!((at.kind, &at.path), (op.kind, &op.path), "{when}: another operation was struck");
        let refused = op.ok && !at.ok;
        if let Err(error) = &done {
            failed += 1;
            assert!([ErrorKind::Full, ErrorKind::Poisoned].contains(&error.kind()), "{when}: {error}");
        }
        assert!(done.is_err() || !refused || !own(op), "{when}: Ok, though it was refused");
        let shown = StoreState::of(&store).unwrap_or_else(|error| panic!("{when}: reads end: {error}"));
        assert_same(&shown, &states[usize::from(done.is_ok())], format_args!("{when}, still open"));

        // Space returns.
        disk.heal();
        store.abandon();
        let disk = disk.kill();
        let store = open_in_turn(&disk).unwrap_or_else(|error| panic!("{when}: does not open: {error}"));
        let found = StoreState::of(&store).unwrap();
        assert!(states.contains(&found), "{when}, reopened: {}", found.diff(&states[0]));
        assert!(done.is_err() || found == states[1], "{when}: what was acknowledged is gone");
        assert_whole(&store, &disk, &when);
        store.insert(rollout(9, 0, 0)).unwrap();
        store.checkpoint(SAVED).unwrap();
        assert_whole(&store, &disk, &when);
    }
    failed
}

#[test]
fn f11_no_space_in_a_seal_and_its_manifest() {
    let act: Act = |store| store.insert(rollout_of(3, 0, 0, 7_000)).map(drop);
    // The index is made again at the next flush where one fails.
    let failed = fill_up(act, |op| !op.path.ends_with("index.redb"));
    assert!(failed > 10, "{failed} inserts failed");
}

#[test]
fn f11_no_space_in_an_index_commit() {
    let failed = fill_up(RolloutStore::flush_index, |_| true);
    assert!(failed > 5, "{failed} flushes failed");
}

#[test]
fn f11_no_space_in_a_checkpoint() {
    let act: Act = |store| store.checkpoint(SAVED).map(drop);
    // A segment that cannot be linked is copied, and a note that cannot be written is left out.
    let own = |op: &Op| op.kind != OpKind::HardLink && !op.path.to_string_lossy().contains("CHECKPOINTED");
    let failed = fill_up(act, own);
    assert!(failed > 10, "{failed} checkpoints failed");
}

#[test]
fn f11_no_space_in_a_compaction() {
    let act: Act = |store| store.compact(CompactBudget::all()).map(drop);
    // What could not be removed is removed by the next open; the index is made again.
    let own = |op: &Op| op.kind != OpKind::RemoveFile && !op.path.ends_with("index.redb");
    let failed = fill_up(act, own);
    assert!(failed > 10, "{failed} compactions failed");
}
