//! Goal: a replay of the recorded run computes exactly what the rules of window and lag ask for, and serves exactly the
//! bits that they lead to. Method: the program is run at each setting; every number is compared with one that was
//! found by a separate reading of the trace.

mod common;

use std::path::Path;

use common::{json, recorded_trace, stdout};
use serde_json::Value;

struct Case {
    options: &'static [&'static str],
    served: u64,
    recomputed: u64,
    static_rows: u64,
    peak: u64,
    crc32: &'static str,
}

const CASES: [Case; 9] = [
    case(&[], 2264, 88, 1056, 8, "69d6ac95"),
    case(&["--window", "2", "--lag", "0"], 624, 1728, 3168, 24, "6ad27277"),
    case(&["--window", "2", "--lag", "1"], 1512, 840, 1600, 24, "96086cfc"),
    case(&["--window", "2", "--lag", "3"], 2264, 88, 1056, 8, "69d6ac95"),
    case(&["--mode", "snapshot"], 2352, 0, 1056, 0, "f3578c37"),
    case(&["--clock", "micro", "--window", "4", "--lag", "1"], 1400, 952, 1600, 24, "bf30e8c3"),
    case(&["--clock", "micro", "--window", "1", "--lag", "4"], 592, 1760, 1600, 24, "9359afa9"),
    case(&["--clock", "micro", "--window", "6", "--lag", "2"], 2064, 288, 1056, 8, "58cbc230"),
    case(&["--clock", "micro", "--window", "2", "--lag", "6"], 896, 1456, 1056, 24, "911ff983"),
];

const fn case(
    options: &'static [&'static str],
    served: u64,
    recomputed: u64,
    static_rows: u64,
    peak: u64,
    crc32: &'static str,
) -> Case {
    Case { options, served, recomputed, static_rows, peak, crc32 }
}

fn replay(trace: &Path, options: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a directory");
    let options: Vec<&str> = ["--json"].iter().chain(options).copied().collect();
    json(&common::replay(trace, &folder.path().join("store"), &options))
}

#[test]
fn every_setting_gives_its_numbers() {
    for Case { options, served, recomputed, static_rows, peak, crc32 } in CASES {
        let report = replay(&recorded_trace(), options);
        let expected = serde_json::json!({
            "served_rows": served,
            "recomputed_rows": recomputed,
            "static_modulo_rows": static_rows,
            "static_modulo_peak_rows": 32,
            "peak_rows_per_step": peak,
            "values_crc32": crc32,
            "inserted": 1184,
            "access_rows": 2352,
            "retired": 1152,
            "advances": 99,
            "checkpoints": 2,
            "crashes": 1,
            "restores": 1,
            "live": 32,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(report[name], *value, "{name} at {options:?}: {report}");
        }
    }
}

#[test]
fn the_static_schedule_follows_every() {
    assert_eq!(replay(&recorded_trace(), &["--every", "1"])["static_modulo_rows"], 3168);
    assert_eq!(replay(&recorded_trace(), &["--every", "1000"])["static_modulo_rows"], 0);
}

#[test]
fn the_table_says_what_the_object_says() {
    let folder = tempfile::tempdir().unwrap();
    let table = stdout(&common::replay(&recorded_trace(), &folder.path().join("store"), &[]));
    let told = [
        "window 8, lag 2, clock v",
        "both at the same bound: no served log-prob is more than 2 versions old",
        "static, every 3",
        "1,056          88    91 %",
        "111,665      10,019    91 %",
        "32           8    75 %",
        "2,352 rows: 2,264 as stored, 88 computed first; values crc32 69d6ac95",
        "1,184 inserted, 1,152 retired, 32 live; 99 advances",
        "1 crash, nothing lost; 2 checkpoints, 1 restore",
    ];
    for line in told {
        assert!(table.contains(line), "{line:?} is not in\n{table}");
    }
}

#[test]
fn plain_and_packed_traces_give_the_same() {
    use std::io::Read;
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::read(recorded_trace()).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut plain).unwrap();
    let trace = folder.path().join("plain");
    std::fs::write(&trace, plain).unwrap();
    assert_eq!(replay(&trace, &[])["values_crc32"], "69d6ac95");
}
