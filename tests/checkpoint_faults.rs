//! A checkpoint that is interrupted or cannot be linked is complete or absent, and none of its bytes ever changes (D8, F24).
//!
//! Method: a simulated disk loses power at every operation of checkpoints and of the writing between them; links that the
//! file system refuses; the bytes of every checkpoint found are compared after the store went on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{Checkpointed, ErrorKind, Reason, RolloutStore};
use rollstore_testkit::bytes;
use rollstore_testkit::crash::{Run, Sweep, changing};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{ids, open_in_turn, options, rollout, rollout_of};

type Result<T = ()> = rollstore::Result<T>;

const SAVED: &str = "/saved";

/// A rollout that fills half a segment.
fn large(store: &RolloutStore, id: u64) -> Result {
    store.insert(rollout_of(id, 0, store.ref_version(), 4_000)).map(drop)
}

/// Checkpoints with every kind of change between them; the second one takes the place of the first.
fn save_twice(run: &mut Run) -> Result {
    let store = run.open()?;
    large(&store, 1)?;
    run.acknowledge(&store)?;
    run.save(&store, SAVED)?;
    store.retire(&ids([1]), Reason::Trained)?;
    run.acknowledge(&store)?;
    large(&store, 2)?;
    run.acknowledge(&store)?;
    run.save(&store, SAVED)?;
    store.insert(rollout(3, 0, 0))?;
    run.acknowledge(&store)
}

#[test]
fn f24_a_checkpoint_crashed_at_each_step_is_absent_or_complete() {
    for hard_links in [true, false] {
        let begin = SimDisk::new().with_hard_links(hard_links);
        let swept = Sweep::of(&save_twice)
            .from(&begin, StoreState::default())
            .saving(SAVED, None)
            .within_recovery(1)
            .within_every(16)
            .run();
        assert!(swept.points > 60 && swept.within_recovery > 100, "links {hard_links}: {swept:?}");
    }
}

/// The content of every file of a checkpoint; none where it is not there.
fn contents(disk: &SimDisk) -> BTreeMap<OsString, Vec<u8>> {
    let names = disk.list(SAVED.as_ref()).unwrap_or_default();
    names.into_iter().map(|name| (name.clone(), bytes::read(disk, &Path::new(SAVED).join(name)))).collect()
}

fn saved_state(disk: &SimDisk) -> Option<StoreState> {
    match options(Arc::new(disk.clone())).read_only(true).open(SAVED) {
        Ok(saved) => Some(StoreState::of(&saved).unwrap()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn f24_no_byte_of_a_checkpoint_changes_while_writer_and_recovery_run_on() {
    let workload = |disk: &SimDisk| -> Result {
        let store = open_in_turn(disk)?;
        large(&store, 1)?;
        store.checkpoint(SAVED)?;
        large(&store, 2)?;
        store.checkpoint(SAVED)?;
        store.abandon();
        Ok(())
    };
    let whole = SimDisk::new();
    workload(&whole).unwrap();
    let trace = whole.trace();
    let mut found = 0;
    for op in changing(&trace) {
        let disk = SimDisk::new();
        disk.fail_at(op.number, Fault::PowerCut);
        let _ = workload(&disk);
        for style in [ImageStyle::NothingUnsynced, ImageStyle::Everything, ImageStyle::TornSectors] {
            let disk = disk.crash(CrashImage { seed: op.number, style });
            let (before, state) = (contents(&disk), saved_state(&disk));
            found += u64::from(state.is_some());
            // Written to, rolled over, closed, opened, and killed once more.
            let store = open_in_turn(&disk).unwrap();
            for id in 10..14 {
                large(&store, id).unwrap();
            }
            store.retire(&ids([1, 2, 11]), Reason::Evicted).unwrap();
            store.close().unwrap();
            let store = open_in_turn(&disk).unwrap();
            large(&store, 20).unwrap();
            store.abandon();
            let disk = disk.crash(CrashImage { seed: op.number, style });
            open_in_turn(&disk).unwrap().abandon();
            let when = format!("cut at {op:?}, {style:?}");
            assert!(contents(&disk) == before, "{when}: a byte changed");
            assert!(saved_state(&disk) == state, "{when}: it shows something else");
        }
    }
    assert!(found > 100, "{found} images with a checkpoint");
}

/// A store that wrote on behind its checkpoint, and what the checkpoint shows.
fn with_checkpoint() -> (SimDisk, StoreState) {
    let disk = SimDisk::new();
    let store = open_in_turn(&disk).unwrap();
    large(&store, 1).unwrap();
    store.checkpoint(SAVED).unwrap();
    let state = StoreState::of(&store).unwrap();
    large(&store, 2).unwrap();
    store.close().unwrap();
    (disk.kill(), state)
}

/// What becomes of the first of two checkpoints at its n-th operation.
#[derive(Debug, Clone, Copy)]
enum First {
    Eio,
    Killed,
}

/// Makes a checkpoint that is struck at this operation.
fn struck(begin: &SimDisk, number: u64, first: First) -> SimDisk {
    let disk = begin.kill();
    let store = open_in_turn(&disk).unwrap();
    disk.fail_at(number, if let First::Eio = first { Fault::Eio } else { Fault::PowerCut });
    let _ = store.checkpoint(SAVED);
    store.abandon();
    disk.kill()
}

#[test]
fn f24_a_checkpoint_that_failed_or_was_killed_costs_the_one_before_nothing() {
    let (begin, first_state) = with_checkpoint();
    let whole = begin.kill();
    let store = open_in_turn(&whole).unwrap();
    let from = whole.operation_count();
    store.checkpoint(SAVED).unwrap();
    let second_state = StoreState::of(&store).unwrap();
    let trace = whole.trace();
    let check = |disk: &SimDisk, when: &str| {
        let found = saved_state(disk).unwrap_or_else(|| panic!("{when}: the checkpoint is gone"));
        assert!(found == first_state || found == second_state, "{when}: {}", found.diff(&first_state));
    };
    // Styles take turns, each time from another one on.
    let mut style_shift = 0;
    for op in changing(&trace).filter(|op| op.number >= from) {
        for first in [First::Eio, First::Killed] {
            let disk = struck(&begin, op.number, first);
            for style in ImageStyle::ALL {
                check(&disk.crash(CrashImage { seed: op.number, style }), &format!("{first:?} at {op:?}, {style:?}"));
            }
            // The next checkpoint clears away what is left, and loses power at each of its operations.
            let next = disk.kill();
            let store = open_in_turn(&next).unwrap();
            let from = next.operation_count();
            store.checkpoint(SAVED).unwrap();
            let trace = next.trace();
            let mut styles = ImageStyle::ALL.into_iter().cycle().skip(style_shift);
            style_shift += 1;
            for later in changing(&trace).filter(|later| later.number >= from) {
                let disk = struck(&disk, later.number, First::Killed);
                let style = styles.next().unwrap();
                let disk = disk.crash(CrashImage { seed: later.number, style });
                check(&disk, &format!("{first:?} at {op:?}, then cut at {later:?}, {style:?}"));
            }
        }
    }
}

#[test]
fn f24_where_a_link_is_refused_for_whatever_reason_the_segment_is_copied() {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ResourceBusy, TooManyLinks, Unsupported};
    for refusal in [CrossesDevices, TooManyLinks, PermissionDenied, Unsupported, ResourceBusy] {
        let disk = SimDisk::new();
        let store = open_in_turn(&disk).unwrap();
        large(&store, 1).unwrap();
        large(&store, 2).unwrap();
        // The first segment cannot be linked, all others can.
        disk.fail_next(OpKind::HardLink, "seg-00000001.log", Fault::Other(refusal));
        let made = store.checkpoint(SAVED).unwrap();
        let Checkpointed::Copied { bytes } = made else { panic!("{refusal:?}: {made:?}") };
        assert!(bytes > 32_000, "{refusal:?}: {bytes} bytes copied");
        let state = StoreState::of(&store).unwrap();
        large(&store, 3).unwrap();
        store.abandon();
        let disk = disk.crash(CrashImage { seed: 1, style: ImageStyle::NothingUnsynced });
        assert_same(&saved_state(&disk).unwrap(), &state, format_args!("{refusal:?}"));
    }
}
