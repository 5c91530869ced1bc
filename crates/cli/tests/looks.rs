//! Goal: `history`, `segments`, `group`, `diff` and `completions` show what the library reports, with exit codes to rely on.
//! Method: small stores of known content are looked at through each, sound, changed and damaged.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{flip, json, json_lines, marked_store, marker, rollstore, run, stderr, stdout};
use rollstore::{NewRollout, Reason, RolloutStore};
use serde_json::{Value, json};
use tempfile::TempDir;

const LARGE: u64 = (1 << 53) + 1;

/// Three rollouts of one group, one of another that is still being generated, and one by a key, which was replaced.
fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).open(&path)?;
        for id in [1, 2, LARGE] {
            store.insert(NewRollout::new(id, 3).group(LARGE).old_logps(&[-0.5, -0.25][..], 0))?;
        }
        store.begin_partial(NewRollout::new(50, 4).group(LARGE))?;
        store.begin_partial(NewRollout::new(51, 4).group(8))?;
        store.insert(NewRollout::with_key("12", 3))?;
        store.replace(NewRollout::with_key("12", 4))?;
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

fn look(command: &str, store: &Path, options: &[&str]) -> Output {
    rollstore().arg(command).arg(store).args(options).output().expect("the program starts")
}

#[test]
fn history_finds_a_rollout_by_number_and_by_key_and_says_what_became_of_it() {
    let (_folder, store) = store();
    let lines = json_lines(&look("history", &store, &["12", "--json"]));
    let fates: Vec<&Value> = lines.iter().map(|line| &line["fate"]).collect();
    assert_eq!(fates, ["ended", "end", "served"]);
    assert_eq!((&lines[0]["reason"], &lines[0]["by"]), (&json!("superseded"), &lines[1]["lsn"]));
    let table = stdout(&look("history", &store, &[&LARGE.to_string()]));
    assert!(table.starts_with(" rollout 9007199254740993   1 frame, 1 incarnation\n"), "{table}");
    assert!(table.contains(" served "), "{table}");
    let unknown = look("history", &store, &["999"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("tells nothing of rollout 999"), "{}", stderr(&unknown));
}

#[test]
fn history_of_a_list_names_this_rollout_alone() {
    let (_folder, store) = store();
    let writer = RolloutStore::options().open(&store).unwrap();
    writer.retire(&[1.into(), 2.into(), LARGE.into()], Reason::Trained).unwrap();
    writer.close().unwrap();
    let lines = json_lines(&look("history", &store, &["2", "--json"]));
    assert_eq!(lines.last().unwrap()["said"]["rollouts"], json!([{"rollout": "2", "incarnation": 2}]));
}

#[test]
fn segments_are_sorted_as_asked_and_every_field_is_there() {
    let (_folder, store) = store();
    let writer = RolloutStore::options().open(&store).unwrap();
    writer.insert(NewRollout::new(90, 5).column("ballast", vec![0_u8; 100_000])).unwrap();
    writer.close().unwrap();
    let ids = |options: &[&str]| -> Vec<u64> {
        let lines = json_lines(&look("segments", &store, &[options, &["--json"]].concat()));
        lines.iter().map(|line| line["id"].as_u64().unwrap()).collect()
    };
    assert_eq!((ids(&[]), ids(&["--reverse"])), (vec![1, 2], vec![2, 1]));
    assert_eq!((ids(&["--sort", "live", "--reverse"]), ids(&["--sort", "bytes"])), (vec![2, 1], vec![1, 2]));
    let first = &json_lines(&look("segments", &store, &["--json"]))[0];
    let expected = json!({"id": 1, "state": "sealed", "compacted": false, "first_lsn": 1, "first_born_step": 3});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(first[name], *value, "{name}: {first}");
    }
    assert_eq!(first.as_object().unwrap().len(), 15, "{first}");
    let table = stdout(&look("segments", &store, &[]));
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn a_group_is_complete_by_the_size_that_is_given() {
    let (_folder, store) = store();
    let group = LARGE.to_string();
    let whole = stdout(&look("group", &store, &[&group, "--size", "3"]));
    assert!(whole.contains(" group 9007199254740993: 3 of 3 rollouts live, 3 fresh: complete\n"), "{whole}");
    assert!(whole.contains(" still being generated: rollout 50\n"), "{whole}");
    let part = look("group", &store, &[&group, "--size", "4", "--json"]);
    assert_eq!(part.status.code(), Some(1));
    let part: Value = serde_json::from_slice(&part.stdout).unwrap();
    let seen = (&part["complete"], &part["live"], &part["partials"], &part["group"]);
    assert_eq!(seen, (&json!(false), &json!(3), &json!(["50"]), &json!(group)));
    let ids: Vec<&Value> = part["rollouts"].as_array().unwrap().iter().map(|rollout| &rollout["id"]).collect();
    assert_eq!(ids, ["1", "2", "9007199254740993"]);
    assert_eq!(json(&look("group", &store, &[&group, "--json"]))["complete"], Value::Null);
    let none = look("group", &store, &["77"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("no rollout of group 77 is live"), "{}", stderr(&none));
}

#[test]
fn diff_exits_with_0_1_or_2_and_names_each_difference() {
    let (folder, store) = store();
    let saved = folder.path().join("saved");
    assert!(run(["checkpoint".as_ref(), store.as_os_str(), saved.as_os_str()]).status.success());
    let compare = |options: &[&str]| rollstore().arg("diff").arg(&store).arg(&saved).args(options).output().unwrap();
    let equal = compare(&[]);
    assert!(
        stdout(&equal).contains(" rollouts   4 the same, 0 different, 0 only in a, 0 only in b\n equal "),
        "{equal:?}"
    );
    assert_eq!(stdout(&compare(&["--json"])), "");
    let writer = RolloutStore::options().open(&store).unwrap();
    writer.insert(NewRollout::new(LARGE + 2, 4)).unwrap();
    writer.advance_ref_version(5, None).unwrap();
    writer.close().unwrap();
    let different = compare(&["--json"]);
    assert_eq!(different.status.code(), Some(1));
    let told = String::from_utf8(different.stdout).unwrap();
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.contains(&json!({"only_in": "a", "rollout": "9007199254740995"})), "{told}");
    assert!(lines.contains(&json!({"what": "clock", "a": "5", "b": null})), "{told}");
    assert!(lines.contains(&json!({"rollout": "2", "what": "versions_behind", "a": "1", "b": "0"})), "{told}");
    let table = String::from_utf8(compare(&[]).stdout).unwrap();
    assert!(table.contains(" clock is 5 in a, none in b\n"), "{table}");
    let nowhere = rollstore().arg("diff").arg(&store).arg(folder.path().join("none")).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2), "{}", stderr(&nowhere));
}

#[test]
fn what_is_damaged_is_told_and_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    marked_store(&store);
    flip(&store, &marker(2));
    let segments = look("segments", &store, &[]);
    assert_eq!(segments.status.code(), Some(0), "a column's bytes are no part of it: {}", stderr(&segments));
    let history = look("history", &store, &["2"]);
    assert_eq!(history.status.code(), Some(1));
    assert!(String::from_utf8(history.stdout).unwrap().contains("damaged seg-00000001.log at byte"));
    let other = look("history", &store, &["3"]);
    assert!(stdout(&other).contains(" served "), "damage of another rollout is not its own");
}

#[test]
fn the_help_of_each_shows_how_it_is_used() {
    for command in ["completions", "diff", "group", "history", "log", "ls", "segments", "stat"] {
        let help = stdout(&run([command, "--help"]));
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{command} has no examples"));
        assert!(examples.contains(&format!("  rollstore {command} ")), "{help}");
    }
}

#[test]
fn completions_know_every_command_in_every_shell() {
    let help = stdout(&run(["--help"]));
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let names: Vec<&str> = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(names.contains(&"history"), "{names:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&run(["completions", shell]));
        for name in names.iter().filter(|name| !name.is_empty()) {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    assert_eq!(run(["completions", "tcl"]).status.code(), Some(2));
}
