//! Goal: the inspector shows what is in a store, exactly, and leaves the store as it was. Method: stores made through
//! the library and by a replay are looked at through each command.

mod common;

use std::path::{Path, PathBuf};

use common::{contents, json, json_lines, recorded_trace, rollout_lines, rollstore, stderr, stdout};
use rollstore::{Budget, Column, NewRollout, Plan, Provenance, Query, Results, RolloutStore};
use serde_json::{Value, json};
use tempfile::TempDir;

const LARGE: u64 = (1 << 53) + 1;

/// A store with a fresh, a stale, an out-of-window and a missing rollout, seen from step 20 with window 8 and lag 1.
fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).max_version_lag(1).open(&path)?;
        let values = [-0.0, 1e-45, -17.000_002, -1e-8];
        let old_logps = [-0.5, -1e-8, -17.000_002, -0.25];
        store.insert(NewRollout::new(2, 10).group(LARGE).old_logps(&old_logps[..], 0))?;
        store.advance_ref_version(11, Some(100))?;
        store.insert(NewRollout::new(3, 11).old_logps(&old_logps[..], 1))?;
        store.advance_ref_version(20, Some(101))?;
        store.insert(NewRollout::new(4, 19))?;
        store.insert(
            NewRollout::new(LARGE, 20)
                .reward(0.1)
                .advantage(-1.5)
                .prompt_ids(&[65_535, 65_536, u32::MAX][..])
                .completion_ids(&[1, 2, 3, 4][..])
                .sampler_logps(&[f32::NAN, f32::NEG_INFINITY, -0.0, 1e-45][..])
                .old_logps(&old_logps[..], 2)
                .provenance(Column::SamplerLogps, Provenance::processed("vllm 0.11", 0.7, 0.9, 50))
                .column("entropy", &values[..])
                .version_spans(&[(99, 1), (100, 3)])
                .metadata(b"\x1b[2Jhello\xff"),
        )?;
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

/// Runs a command on a store.
fn look(command: &str, store: &Path, options: &[&str]) -> std::process::Output {
    rollstore().arg(command).arg(store).args(options).output().expect("the program starts")
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["id"].as_str().expect("ids are strings")).collect()
}

#[test]
fn stat_shows_clocks_options_and_counters() {
    let (_folder, store) = store();
    let stat = json(&look("stat", &store, &["--json"]));
    let expected = json!({
        "live": 4, "stale": 1, "out_of_window": 2, "missing": 1, "clock": 20, "ref_version": 2,
        "kl_ref_version": 0, "partials": 0, "window": 8, "max_version_lag": 1, "cursor_bytes": null,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(stat[name], *value, "{name}: {stat}");
    }
    assert_eq!(stat["counters"]["inserted"], 4);
    let table = stdout(&look("stat", &store, &[]));
    for told in ["4 live, 1 stale, 2 out of window, 1 missing", "step 20", "window 8, lag 1 (as last used)"] {
        assert!(table.contains(told), "{told:?} is not in\n{table}");
    }
}

#[test]
fn partial_rollouts_are_counted_and_not_listed() {
    let (_folder, store) = store();
    let writer = RolloutStore::options().open(&store).unwrap();
    for id in [50, 51] {
        writer.begin_partial(NewRollout::new(id, 20)).unwrap();
    }
    writer.append(50.into(), vec![1, 2], vec![-0.5, -0.5], (3, 2)).unwrap();
    writer.close().unwrap();
    assert_eq!(json(&look("stat", &store, &["--json"]))["partials"], 2);
    assert!(stdout(&look("stat", &store, &[])).contains("partials   2"));
    let table = stdout(&look("ls", &store, &[]));
    assert!(table.contains("4 listed, 4 live, 2 partial rollouts still being generated"), "{table}");
}

#[test]
fn diagnose_says_what_keeps_rollouts_from_being_fresh_and_what_would_help() {
    let (_folder, store) = store();
    let told = stdout(&look("diagnose", &store, &[]));
    let expected = " step 20 (the store's clock), window 8 (as last used), lag 1 (as last used)
 1 of 4 rollouts are fresh at step 20
 1 without old_logps: they are computed when they are asked for
 2 out of window: window is 8, 9 would make 1 fresh
 1 stale: no max_version_lag alone would make one fresh, it is 1
 2 rollouts due at step 20
";
    assert_eq!(told, expected);
    let wider = ["--step", "20", "--window", "10", "--lag", "2", "--json"];
    let wider = json(&look("diagnose", &store, &wider));
    assert_eq!((&wider["fresh"], &wider["due"], &wider["window"]), (&3.into(), &0.into(), &10.into()), "{wider}");
    let narrow = json(&look("diagnose", &store, &["--json"]));
    assert_eq!(narrow["window_help"], json!({"at_least": 9, "fresh": 1, "for_all": 9, "all": 1}));
    assert_eq!((&narrow["lag_help"], &narrow["stale"]), (&Value::Null, &1.into()));
    assert_eq!(json(&look("stat", &store, &["--json"]))["window"], 8, "nothing was written");
}

#[test]
fn sweeps_shows_how_far_each_has_come() {
    let (_folder, store) = store();
    assert_eq!(stdout(&look("sweeps", &store, &[])), " no sweep has stored how far it came\n");
    let writer = RolloutStore::options().open(&store).unwrap();
    let compute =
        |work: &Plan| Ok::<_, std::convert::Infallible>(work.ids().map(|id| (id, vec![-0.5; 4])).collect::<Results>());
    writer.sweep("half\u{1b}", Query::All).micro_batch(1).run(20, Budget::rollouts(2), compute).unwrap();
    writer.sweep("whole", Query::CreatedBefore(11)).run(20, Budget::unlimited(), compute).unwrap();
    writer.close().unwrap();
    let sweeps = json_lines(&look("sweeps", &store, &["--json"]));
    let told = |name: &str| sweeps.iter().find(|sweep| sweep["name"] == name).unwrap();
    let half = told("half\u{1b}");
    assert_eq!((&half["finished"], &half["last"], &half["step"]), (&false.into(), &"3".into(), &20.into()), "{half}");
    assert_eq!((&told("whole")["finished"], &told("whole")["last"]), (&true.into(), &Value::Null));
    let table = stdout(&look("sweeps", &store, &[]));
    assert!(table.contains("under way") && table.contains(r"half\u{1b}") && table.contains("finished"), "{table}");
}

#[test]
fn ls_lists_the_oldest_born_first_and_filters() {
    let (_folder, store) = store();
    let large = LARGE.to_string();
    let cases: [(&[&str], &[&str]); 8] = [
        (&[], &["2", "3", "4", &large]),
        (&["--stale"], &["2"]),
        (&["--out-of-window"], &["2", "3"]),
        (&["--missing"], &["4"]),
        (&["--stale", "--missing"], &["2", "4"]),
        (&["--out-of-window", "--step", "19"], &["2"]),
        (&["--out-of-window", "--window", "9"], &["2"]),
        (&["--limit", "2"], &["2", "3"]),
    ];
    for (options, expected) in cases {
        let options = [options, &["--json"]].concat();
        assert_eq!(ids(&json_lines(&look("ls", &store, &options))), expected, "{options:?}");
    }
    let first = &json_lines(&look("ls", &store, &["--json"]))[0];
    assert_eq!(first["group"], LARGE.to_string());
    assert_eq!((&first["age"], &first["versions_behind"]), (&10.into(), &2.into()));
    assert_eq!(
        (&first["stale"], &first["out_of_window"], &first["missing"]),
        (&true.into(), &true.into(), &false.into())
    );
}

#[test]
fn ls_says_which_step_and_window_it_took() {
    let (_folder, store) = store();
    let table = stdout(&look("ls", &store, &["--limit", "1"]));
    assert!(table.contains("step 20 (the store's clock), window 8 (as last used), lag 1 (as last used)"), "{table}");
    assert!(table.contains("the first 1 of 4 listed, 4 live"), "{table}");
    assert!(table.contains("stale,out-of-window"), "{table}");
    let table = stdout(&look("ls", &store, &["--step", "5", "--window", "3"]));
    assert!(table.contains("step 5 (as given), window 3 (as given)"), "{table}");
    assert!(table.contains("from-future"), "{table}");
}

#[test]
fn get_shows_everything_escaped() {
    let (_folder, store) = store();
    let shown = stdout(&look("get", &store, &[&LARGE.to_string()]));
    let told = [
        r"\u{1b}[2Jhello\xff",
        "fresh at step 20 (the store's clock)",
        "vllm 0.11, processed, temperature 0.7, top_p 0.9, top_k 50",
        "NaN -Infinity -0.0 …",
        "65535 65536 4294967295",
        "entropy",
    ];
    for told in told {
        assert!(shown.contains(told), "{told:?} is not in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
}

#[test]
fn get_prints_one_column_a_value_a_line() {
    let (_folder, store) = store();
    let id = LARGE.to_string();
    assert_eq!(stdout(&look("get", &store, &[&id, "--column", "entropy"])), "-0.0\n1e-45\n-17.000002\n-1e-8\n");
    let column = stdout(&look("get", &store, &[&id, "--column", "sampler_logps", "--json"]));
    assert!(column.contains(r#""values":["NaN","-Infinity",-0.0,1e-45]"#), "{column}");
    let absent = look("get", &store, &["4", "--column", "old_logps"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(stderr(&absent).contains("rollout 4 has no column \"old_logps\""), "{}", stderr(&absent));
}

#[test]
fn get_finds_a_rollout_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = RolloutStore::options().window(8).open(&path).unwrap();
    for key in ["req-7f3a", "12", "\u{1b}]0;日本\u{202e}"] {
        store.insert(NewRollout::with_key(key, 1)).unwrap();
    }
    store.close().unwrap();
    for key in ["req-7f3a", "12", "\u{1b}]0;日本\u{202e}"] {
        assert_eq!(json(&look("get", &path, &["--json", "--", key]))["key"], key);
    }
    let listed = stdout(&look("ls", &path, &[]));
    assert!(listed.contains(r"\u{1b}]0;日本\u{202e}") && !listed.contains('\u{1b}'), "{listed}");
    for named in ["-1", "1.5", "18446744073709551616"] {
        let told = stderr(&look("get", &path, &["--", named]));
        assert!(told.contains(&format!("a rollout of the key \"{named}\" is not live")), "{told}");
    }
}

#[test]
fn dump_holds_every_column_of_every_rollout() {
    let (_folder, store) = store();
    let rows = rollout_lines(&look("dump", &store, &[]));
    let large = LARGE.to_string();
    assert_eq!(ids(&rows), ["2", "3", "4", large.as_str()]);
    let row = &rows[3];
    assert_eq!(row["metadata"], json!({ "hex": "1b5b324a68656c6c6fff" }));
    assert_eq!(row["version_spans"], json!([[99, 1], [100, 3]]));
    assert_eq!(row["reward"].to_string(), "0.1");
    let columns = &row["columns"];
    assert_eq!(columns["prompt_ids"]["values"], json!([65_535, 65_536, u32::MAX]));
    assert_eq!(columns["old_logps"]["version"], 2);
    assert_eq!(columns["sampler_logps"]["provenance"]["kind"], "processed");
    assert_eq!(columns["entropy"]["dtype"], "float32");
    assert_eq!(rows[2]["columns"], json!({}));
}

#[test]
fn damage_in_one_column_is_told_and_hides_nothing_else() {
    let (_folder, store) = store();
    let wanted: Vec<u8> = [-0.0_f32, 1e-45, -17.000_002, -1e-8].iter().flat_map(|value| value.to_le_bytes()).collect();
    let (path, mut bytes) = contents(&store)
        .into_iter()
        .find(|(path, bytes)| {
            path.extension().is_some_and(|name| name == "log")
                && bytes.windows(wanted.len()).any(|window| window == wanted)
        })
        .expect("a segment with the column");
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).expect("the column");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("the segment is written");

    let id = LARGE.to_string();
    let dump = look("dump", &store, &[]);
    assert_eq!(dump.status.code(), Some(1));
    let told = stderr(&dump);
    assert!(told.starts_with(&format!("rollstore: rollout {id}: entropy: ")) && told.lines().count() == 1, "{told}");
    let mut rows: Vec<Value> =
        dump.stdout.split(|byte| *byte == b'\n').filter_map(|row| serde_json::from_slice(row).ok()).collect();
    assert_eq!(rows.pop().map(|mark| mark["rollstore"]["damaged"].clone()), Some(json!(1)), "the mark counts it");
    assert_eq!(ids(&rows), ["2", "3", "4", &id]);
    let columns = &rows[3]["columns"];
    assert!(columns["entropy"]["error"].is_string() && columns["entropy"]["values"].is_null(), "{columns}");
    assert_eq!(columns["prompt_ids"]["values"], json!([65_535, 65_536, u32::MAX]));

    let shown = look("get", &store, &[&id]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("NaN -Infinity -0.0 …"));
    assert_eq!(look("get", &store, &[&id, "--column", "entropy"]).status.code(), Some(1));
    assert_eq!(look("get", &store, &[&id, "--column", "old_logps"]).status.code(), Some(0));
    assert_eq!(look("ls", &store, &[]).status.code(), Some(0));
}

#[test]
fn looking_changes_no_byte() {
    let (_folder, store) = store();
    let before = contents(&store);
    for (command, options) in [("stat", &[][..]), ("ls", &[]), ("get", &["2"]), ("dump", &[]), ("verify", &[])] {
        stdout(&look(command, &store, options));
        assert_eq!(contents(&store), before, "{command}");
    }
}

#[test]
fn what_is_no_store_is_named_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for path in [folder.path().join("absent"), folder.path().to_owned(), file] {
        let output = look("stat", &path, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    assert!(!folder.path().join("absent").exists());
}

#[test]
fn a_replayed_store_and_its_checkpoint_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    stdout(&common::replay(&recorded_trace(), &store, &[]));
    assert_eq!(json(&look("stat", &store, &["--json"]))["live"], 32);
    assert_eq!(rollout_lines(&look("dump", &folder.path().join("store.checkpoint"), &[])).len(), 32);
    assert_eq!(stdout(&look("ls", &store, &[])).lines().count(), 4 + 32);
}
