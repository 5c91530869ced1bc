//! Goal: a reshard that is killed anywhere goes on, and comes to the same end as one that was not.
//!
//! Method: this test binary runs itself as a child, which reshards; the parent kills it with SIGKILL, at each stage in turn and
//! at random moments, until a child comes to its end. What was made is compared as a whole. Then the work that was left is
//! spoilt, or the shards go on, and the end is still right.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore_shards::{Error, Shards, Stage};
use rollstore_testkit::child;
use rollstore_testkit::scratch::{Scratch, with_old};
use rollstore_testkit::settings::{random, rounds, seed};
use rollstore_testkit::shards::{Held, live, options};

const SHARDS: u64 = 4;

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn given(dir: &Path) -> Vec<PathBuf> {
    (0..SHARDS).map(|shard| dir.join(format!("given/shard-{shard:05}"))).collect()
}

fn make(dir: &Path) {
    for (shard, dir) in (0..).zip(given(dir)) {
        let store = options(disk()).open(dir).unwrap();
        live(&store, 7, shard, SHARDS).unwrap();
        store.close().unwrap();
    }
}

fn reshard(dir: &Path, mut die: impl FnMut(Stage, u64) -> bool) -> Result<rollstore_shards::Made, Error> {
    let mut calls = 0;
    let watch = move |progress: rollstore_shards::Progress| {
        calls += 1;
        if die(progress.stage, calls) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    Shards::of([dir.join("given")]).watch(watch).reshard(NonZeroU32::new(3).unwrap(), dir.join("made"))
}

/// The child: not a test of its own, it returns at once where it is not asked for. Its role is the call of its watcher at which
/// it kills itself; 0 for none.
#[test]
fn child_reshards() {
    let Some((role, dir)) = child::role() else { return };
    let at: u64 = role.parse().unwrap();
    let kill = |calls| {
        if calls == at {
            let pid = std::process::id().to_string();
            Command::new("kill").args(["-9", &pid]).status().unwrap();
        }
        false
    };
    match reshard(&dir, |_, calls| kill(calls)) {
        Ok(_) | Err(Error::Exists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

fn dirs(dir: &Path) -> Vec<PathBuf> {
    (0..3).map(|shard| dir.join(format!("made/shard-{shard:05}"))).collect()
}

/// What was made is what was given, and nothing else is there.
fn assert_made(dir: &Path, held: &Held, when: &str) {
    Held::of(&disk(), dirs(dir)).unwrap().assert_same(held, when);
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "given" || name == "made"), "{when}: {left:?}");
}

#[test]
fn killed_at_every_batch_it_goes_on_to_the_same_end() {
    let scratch = Scratch::new();
    let dir = scratch.path("");
    make(&dir);
    let held = Held::of(&disk(), given(&dir)).unwrap();
    let mut kills = 0;
    for at in 1.. {
        let status = child::command("child_reshards", &at.to_string(), &dir).stdout(Stdio::null()).status().unwrap();
        if status.success() {
            break;
        }
        kills += 1;
        assert!(!dir.join("made").exists(), "killed at {at}, and it has its name");
    }
    assert!(kills > 12, "{kills} kills");
    assert_made(&dir, &held, "killed at every batch");
}

#[test]
fn killed_at_random_moments_it_goes_on_to_the_same_end() {
    let scratch = Scratch::new();
    let dir = scratch.path("");
    make(&dir);
    let held = Held::of(&disk(), given(&dir)).unwrap();
    for round in 0..rounds(6) {
        let mut moment = 0;
        loop {
            let mut child = child::command("child_reshards", "0", &dir).stdout(Stdio::null()).spawn().unwrap();
            // Not waited for: a moment to be killed at, a little later each time.
            std::thread::sleep(Duration::from_micros(random(seed(), round * 100 + moment) % (4_000 + 4_000 * moment)));
            child.kill().unwrap();
            child.wait().unwrap();
            moment += 1;
            if dir.join("made").exists() {
                break;
            }
        }
        // One that was killed behind the naming left its lock alone: the next call takes it away.
        assert!(matches!(reshard(&dir, |_, _| false), Err(Error::Exists(_))));
        assert_made(&dir, &held, &format!("round {round}"));
        std::fs::remove_dir_all(dir.join("made")).unwrap();
    }
}

/// The segments of the first store, whose headers have salt: made anew, they would be others.
fn segments(dir: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let files = std::fs::read_dir(dir.join("shard-00000")).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("seg-"));
    segments.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn what_was_made_is_not_made_again() {
    let scratch = Scratch::new();
    let dir = scratch.path("");
    make(&dir);
    // In the middle of the second store.
    let stopped = reshard(&dir, |stage, calls| stage == Stage::Copying && calls > 14).unwrap_err();
    assert!(matches!(stopped, Error::Interrupted), "{stopped}");
    let left = segments(&dir.join(".made.making/made"));
    reshard(&dir, |_, _| false).unwrap();
    assert!(!left.is_empty() && left == segments(&dir.join("made")));
}

#[test]
fn work_on_something_else_is_not_mixed_in() {
    let scratch = Scratch::new();
    let dir = scratch.path("");
    make(&dir);
    let held = Held::of(&disk(), given(&dir)).unwrap();
    let stop = |progress: rollstore_shards::Progress| match progress.stage {
        Stage::Counting => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let shards = || Shards::of([dir.join("given")]).watch(stop);
    let five = shards().reshard(NonZeroU32::new(5).unwrap(), dir.join("made"));
    assert!(matches!(five, Err(Error::Interrupted)), "{five:?}");
    let one = shards().merge(dir.join("made"));
    assert!(matches!(one, Err(Error::Interrupted)), "{one:?}");
    reshard(&dir, |_, _| false).unwrap();
    assert_made(&dir, &held, "three behind five and one");
    assert_eq!(std::fs::read_dir(dir.join("made")).unwrap().count(), 3);
}

/// What spoils a place of work, of these shards.
type Spoil = fn(&Path, &[PathBuf]);

#[test]
fn work_that_was_left_is_trusted_in_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.path("");
    make(&dir);
    let given = given(&dir);
    let left = dir.join(".made.making/made");
    let spoil: [(&str, Spoil); 5] = [
        ("a segment is cut", |left, _| {
            let dir = left.join("shard-00001");
            let segment = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let segment = segment.filter(|path| path.to_string_lossy().contains("seg-")).last().unwrap();
            let bytes = std::fs::read(&segment).unwrap();
            std::fs::write(&segment, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a manifest is lost", |left, _| {
            for entry in std::fs::read_dir(left.join("shard-00000")).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.to_string_lossy().contains("MANIFEST") {
                    std::fs::remove_file(entry).unwrap();
                }
            }
        }),
        ("a strange rollout is there", |left, _| {
            let store = options(disk()).open(left.join("shard-00002")).unwrap();
            store.insert(with_old(1 << 50, 0, -0.5, 0)).unwrap();
        }),
        ("the shards went on", |_, given| {
            for (id, dir) in (1 << 51..).zip(given) {
                let store = options(disk()).open(dir).unwrap();
                store.insert(with_old(id, 12, -0.5, store.ref_version())).unwrap();
                store.advance_ref_version(12, Some(900)).unwrap();
            }
        }),
        ("a rollout was replaced by one of its shape", |_, given| {
            let store = options(disk()).open(&given[1]).unwrap();
            let id = store.ids().into_iter().map(rollstore::RolloutId::get).min().unwrap();
            store.replace(with_old(id, 12, -0.5, store.ref_version())).unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        let stopped = reshard(&dir, |stage, _| stage == Stage::Counting).unwrap_err();
        assert!(matches!(stopped, Error::Interrupted), "{what}: {stopped}");
        spoil(&left, &given);
        reshard(&dir, |_, _| false).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_made(&dir, &Held::of(&disk(), &given).unwrap(), what);
        std::fs::remove_dir_all(dir.join("made")).unwrap();
    }
}
