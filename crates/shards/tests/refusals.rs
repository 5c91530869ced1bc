//! Goal: shards that cannot be made into others are refused by name, before anything is made, and stay as they were.
//!
//! Method: for each reason, shards with that one defect; afterwards nothing lies beside them.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::os::OsDisk;
use rollstore::{ErrorKind, NewRollout, Options, RolloutStore};
use rollstore_shards::{Error, Made, OnConflict, Shards, Stage, TakeCursor};
use rollstore_testkit::scratch::{Scratch, bare, with_old};
use rollstore_testkit::shards::{Held, options};

/// A store with rollout `id`, called `name`.
fn shard(scratch: &Scratch, name: &str, id: u64, adjust: impl FnOnce(Options) -> Options) -> PathBuf {
    let dir = scratch.path(name);
    let store = adjust(options(Arc::new(OsDisk))).open(&dir).unwrap();
    store.insert(with_old(id, 0, -0.5, 0)).unwrap();
    store.close().unwrap();
    dir
}

/// Names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Refuses to make one store, in these words, and leaves nothing.
fn refused(scratch: &Scratch, shards: Shards<'_>, says: &[&str]) -> Error {
    let before = names(&scratch.path(""));
    let error = shards.merge(scratch.path("all")).unwrap_err();
    let text = error.to_string();
    says.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in {text:?}"));
    assert_eq!(names(&scratch.path("")), before, "{text}");
    error
}

/// What another shard is opened with.
type Change = fn(Options) -> Options;

#[test]
fn shards_of_two_runs_or_with_other_options_are_refused() {
    let scratch = Scratch::new();
    let ours = shard(&scratch, "ours", 1, |options| options);
    let others: [(&str, Change, &[&str]); 3] = [
        ("run", |options| options.run_identity(b"other"), &["identity", "\"run\"", "\"other\"", "ours"]),
        ("window", |options| options.window(9), &["window", "is 8", "is 9"]),
        ("lag", |options| options.max_version_lag(5), &["lag", "is 1", "is 5"]),
    ];
    for (name, adjust, says) in others {
        let theirs = shard(&scratch, name, 2, adjust);
        let error = refused(&scratch, Shards::of([&ours, &theirs]), says);
        assert!(matches!(error, Error::Mismatch { .. }) && error.kind() == ErrorKind::Invalid, "{error:?}");
    }
}

#[test]
fn cursors_that_differ_need_a_choice() {
    let scratch = Scratch::new();
    let [a, b] = [("a", 1), ("b", 2)].map(|(name, id)| {
        let dir = shard(&scratch, name, id, |options| options);
        options(Arc::new(OsDisk)).open(&dir).unwrap().set_cursor(name.as_bytes()).unwrap();
        dir
    });
    let error = refused(&scratch, Shards::of([&a, &b]), &["cursors", "/a ", "/b "]);
    assert!(matches!(error, Error::Cursors { .. }), "{error:?}");
    refused(&scratch, Shards::of([&a, &b]).cursor(TakeCursor::Of(2)), &["no shard 2", "there are 2"]);
    for (name, take, cursor) in [("of", TakeCursor::Of(1), Some(&b"b"[..])), ("none", TakeCursor::No, None)] {
        let made = scratch.path(name);
        Shards::of([&a, &b]).cursor(take).merge(&made).unwrap();
        let store = RolloutStore::options().read_only(true).open(&made).unwrap();
        assert_eq!(store.cursor().as_deref(), cursor, "{name}");
    }
}

#[test]
fn a_shard_that_is_missed_given_twice_or_none_at_all_is_told() {
    let scratch = Scratch::new();
    let given = scratch.path("given");
    for number in ["00000", "00002"] {
        shard(&scratch, &format!("given/shard-{number}"), 1, |options| options);
    }
    refused(&scratch, Shards::of([&given]), &["no shard-00001"]);
    let one = given.join("shard-00000");
    refused(&scratch, Shards::of([&one, &one]), &["given twice"]);
    refused(&scratch, Shards::of(Vec::<PathBuf>::new()), &["no shard"]);
    let error = refused(&scratch, Shards::of([scratch.path("nowhere")]), &["nowhere"]);
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_name_that_is_taken_stays_as_it_is_and_an_empty_directory_gives_way() {
    let scratch = Scratch::new();
    let one = shard(&scratch, "one", 1, |options| options);
    let all = scratch.path("all");
    std::fs::create_dir(&all).unwrap();
    std::fs::write(all.join("notes"), b"mine").unwrap();
    let error = refused(&scratch, Shards::of([&one]), &["there already"]);
    assert!(matches!(error, Error::Exists(_)), "{error:?}");
    std::fs::remove_file(all.join("notes")).unwrap();
    Shards::of([&one]).merge(&all).unwrap();
    assert_eq!(RolloutStore::options().read_only(true).open(&all).unwrap().len(), 1);
}

#[test]
fn a_damaged_shard_is_named_and_nothing_is_made() {
    let scratch = Scratch::new();
    let dir = scratch.path("one");
    let store = options(Arc::new(OsDisk)).open(&dir).unwrap();
    store.insert(NewRollout::new(1, 0).old_logps(vec![-0.5; 5000], 0)).unwrap();
    store.close().unwrap();
    let segment = names(&dir).into_iter().find(|name| name.starts_with("seg-")).unwrap();
    let mut bytes = std::fs::read(dir.join(&segment)).unwrap();
    // In the middle of the array.
    let place = bytes.windows(4).position(|bytes| bytes == (-0.5_f32).to_le_bytes()).unwrap() + 4000;
    bytes[place] ^= 1;
    std::fs::write(dir.join(&segment), bytes).unwrap();
    let error = refused(&scratch, Shards::of([&dir]), &[&segment, "damaged"]);
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn ids_in_two_shards_are_named_with_whether_they_are_the_same() {
    let scratch = Scratch::new();
    let [a, b] = ["a", "b"].map(|name| scratch.path(name));
    for (dir, ours, step) in [(&a, 1, 0), (&b, 2, 3)] {
        let store = options(Arc::new(OsDisk)).open(dir).unwrap();
        for id in [10, 20] {
            store.insert(with_old(id, 0, -0.5, 0)).unwrap();
        }
        store.insert(bare(30, step)).unwrap();
        store.insert(bare(ours, 0)).unwrap();
        store.begin_partial(NewRollout::new(40, 0)).unwrap();
        if step == 0 {
            store.insert(bare(50, 0)).unwrap();
        } else {
            store.begin_partial(NewRollout::new(50, 0)).unwrap();
        }
        store.close().unwrap();
    }
    let says =
        ["5 rollouts", "10 (the same in", "20 (the same in", "30 (different in", "40 (the same", "50 (different"];
    let error = refused(&scratch, Shards::of([&a, &b]), &says);
    assert!(matches!(&error, Error::Conflicts { count: 5, first } if first.len() == 5), "{error:?}");

    let all = scratch.path("newest");
    let made = Shards::of([&a, &b]).on_conflict(OnConflict::Newest).merge(&all).unwrap();
    assert_eq!((made.superseded, made.superseded_partials, made.after.rollouts), (3, 2, 6));
    let store = RolloutStore::options().read_only(true).open(&all).unwrap();
    assert_eq!(store.get(30.into()).unwrap().unwrap().created_step(), 3, "created last");
    let counters = store.stats().unwrap().counters;
    assert_eq!((counters.inserted, counters.retired_total()), (9, 3), "what was not taken ended");
}

#[test]
fn who_says_stop_goes_on_with_the_same_call() {
    let scratch = Scratch::new();
    let one = shard(&scratch, "one", 1, |options| options);
    let stopped_at = |stage: Stage| {
        let stop = move |progress: rollstore_shards::Progress| {
            if progress.stage == stage && progress.done > 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        Shards::of([&one]).watch(stop).reshard(NonZeroU32::new(2).unwrap(), scratch.path("two"))
    };
    for stage in [Stage::Looking, Stage::Copying, Stage::Counting] {
        let error = stopped_at(stage).unwrap_err();
        assert!(matches!(error, Error::Interrupted) && !scratch.path("two").exists(), "{stage:?}: {error}");
    }
    let made: Made = Shards::of([&one]).reshard(NonZeroU32::new(2).unwrap(), scratch.path("two")).unwrap();
    let disk: Arc<dyn rollstore::disk::Disk> = Arc::new(OsDisk);
    let held = Held::of(&disk, made.stores.iter().map(|(dir, _)| dir.clone())).unwrap();
    held.assert_same(&Held::of(&disk, [&one]).unwrap(), "gone on with");
    assert_eq!(names(&scratch.path("")), ["one", "two"]);
}

#[test]
fn two_that_make_the_same_are_kept_apart() {
    let scratch = Scratch::new();
    let one = shard(&scratch, "one", 1, |options| options);
    let all = scratch.path("all");
    let mut inner = None;
    let watch = |progress: rollstore_shards::Progress| {
        if progress.stage == Stage::Copying && inner.is_none() {
            inner = Some(Shards::of([&one]).merge(&all).unwrap_err());
        }
        ControlFlow::Continue(())
    };
    Shards::of([&one]).watch(watch).merge(&all).unwrap();
    let inner = inner.unwrap();
    assert!(matches!(inner, Error::Busy { .. }) && inner.kind() == ErrorKind::Locked, "{inner}");
    assert_eq!(names(&scratch.path("")), ["all", "one"]);
}
