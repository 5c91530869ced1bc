//! Goal: values that a view lends can be written to by their reader alone, without a copy where they are large.
//!
//! Method: a column above and one below the size from which columns are mapped, in stores that map and that copy; every write is
//! looked for in the view, in another view, in the file, and in other writable values.

use std::fs;
use std::path::Path;

use rollstore::limits::WRITABLE_MAP_BYTES_MIN;
use rollstore::{CompactBudget, NewRollout, Reads, Reason, Result, RolloutId, RolloutStore};

const LARGE: usize = WRITABLE_MAP_BYTES_MIN / size_of::<f32>() + 1000;

fn values(len: usize, seed: u8) -> Vec<f32> {
    (0..97).cycle().take(len).map(|at| -f32::from(at + seed) / 128.0).collect()
}

fn open(dir: &Path, reads: Reads) -> Result<RolloutStore> {
    RolloutStore::options().window(8).segment_bytes(4 << 20).background_compaction(false).reads(reads).open(dir)
}

fn insert(store: &RolloutStore, id: u64, len: usize) -> Result<()> {
    store.insert(NewRollout::new(id, 100).old_logps(values(len, 0), 0)).map(drop)
}

/// The bytes of all log files.
fn files(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn a_write_is_seen_by_its_writer_alone() -> Result<()> {
    for (reads, len, is_copied) in [
        (Reads::Mapped, LARGE, false),
        (Reads::Mapped, 100, true),
        (Reads::Copied, LARGE, true),
        (Reads::Mapped, 0, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), reads)?;
        insert(&store, 1, len)?;
        let before = files(dir.path());
        let rollout = store.get(1.into())?.unwrap();
        let lent = rollout.old_logps()?;
        let (mut one, other) = (rollout.writable(lent), rollout.writable(lent));
        assert_eq!(one.is_copied(), is_copied, "{reads:?} {len}");
        assert_eq!(&one[..], lent);
        one.fill(9.0);
        assert!(one.len() == len && one.iter().all(|value| *value == 9.0));
        assert_eq!(lent, values(len, 0));
        assert_eq!(store.get(1.into())?.unwrap().old_logps()?, values(len, 0));
        assert_eq!(&other[..], values(len, 0));
        assert_eq!(files(dir.path()), before);
        assert!(store.verify()?.is_sound());
    }
    Ok(())
}

#[test]
fn a_part_of_a_column_and_a_later_frame_are_mapped_too() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Reads::Mapped)?;
    insert(&store, 1, LARGE)?;
    store.advance_ref_version(101, None)?;
    let ids = [RolloutId::from(1)];
    store.get_or_compute(&ids, 101, |plan| {
        let mut results = rollstore::Results::new();
        plan.ids().for_each(|id| results.push(id, values(LARGE, 1)));
        Ok::<_, rollstore::Error>(results)
    })?;
    let rollout = store.get(1.into())?.unwrap();
    for (lent, expected) in [(rollout.old_logps()?, values(LARGE, 1)), (rollout.behaviour_logps()?, values(LARGE, 0))] {
        let part = rollout.writable(&lent[7..LARGE - 9]);
        assert!(!part.is_copied());
        assert_eq!(&part[..], &expected[7..LARGE - 9]);
    }
    Ok(())
}

#[test]
fn the_log_grows_behind_what_was_written_to() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Reads::Mapped)?;
    insert(&store, 1, LARGE)?;
    let rollout = store.get(1.into())?.unwrap();
    let mut own = rollout.writable(rollout.old_logps()?);
    // Its last page is that of the next frame.
    own.fill(9.0);
    insert(&store, 2, LARGE)?;
    assert!(own.iter().all(|value| *value == 9.0));
    assert_eq!(store.get(2.into())?.unwrap().old_logps()?, values(LARGE, 0));
    assert!(store.verify()?.is_sound());
    Ok(())
}

#[test]
fn it_outlives_view_store_and_file() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Reads::Mapped)?;
    (1..40).try_for_each(|id| insert(&store, id, LARGE))?;
    let rollout = store.get(1.into())?.unwrap();
    let mut own = rollout.writable(rollout.old_logps()?);
    own[0] = 9.0;
    let all: Vec<RolloutId> = (1..40).map(RolloutId::from).collect();
    store.retire(&all, Reason::Trained)?;
    store.compact(CompactBudget::all())?;
    let late = rollout.writable(rollout.old_logps()?);
    assert!(late.is_copied(), "the file has lost its name");
    assert_eq!(&late[..], values(LARGE, 0));
    drop(rollout);
    store.close()?;
    drop(dir);
    own[1] = 8.0;
    assert_eq!((&own[..2], &own[2..]), (&[9.0, 8.0][..], &values(LARGE, 0)[2..]));
    Ok(())
}
