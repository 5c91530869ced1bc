//! Goal: `ls` and `dump` take the same filters, and each lets through what it says, no more and no less. Method: twelve
//! rollouts that differ in all that is filtered by, and every filter by itself, in ranges of each form, and together.

mod common;

use std::path::{Path, PathBuf};

use common::{rollout_lines, rollstore, stderr};
use rollstore::{NewRollout, RolloutStore};
use tempfile::TempDir;

/// Ids 0 to 11: created at steps 0 to 11, of groups 0 to 2, with old log-probs of version 0 (below 6) or 1, none for 9.
fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(4).max_version_lag(0).open(&path)?;
        for id in 0..12 {
            if id == 6 {
                store.advance_ref_version(6, None)?;
            }
            let rollout = NewRollout::new(id, id).group(id % 3);
            let version = store.ref_version();
            store.insert(if id == 9 { rollout } else { rollout.old_logps(&[-0.5][..], version) })?;
        }
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

fn listed(command: &str, store: &Path, options: &[&str]) -> Vec<u64> {
    let output = rollstore().arg(command).arg(store).arg("--json").args(options).output().expect("the program starts");
    let id = |row: &serde_json::Value| row["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    rollout_lines(&output).iter().map(id).collect()
}

#[test]
fn each_filter_lets_through_what_it_says_in_ls_and_in_dump() {
    let (_folder, store) = store();
    let cases: [(&[&str], Vec<u64>); 13] = [
        (&[], (0..12).collect()),
        (&["--group", "1"], vec![1, 4, 7, 10]),
        (&["--group", "99"], vec![]),
        (&["--id", "3..5"], vec![3, 4, 5]),
        (&["--id", "10.."], vec![10, 11]),
        (&["--id", "7"], vec![7]),
        (&["--created", "..2"], vec![0, 1, 2]),
        (&["--version", "1"], vec![6, 7, 8, 10, 11]),
        (&["--version", "0.."], vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]),
        (&["--stale"], vec![0, 1, 2, 3, 4, 5]),
        (&["--stale", "--missing"], vec![0, 1, 2, 3, 4, 5, 9]),
        (&["--out-of-window", "--step", "12"], vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (&["--stale", "--missing", "--group", "0", "--id", "3.."], vec![3, 9]),
    ];
    for (options, expected) in cases {
        assert_eq!(listed("ls", &store, options), expected, "ls {options:?}");
        assert_eq!(listed("dump", &store, options), expected, "dump {options:?}");
    }
    assert_eq!(listed("ls", &store, &["--created", "4..", "--limit", "2"]), [4, 5]);
}

#[test]
fn a_range_that_is_none_is_refused_with_what_one_is() {
    let (_folder, store) = store();
    for (range, told) in [("5..3", "5 lies behind 3"), ("x", "\"x\" is no number"), ("..", "one side at least")] {
        let output = rollstore().arg("ls").arg(&store).args(["--id", range]).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{range}");
        assert!(stderr(&output).contains(told), "{range}: {}", stderr(&output));
    }
}
