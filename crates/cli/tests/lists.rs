//! Goal: `ls` sorts and shows what is asked for, and `stat --every` looks again. Method: a store whose rollouts have another
//! order by each thing that they can be sorted by, and a store that grows between two looks.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{json_lines, rollstore, stderr, stdout, terminal};
use rollstore::{NewRollout, RolloutStore};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Rollout 1 is the newest created, 2 the longest and 3 without old log-probs.
fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).max_version_lag(1).open(&path)?;
        store.insert(NewRollout::new(2, 1).completion_ids(vec![7; 9]).old_logps(vec![-0.5; 9], 0).reward(0.1))?;
        store.advance_ref_version(2, None)?;
        store.insert(NewRollout::new(3, 2).completion_ids(vec![7; 5]))?;
        store.insert(
            NewRollout::with_key("uid", 2)
                .completion_ids(vec![7; 3])
                .column("routes", vec![0_u8; 5000])
                .old_logps(vec![-0.5; 3], 1),
        )?;
        store.insert(NewRollout::new(1, 4).completion_ids(vec![7; 2]).old_logps(vec![-0.5; 2], 1))?;
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

fn listed(store: &Path, options: &[&str]) -> Vec<String> {
    let output = rollstore().arg("ls").arg(store).arg("--json").args(options).output().expect("the program starts");
    let keyed = rollstore::RolloutId::from_key("uid").to_string();
    let id = |row: &Value| row["id"].as_str().expect("ids are strings").replace(&keyed, "uid");
    json_lines(&output).iter().map(id).collect()
}

#[test]
fn rollouts_are_sorted_by_each_thing_and_the_other_way_round() {
    let (_folder, store) = store();
    let cases: [(&[&str], [&str; 4]); 8] = [
        (&[], ["2", "3", "uid", "1"]),
        (&["--reverse"], ["1", "uid", "3", "2"]),
        (&["--sort", "id"], ["1", "2", "3", "uid"]),
        (&["--sort", "created"], ["2", "3", "uid", "1"]),
        (&["--sort", "version"], ["3", "2", "1", "uid"]),
        (&["--sort", "age", "--reverse", "--step", "9"], ["2", "uid", "3", "1"]),
        (&["--sort", "tokens"], ["1", "uid", "3", "2"]),
        (&["--sort", "bytes"], ["1", "3", "2", "uid"]),
    ];
    for (options, expected) in cases {
        assert_eq!(listed(&store, options), expected, "{options:?}");
    }
    assert_eq!(listed(&store, &["--sort", "id", "--limit", "2", "--reverse"]), ["uid", "3"], "sorted, then cut");
}

#[test]
fn columns_are_shown_in_the_order_in_which_they_are_named() {
    let (_folder, store) = store();
    let run = |options: &[&str]| stdout(&rollstore().arg("ls").arg(&store).args(options).output().unwrap());
    let table = run(&["--columns", "tokens,id,bytes,state", "--sort", "id", "--limit", "2"]);
    let rows: Vec<Vec<&str>> = table.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["tokens", "id", "bytes", "state"]);
    assert_eq!(
        (rows[1].as_slice(), rows[2].as_slice()),
        (["2", "1", "16", "B", "from-future"].as_slice(), ["9", "2", "72", "B", "fresh"].as_slice())
    );
    let line = run(&["--columns", "reward,version,id,key", "--sort", "id", "--id", "2", "--json"]);
    assert_eq!(line, "{\"reward\":0.1,\"version\":0,\"id\":\"2\",\"key\":null}\n", "a float has its fewest digits");
    let refused = rollstore().arg("ls").arg(&store).args(["--columns", "id,weight"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("weight") && stderr(&refused).contains("reward"), "{}", stderr(&refused));
}

#[test]
fn stat_looks_again_and_sees_what_was_written_meanwhile() {
    let (_folder, store) = store();
    let writer = RolloutStore::options().open(&store).unwrap();
    let mut stat = rollstore();
    stat.arg("stat").arg(&store).args(["--every", "50ms", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut stat = stat.spawn().unwrap();
    let mut lines = BufReader::new(stat.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((&first["live"], &first["per_second"]), (&json!(4), &Value::Null));
    writer.insert(NewRollout::new(40, 4)).unwrap();
    let grown = (0..1000).map(|_| next()).find(|look| look["live"] == 5).expect("a look that sees it");
    assert!(grown["per_second"]["inserted"].as_f64().unwrap() > 0.0, "{grown}");
    assert!(grown["seconds"].as_f64() > first["seconds"].as_f64());
    drop(lines);
    let output = stat.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "it ends when its reader goes");
    writer.close().unwrap();
}

#[test]
fn stat_ends_after_the_looks_that_were_asked_for() {
    let (_folder, store) = store();
    let run = |options: &[&str]| rollstore().arg("stat").arg(&store).args(options).output().unwrap();
    let table = stdout(&run(&["--every", "50ms", "--count", "3"]));
    assert_eq!(table.matches(" rollouts   4 live").count(), 3, "{table}");
    assert_eq!(table.matches("\n\n").count(), 2, "an empty line between two looks");
    assert_eq!(table.matches(" rates      from the next look on\n").count(), 1);
    assert!(!table.contains('\u{1b}'), "only a terminal is cleared");
    for options in [&["--count", "3"][..], &["--every", "3"], &["--every", "1s", "--count", "0"]] {
        assert_eq!(run(options).status.code(), Some(2), "{options:?}");
    }
}

#[test]
fn a_terminal_is_cleared_before_each_look_unless_it_is_dumb() {
    let (_folder, store) = store();
    for (term, clears) in [("xterm", 2), ("dumb", 0)] {
        let (ours, theirs) = terminal();
        let mut stat = rollstore();
        stat.arg("stat").arg(&store).args(["--every", "50ms", "--count", "2"]).env("TERM", term).env("NO_COLOR", "1");
        let mut child = stat.stdout(theirs).spawn().unwrap();
        // It holds the terminal's other end, which closes with the program only once this is gone.
        drop(stat);
        let (mut shown, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(read @ 1..) = rustix::io::read(&ours, &mut buffer) {
            shown.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        assert!(child.wait().unwrap().success());
        assert_eq!(shown.matches("\u{1b}[H\u{1b}[2J").count(), clears, "{term}: {shown:?}");
        assert!(!shown.contains("\u{1b}[1m"), "NO_COLOR is honoured");
        assert_eq!(shown.matches(" rollouts   4 live").count(), 2);
    }
}
