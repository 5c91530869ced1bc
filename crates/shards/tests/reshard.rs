//! Goal: what shards hold, other shards hold, whatever their number: bit for bit, with all that the run counted.
//!
//! Method: shards with a life behind them, of every kind of rollout, are made into others and back; all that a set of stores
//! shows is compared as one value, and the bytes of the shards before and after.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore::{NewRollout, Reason, RolloutStore, inspect};
use rollstore_shards::{Router, Shards};
use rollstore_testkit::scratch::Scratch;
use rollstore_testkit::shards::{Held, live, options};

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn count(shards: u32) -> NonZeroU32 {
    NonZeroU32::new(shards).unwrap()
}

/// Shards `shard-00000` and so on, in a directory of their own.
fn shards(dir: &Path, seed: u64, shards: u64) -> Vec<PathBuf> {
    let one = |shard| {
        let dir = dir.join(format!("shard-{shard:05}"));
        let store = options(disk()).open(&dir).unwrap();
        live(&store, seed, shard, shards).unwrap();
        store.close().unwrap();
        dir
    };
    (0..shards).map(one).collect()
}

/// Every file below a directory, with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files.extend(self::files(&entry));
        } else {
            files.insert(entry.clone(), std::fs::read(&entry).unwrap());
        }
    }
    files
}

#[test]
fn eight_shards_are_three_and_eight_again_and_one_and_hold_the_same() {
    let scratch = Scratch::new();
    let given = shards(&scratch.path("given"), 1, 8);
    let (bytes, held) = (files(&scratch.path("given")), Held::of(&disk(), given).unwrap());
    assert!(held.rollouts.len() > 100 && !held.partials.is_empty(), "{held:?}");

    let mut from = scratch.path("given");
    for (step, shards) in [3, 8, 1].into_iter().enumerate() {
        let to = scratch.path(format!("{step}"));
        let made = Shards::of([&from]).reshard(count(shards), &to).unwrap();
        assert_eq!(made.before, made.after);
        assert_eq!(made.after.rollouts, held.rollouts.len() as u64);
        let dirs: Vec<PathBuf> = made.stores.iter().map(|(dir, _)| dir.clone()).collect();
        Held::of(&disk(), &dirs).unwrap().assert_same(&held, &format!("{shards} shards"));
        let router = Router::new(count(shards));
        for (shard, dir) in (0..).zip(&dirs) {
            let store = RolloutStore::options().read_only(true).open(dir).unwrap();
            assert!(store.verify().unwrap().is_sound());
            assert!(store.ids().iter().all(|id| router.route(*id) == shard), "{}", dir.display());
        }
        from = to;
    }
    let merged = scratch.path("merged");
    Shards::of([scratch.path("0")]).merge(&merged).unwrap();
    let differences = inspect::diff(&merged, scratch.path("2/shard-00000")).unwrap();
    assert!(differences.is_empty(), "{differences:?}");
    assert_eq!(files(&scratch.path("given")), bytes, "the shards are as they were");
}

#[test]
fn a_checkpoint_and_an_open_store_are_shards_like_any_other() {
    let scratch = Scratch::new();
    let given = shards(&scratch.path("given"), 2, 2);
    let held = Held::of(&disk(), &given).unwrap();
    let open = options(disk()).open(&given[0]).unwrap();
    let saved = scratch.path("saved");
    options(disk()).open(&given[1]).unwrap().checkpoint(&saved).unwrap();
    let all = scratch.path("all");
    Shards::of([&given[0], &saved]).merge(&all).unwrap();
    Held::of(&disk(), [&all]).unwrap().assert_same(&held, "merged");
    drop(open);
}

#[test]
fn a_store_that_was_made_is_written_to_like_any_other() {
    let scratch = Scratch::new();
    shards(&scratch.path("given"), 3, 2);
    let all = scratch.path("all");
    Shards::of([scratch.path("given")]).merge(&all).unwrap();
    let store = options(disk()).open(&all).unwrap();
    let (live, label) = (store.len() as u64, store.clocks().ref_versions.labels.last().unwrap().0);
    let id = store.allocate_ids(1).unwrap().next().unwrap();
    store.insert(NewRollout::new(id, 12)).unwrap();
    let open = store.partials().remove(0);
    store.finish(NewRollout::new(open.id, open.created_step)).unwrap();
    store.advance_ref_version(12, Some(label + 1)).unwrap();
    assert_eq!(store.retire(&store.ids(), Reason::Trained).unwrap(), live + 2);
    store.close().unwrap();
    assert!(inspect::verify(&all).unwrap().is_sound());
}

#[test]
fn shards_without_rollouts_make_shards_without_rollouts() {
    let scratch = Scratch::new();
    let given = scratch.path("given");
    options(disk()).open(&given).unwrap().close().unwrap();
    let made = Shards::of([&given]).reshard(count(3), scratch.path("three")).unwrap();
    assert_eq!((made.after.rollouts, made.stores.len()), (0, 3));
    for (dir, rollouts) in &made.stores {
        assert_eq!((RolloutStore::options().read_only(true).open(dir).unwrap().len(), *rollouts), (0, 0));
    }
}

#[test]
fn a_shard_in_which_nothing_happened_changes_nothing() {
    let scratch = Scratch::new();
    let mut given = shards(&scratch.path("given"), 4, 2);
    let held = Held::of(&disk(), &given).unwrap();
    let empty = scratch.path("empty");
    let store = options(disk()).open(&empty).unwrap();
    store.set_cursor(b"epoch 1").unwrap();
    store.close().unwrap();
    given.push(empty);
    let all = scratch.path("all");
    Shards::of(&given).merge(&all).unwrap();
    Held::of(&disk(), [&all]).unwrap().assert_same(&held, "merged");
}
