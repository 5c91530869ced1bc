//! Goal: `merge` and `reshard` say what they made of what, in numbers, and what they refuse, in one line with the option that
//! helps. Method: small shards are made into others, as text and as JSON; refusals and damage end with their exit codes.

mod common;

use std::path::{Path, PathBuf};

use common::{flip, json, marked_store, marker, run, stderr, stdout};
use rollstore::{Budget, NewRollout, Plan, Query, Results, RolloutStore};
use tempfile::TempDir;

/// Two shards, one of them stale, with a partial rollout and a sweep that came half way.
fn shards() -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let shards = ["a", "b"].map(|name| folder.path().join(name));
    for (id, dir) in (1..).zip(&shards) {
        let store = RolloutStore::options().window(8).open(dir).unwrap();
        store.insert(NewRollout::new(id, 3).completion_ids(&[1, 2, 3][..]).old_logps(&[-0.5; 3][..], 0)).unwrap();
        store.insert(NewRollout::new(id + 10, 3).completion_ids(&[1][..])).unwrap();
        store.advance_ref_version(3, Some(8)).unwrap();
    }
    let store = RolloutStore::options().open(&shards[0]).unwrap();
    store.begin_partial(NewRollout::new(20, 3)).unwrap();
    store.append(20.into(), &[5, 6][..], &[-0.5, -0.5][..], (1, 2)).unwrap();
    let forward = |work: &Plan| {
        let rows = work.rollouts().map(|rollout| (rollout.id(), vec![-0.5; 3]));
        Ok::<_, std::convert::Infallible>(rows.collect::<Results>())
    };
    store.sweep("teacher", Query::All).kl_ref().run(3, Budget::rollouts(1), forward).unwrap();
    store.close().unwrap();
    (folder, shards)
}

fn arguments<'a>(command: &'a str, from: &'a [PathBuf], to: &'a Path, options: &[&'a str]) -> Vec<&'a str> {
    let from = from.iter().map(|path| path.to_str().unwrap());
    let to = ["-o", to.to_str().unwrap()];
    [command].into_iter().chain(from).chain(to).chain(options.iter().copied()).collect()
}

#[test]
fn counts_before_and_after_are_told_and_what_begins_anew() {
    let (folder, shards) = shards();
    let output = run(arguments("merge", &shards, &folder.path().join("all"), &[]));
    let text = stdout(&output);
    for line in [
        " before     4 rollouts, 4 stale, 2 missing; 8 tokens; arrays of 68 bytes; 1 partial, 2 tokens",
        " after      4 rollouts, 4 stale, 2 missing; 8 tokens; arrays of 68 bytes; 1 partial, 2 tokens",
        " version    0: 4 live, 4 stale, 2 missing",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    assert!(stderr(&output).contains("its sweep begins anew in what was made: teacher"), "{}", stderr(&output));
}

#[test]
fn json_has_the_same_counts_and_every_store() {
    let (folder, shards) = shards();
    let made = json(&run(arguments("reshard", &shards, &folder.path().join("three"), &["--shards", "3", "--json"])));
    assert_eq!(made["before"], made["after"]);
    assert_eq!((made["after"]["rollouts"].as_u64(), made["after"]["partial_tokens"].as_u64()), (Some(4), Some(2)));
    let rollouts = made["stores"].as_array().unwrap().iter().map(|store| {
        assert!(Path::new(store["path"].as_str().unwrap()).is_dir());
        store["rollouts"].as_u64().unwrap()
    });
    assert_eq!(rollouts.collect::<Vec<_>>().iter().sum::<u64>(), 4);
}

#[test]
fn a_refusal_names_the_option_that_helps() {
    let (folder, shards) = shards();
    let store = RolloutStore::options().open(&shards[1]).unwrap();
    store.set_cursor(b"elsewhere").unwrap();
    store.insert(NewRollout::new(1, 3)).unwrap();
    store.close().unwrap();
    let all = folder.path().join("all");
    for (options, says) in [
        (&[][..], "--cursor-of N, or --no-cursor"),
        (&["--no-cursor"][..], "1 (different in"),
        (&["--no-cursor"][..], "--on-conflict newest"),
    ] {
        let output = run(arguments("merge", &shards, &all, options));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(says) && stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
    assert!(!all.exists());
    let output = run(arguments("merge", &shards, &all, &["--cursor-of", "1", "--on-conflict", "newest"]));
    assert!(stdout(&output).contains("left out   1 rollout"), "{}", stdout(&output));
}

#[test]
fn damage_in_a_shard_ends_with_one_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, all) = (folder.path().join("shard"), folder.path().join("all"));
    marked_store(&shard);
    flip(&shard, &marker(1));
    let output = run(arguments("merge", &[shard], &all, &[]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("damaged") && !all.exists(), "{}", stderr(&output));
}
