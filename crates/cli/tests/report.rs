//! Goal: a report's figures are those of the store, whatever is in it. Method: what `report --json` prints of stores made
//! through the library and by a replay is compared with `stat --json` and with values computed from the columns.

mod common;

use std::path::{Path, PathBuf};

use common::{files, flip, json, marked_store, recorded_trace, replay, run, stderr, stdout};
use rollstore::{Column, NewRollout, Reason, RolloutStore};
use serde_json::Value;
use tempfile::TempDir;

const HOSTILE: &str = "</script><script>alert(1)</script><!-- \"'& \u{2028}";

/// A store with a rollout of each state, one that ended, and hostile text.
fn store() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store <b>&\"");
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).max_version_lag(1).open(&path)?;
        store.insert(NewRollout::new(1, 10).old_logps(&[-0.5, -0.25][..], 0))?;
        store.insert(NewRollout::new(2, 10).old_logps(&[-0.5, -0.25][..], 0))?;
        store.advance_ref_version(11, Some(100))?;
        store.insert(NewRollout::new(3, 11).old_logps(&[-0.5][..], 1))?;
        store.advance_ref_version(20, Some(101))?;
        store.insert(NewRollout::new(4, 19))?;
        let keyed = NewRollout::with_key(HOSTILE, 20).completion_ids(&[7, 8, 9, 10][..]).loss_mask(&[1, 1, 1, 0][..]);
        let sampler = [f32::NAN, f32::NEG_INFINITY, -0.1, -9.0];
        store.insert(keyed.sampler_logps(&sampler[..]).old_logps(&[-0.5, -0.25, -0.3, -0.1][..], 2))?;
        store.retire(&[1.into()], Reason::Trained)?;
        store.close()
    };
    fill().expect("the store is filled");
    (folder, path)
}

fn replayed() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    stdout(&replay(&recorded_trace(), &path, &[]));
    (folder, path)
}

fn report(store: &Path) -> Value {
    json(&run([Path::new("report"), store, Path::new("--json")]))
}

/// The sum of a field over the bins of a histogram.
fn sum(histogram: &Value, field: &str) -> u64 {
    histogram["bins"].as_array().expect("bins").iter().map(|bin| bin[field].as_u64().expect("a count")).sum()
}

#[test]
fn every_figure_that_stat_has_is_the_same_here() {
    for (_folder, store) in [store(), replayed()] {
        let (report, stat) = (report(&store), json(&run([Path::new("stat"), &store, Path::new("--json")])));
        let buffer = &report["buffer"];
        for name in [
            "live",
            "tokens",
            "stale",
            "out_of_window",
            "missing",
            "clock",
            "ref_version",
            "kl_ref_version",
            "window",
            "max_version_lag",
            "last_lsn",
            "counters",
        ] {
            assert_eq!(buffer[name], stat[name], "{name}");
        }
        let segments = report["segments"].as_array().unwrap();
        let live: u64 = segments.iter().map(|segment| segment["live_bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            (segments.len() as u64, live),
            (stat["segments"].as_u64().unwrap(), stat["live_bytes"].as_u64().unwrap())
        );
        assert_eq!(Value::from(sum(&buffer["lengths"], "count")), stat["live"]);
        for name in ["ages", "lags"] {
            let states = ["fresh", "stale", "out_of_window", "missing", "from_future"];
            let drawn: u64 = states.iter().map(|state| sum(&buffer[name], state)).sum();
            assert_eq!(Value::from(drawn), stat["live"], "{name}");
        }
    }
}

#[test]
fn a_rollout_stands_under_the_first_thing_that_is_wrong_with_it() {
    let (_folder, store) = store();
    let ages = &report(&store)["buffer"]["ages"];
    // 2 is stale and out of window, 3 out of window alone.
    let told = ["fresh", "stale", "out_of_window", "missing"].map(|state| sum(ages, state));
    assert_eq!(told, [1, 1, 1, 1], "{ages}");
}

#[test]
fn the_log_tells_what_happened_at_each_step() {
    let (_folder, store) = store();
    let past = &report(&store)["past"];
    assert_eq!((past["is_complete"].as_bool(), &past["total"]["inserted"]), (Some(true), &5.into()), "{past}");
    let at = |step: u64| past["steps"]["bins"].as_array().unwrap().iter().find(|bin| bin["from"] == step).unwrap();
    assert_eq!((&at(10)["inserted"], &at(20)["retired"]["trained"]), (&2.into(), &1.into()));
    // min(8, 1) + 1: at version 100 two rollouts were live, and 101 is odd.
    assert_eq!(
        (&past["schedule"]["every"], &past["schedule"]["computed"], &at(11)["scheduled"]),
        (&2.into(), &2.into(), &2.into())
    );
}

#[test]
fn a_static_schedule_would_have_computed_what_the_replay_counts() {
    let (folder, store) = replayed();
    let past = &report(&store)["past"];
    let replay = json(&replay(&recorded_trace(), &folder.path().join("again"), &["--json"]));
    assert_eq!(past["schedule"]["every"], replay["every"]);
    // The replay counts work that the crash took back, too: version 42 was reached twice.
    let count = |value: &Value| value.as_u64().unwrap();
    assert_eq!(count(&past["schedule"]["computed"]) + 32, count(&replay["static_modulo_rows"]));
    assert_eq!(past["total"]["computed"], replay["recomputed_rows"]);
    assert_eq!(past["schedule"]["worst"], replay["static_modulo_peak_rows"]);
    assert_eq!(past["worst_computed"], replay["peak_rows_per_step"]);
}

#[test]
fn what_compaction_gave_back_is_not_told_and_said_to_be_missing() {
    let (_folder, store) = replayed();
    stdout(&run([Path::new("compact"), &store]));
    let report = report(&store);
    assert_eq!(report["past"]["is_complete"], false);
    assert!(report["past"]["total"]["inserted"].as_u64() < report["buffer"]["counters"]["inserted"].as_u64());
}

#[test]
fn the_worst_rollouts_are_those_with_the_greatest_difference_of_a_token() {
    let (_folder, path) = replayed();
    let report = report(&path);
    let store = RolloutStore::options().read_only(true).open(&path).unwrap();
    let mut expected: Vec<(f32, u64)> = Vec::new();
    for id in store.ids() {
        let rollout = store.get(id).unwrap().unwrap();
        let pairs = rollout.old_logps().unwrap().iter().zip(rollout.sampler_logps().unwrap());
        let worst = pairs.map(|(old, sampler)| (old - sampler).abs()).fold(0.0, f32::max);
        expected.push((worst, id.get()));
    }
    expected.sort_by(|(a, id_a), (b, id_b)| b.total_cmp(a).then(id_a.cmp(id_b)));
    let told = report["drift"]["worst"].as_array().unwrap();
    assert_eq!(told.len(), 10);
    for (told, (difference, id)) in told.iter().zip(expected) {
        assert_eq!(told["id"], id.to_string());
        // Bit for bit: a number of the JSON is the f32 that it was.
        assert_eq!(told["difference"].to_string().parse::<f32>().unwrap().abs().to_bits(), difference.to_bits());
        let rollout = store.get(id.into()).unwrap().unwrap();
        let at = usize::try_from(told["at"].as_u64().unwrap()).unwrap()
            - usize::try_from(told["first"].as_u64().unwrap()).unwrap();
        assert_eq!(told["differences"][at], told["difference"]);
        assert_eq!(told["token_count"], rollout.old_logps().unwrap().len());
        let first: f32 = told["old_logps"][0].to_string().parse().unwrap();
        let place = usize::try_from(told["first"].as_u64().unwrap()).unwrap();
        assert_eq!(first.to_bits(), rollout.get::<f32>(Column::OldLogps).unwrap()[place].to_bits());
    }
}

#[test]
fn tokens_without_a_difference_are_counted_apart() {
    let (_folder, store) = store();
    let drift = &report(&store)["drift"];
    let counts = ["rollouts", "without", "tokens", "masked", "not_reported", "infinite"]
        .map(|name| drift[name].as_u64().unwrap());
    assert_eq!(counts, [1, 3, 1, 1, 1, 1], "{drift}");
    let worst = &drift["worst"][0];
    assert_eq!((&worst["difference"], &worst["at"], &worst["key"]), (&"Infinity".into(), &1.into(), &HOSTILE.into()));
    assert_eq!((&worst["sampler_logps"][0], &worst["sampler_logps"][1]), (&"NaN".into(), &"-Infinity".into()));
    assert_eq!(worst["old_logps"].to_string(), "[-0.5,-0.25,-0.3,-0.1]");
}

#[test]
fn a_damaged_rollout_is_named_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = RolloutStore::options().window(8).open(&path).unwrap();
    for id in 0..4_u8 {
        let old = f32::from(id) - 9.125;
        store.insert(NewRollout::new(u64::from(id), 0).old_logps(&[old][..], 0).sampler_logps(&[-1.0][..])).unwrap();
    }
    store.close().unwrap();
    flip(&path, &(-7.125_f32).to_le_bytes());
    let output = run([Path::new("report"), &path, Path::new("--json")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["damage"][0]["rollouts"][0], &report["drift"]["rollouts"]), (&"2".into(), &3.into()));
    assert_eq!((report["damage"].as_array().unwrap().len(), &report["buffer"]["live"]), (1, &4.into()));
}

#[test]
fn a_store_that_does_not_open_still_tells_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    marked_store(&store);
    let page = folder.path().join("run.html");
    std::fs::OpenOptions::new().write(true).open(&files(&store, "seg-")[0]).unwrap().set_len(5000).unwrap();
    let output = run([Path::new("report"), &store, Path::new("--json"), Path::new("-o"), &page]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["buffer"].is_null() && report["drift"].is_null(), "{report}");
    assert!(report["past"]["total"]["inserted"].as_u64() > Some(0), "{report}");
    assert!(!report["damage"].as_array().unwrap().is_empty() && page.exists());
}
