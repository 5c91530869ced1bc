//! Goal: `checkpoint`, `restore` and `rewind` do what the library's calls of that name do, say what came of it, and
//! refuse what would harm. Method: a small store is saved, changed, brought back and rewound.

mod common;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;

use common::{contents, run, stderr, stdout};
use rollstore::{NewRollout, RolloutStore};

fn rollstore(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    run(arguments.iter().map(|argument| (*argument).as_ref()))
}

/// Adds a rollout and advances: one step of a trainer.
fn train(path: &Path, step: u64) {
    let step_of = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).open(path)?;
        store.insert(NewRollout::new(step, step).old_logps(vec![-0.5], store.ref_version()))?;
        store.advance_ref_version(step, None)?;
        store.close()
    };
    step_of().expect("the trainer goes on");
}

fn ids(path: &Path) -> Vec<u64> {
    let store = RolloutStore::options().read_only(true).open(path).expect("a store");
    store.ids().into_iter().map(rollstore::RolloutId::get).collect()
}

#[test]
fn a_checkpoint_is_brought_back_in_place_and_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let [store, saved, elsewhere] = ["store", "saved", "elsewhere"].map(|name| folder.path().join(name));
    train(&store, 1);
    let told = stdout(&rollstore(&[&"checkpoint", &store, &saved]));
    assert!(told.contains(" saved      1 rollout live, 1 of them stale, at step 1\n made by    "), "{told}");
    train(&store, 2);
    assert_eq!(ids(&store), [1, 2]);
    for target in [&elsewhere, &store] {
        let told = stdout(&rollstore(&[&"restore", &saved, target]));
        assert!(told.contains(" restored   1 rollout live, 1 of them stale, at step 1\n"), "{told}");
        assert_eq!(ids(target), [1]);
    }
    train(&store, 2);
    assert_eq!(ids(&store), [1, 2], "writing goes on");
}

#[test]
fn a_rewind_keeps_or_drops_what_was_created_later() {
    for (option, left, dropped) in [("--keep", &[1, 2, 3][..], "0 rollouts"), ("--drop", &[1, 2], "1 rollout")] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        (1..=3).for_each(|step| train(&store, step));
        let told = stdout(&rollstore(&[&"rewind", &store, &"2", &option]));
        let live = left.len();
        assert!(
            told.contains(&format!(" rewound    {live} rollouts live, {live} of them stale, at step 2\n")),
            "{told}"
        );
        assert!(told.contains(&format!(" dropped    {dropped} created after step 2\n")), "{told}");
        assert_eq!(ids(&store), left);
    }
}

#[test]
fn what_would_harm_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [store, saved, other] = ["store", "saved", "other"].map(|name| folder.path().join(name));
    train(&store, 1);
    train(&other, 1);
    stdout(&rollstore(&[&"checkpoint", &store, &saved]));
    let absent = folder.path().join("absent");
    let before = (contents(&other), contents(&saved));
    let cases: [(&[&dyn AsRef<OsStr>], &str); 8] = [
        (&[&"checkpoint", &store, &other], "is a store; choose another path"),
        (&[&"checkpoint", &absent, &folder.path().join("new")], "holds no store"),
        (&[&"restore", &store, &absent], "is a store, not a checkpoint"),
        (&[&"restore", &saved, &other], "is a store of another run; restore elsewhere"),
        (&[&"rewind", &store, &"9", &"--keep"], "a rewind to step 9 does not go back"),
        (&[&"rewind", &absent, &"0", &"--keep"], "holds no store"),
        (&[&"rewind", &store, &"0"], "--keep|--drop"),
        (&[&"rewind", &store, &"0", &"--keep", &"--drop"], "cannot be used with"),
    ];
    for (arguments, expected) in cases {
        let output = rollstore(arguments);
        let told = stderr(&output);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains(expected) && output.stdout.is_empty(), "{expected:?} is not in {told:?}");
    }
    assert_eq!((ids(&store), absent.exists()), (vec![1], false));
    assert_eq!((contents(&other), contents(&saved)), before);
}

#[test]
fn a_store_that_a_trainer_has_open_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let [store, saved] = ["store", "saved"].map(|name| folder.path().join(name));
    train(&store, 1);
    stdout(&rollstore(&[&"checkpoint", &store, &saved]));
    let _trainer = RolloutStore::options().open(&store).unwrap();
    let before = contents(&store);
    let commands: [&[&dyn AsRef<OsStr>]; 3] =
        [&[&"checkpoint", &store, &saved], &[&"restore", &saved, &store], &[&"rewind", &store, &"0", &"--drop"]];
    for command in commands {
        let output = rollstore(command);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("held by another writer: pid "), "{}", stderr(&output));
        assert_eq!(contents(&store), before);
    }
}
