//! Goal: `get --tokens` shows the trainer's log-probs beside the sampler's, token by token, and nothing that is not there.
//! Method: a rollout with all columns and hard values, one with the sampler's alone, one with none, and a damaged one.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{json_lines, rollstore, stderr, stdout};
use rollstore::{NewRollout, RolloutStore};
use serde_json::{Value, json};
use tempfile::TempDir;

fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).open(&path)?;
        store.insert(
            NewRollout::new(1, 0)
                .completion_ids(&[7, 70_000, 9][..])
                .loss_mask(&[1, 1, 0][..])
                .sampler_logps(&[-0.75, f32::NAN, f32::NEG_INFINITY][..])
                .old_logps(&[-0.5, -1.5, -0.125][..], 0)
                .version_spans(&[(4, 1), (5, 2)]),
        )?;
        store.insert(NewRollout::new(2, 0).sampler_logps(&[-0.75][..]))?;
        store.insert(NewRollout::new(3, 0))?;
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

fn tokens(store: &Path, id: &str, options: &[&str]) -> Output {
    rollstore().arg("get").arg(store).args([id, "--tokens"]).args(options).output().expect("the program starts")
}

#[test]
fn each_token_has_its_log_probs_their_difference_and_ratio() {
    let (_folder, store) = store();
    let rows = json_lines(&tokens(&store, "1", &["--json"]));
    let row = |position, token_id, old: f64, sampler: Value, difference: Value, ratio: Value, version, mask| {
        json!({
            "position": position, "token_id": token_id, "old_logp": old, "sampler_logp": sampler, "difference": difference,
            "ratio": ratio, "version": version, "loss_mask": mask,
        })
    };
    // e^0.25 with the digits of an f32.
    let ratio = json!(1.284_025_4);
    assert_eq!(
        rows,
        [
            row(0, 7, -0.5, json!(-0.75), json!(0.25), ratio, 4, 1),
            row(1, 70_000, -1.5, json!("NaN"), json!("NaN"), json!("NaN"), 5, 1),
            row(2, 9, -0.125, json!("-Infinity"), json!("Infinity"), json!("Infinity"), 5, 0),
        ]
    );
    let table = stdout(&tokens(&store, "1", &[]));
    let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[1], ["0", "7", "-0.5", "-0.75", "0.25", "1.2840254", "4", "1"]);
    assert_eq!(cells.len(), 4);
}

#[test]
fn what_a_rollout_does_not_have_is_null() {
    let (_folder, store) = store();
    let rows = json_lines(&tokens(&store, "2", &["--json"]));
    let absent = ["token_id", "old_logp", "difference", "ratio", "version", "loss_mask"];
    assert_eq!(rows.len(), 1);
    assert!(absent.iter().all(|name| rows[0][name].is_null()), "{}", rows[0]);
    let none = tokens(&store, "3", &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("rollout 3 has no column with a value a token"), "{}", stderr(&none));
}

#[test]
fn a_damaged_column_is_told_and_hides_no_other() {
    let (_folder, store) = store();
    let old_logps: Vec<u8> = [-0.5_f32, -1.5, -0.125].iter().flat_map(|value| value.to_le_bytes()).collect();
    let damage = |path: PathBuf| {
        let mut bytes = std::fs::read(&path).ok()?;
        let at = bytes.windows(old_logps.len()).position(|window| window == old_logps)?;
        bytes[at] ^= 1;
        std::fs::write(path, bytes).ok()
    };
    let files = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files.filter_map(damage).count(), 1, "one file holds the array");
    let output = tokens(&store, "1", &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("rollout 1: old_logps: "), "{}", stderr(&output));
    let rows: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["old_logp"], &rows[0]["sampler_logp"]), (&Value::Null, &json!(-0.75)));
}
