//! Goal: a bad trace ends the replay with exit code 2 and one line that names the file, the line and the trouble.
//! Method: one trace a kind of trouble.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};

use common::{access, event, json, put, stderr, write_trace};

fn replay(trace: &Path, options: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().expect("a directory");
    let options: Vec<&str> = ["--json"].iter().chain(options).copied().collect();
    common::replay(trace, &folder.path().join("store"), &options)
}

/// Replays a bad trace and gives its one line of error.
fn told(trace: &Path, options: &[&str]) -> String {
    let output = replay(trace, options);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("rollstore: "), "{told}");
    assert!(output.stdout.is_empty());
    told
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    let good = [event("header", 0), put(1, 0), access(1, 0)];
    let cases = [
        (r#"{"e":"access","v":0,"#.to_owned(), "line 4: column 20: EOF while parsing"),
        (event("teleport", 0), "line 4: unknown event \"teleport\""),
        (event("\\u001b[2J", 0), r#"line 4: unknown event "\u{1b}[2J""#),
        (access(2, 0), "line 4: rollout 2 is not live"),
        (put(1, 0), "line 4: rollout 1"),
        (event("resume", 0), "line 4: nothing was saved to resume from"),
        (r#"{"e":"version"}"#.to_owned(), "line 4: a version event needs the field `v`"),
        (
            r#"{"e":"put","v":0,"id":3,"completion":[-100]}"#.to_owned(),
            "line 4: column 42: invalid value: integer `-100`",
        ),
        (r#"{"e":"put","v":0,"id":3,"completion":[1],"old_lp":"0000c07f"}"#.to_owned(), "line 4: rollout 3"),
        ("\u{feff}{}".to_owned(), "line 4: column 1: expected value"),
    ];
    for (line, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = good.to_vec();
        lines.extend([line, event("end", 0)]);
        let told = told(&write_trace(folder.path(), &lines), &[]);
        assert!(told.contains(expected) && told.contains("trace.jsonl"), "{expected:?} is not in {told:?}");
    }
}

#[test]
fn an_event_without_the_step_of_the_clock_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"e":"put","v":0,"id":1,"completion":[]}"#.to_owned();
    let trace = write_trace(folder.path(), &[line]);
    assert!(told(&trace, &["--clock", "micro"]).contains("line 1: the event needs the field `micro`"));
    assert_eq!(json(&replay(&trace, &["--clock", "v"]))["inserted"], 1);
}

#[test]
fn what_is_no_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert!(told(&folder.path().join("absent"), &[]).contains("absent: No such file"));
    assert!(told(folder.path(), &[]).contains("is a directory"));
    assert!(told(&file("empty", b""), &[]).contains("empty: holds no events"));
    assert!(told(&file("binary", &[0, 159, 146, 150]), &[]).contains("binary: line 1: column 1"));

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all((put(1, 0) + "\n" + &access(1, 0) + "\n").as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    assert!(told(&file("cut", &packed[..packed.len() - 9]), &[]).contains("could not be read"));
    let mut rotten = packed.clone();
    let end = rotten.len() - 6;
    rotten[end] ^= 0xff;
    assert!(told(&file("rotten", &rotten), &[]).contains("could not be read"));
}

#[test]
fn a_line_without_an_end_is_refused_at_the_limit() {
    use rollstore_cli::trace::{LINE_BYTES_MAX, TraceReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endless.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..=(LINE_BYTES_MAX >> 20) {
        packed.write_all(&piece).unwrap();
    }
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let error = TraceReader::open(&path).unwrap().next_line().unwrap_err();
    assert_eq!(error.line(), Some(1));
    assert!(error.to_string().contains("longer than 67108864 bytes"), "{error}");
}

#[test]
fn long_and_empty_completions_and_wide_token_ids_are_replayed() {
    for token_count in [0, 65_535, 65_536, 65_537, 131_072] {
        let folder = tempfile::tempdir().unwrap();
        let tokens = vec!["4294967295"; token_count].join(",");
        let old = common::hex(&vec![-0.5; token_count]);
        let lp = common::hex(&vec![-0.75; token_count]);
        let id = u64::from(u32::MAX) + 1;
        let lines = [
            format!(r#"{{"e":"put","v":0,"id":{id},"completion":[{tokens}],"old_lp":"{old}"}}"#),
            event("version", 1),
            format!(r#"{{"e":"access","v":1,"ids":[{id}],"lp":["{lp}"]}}"#),
        ];
        let report = json(&replay(&write_trace(folder.path(), &lines), &["--lag", "0"]));
        let bytes: Vec<u8> = std::iter::repeat_n((-0.75_f32).to_le_bytes(), token_count).flatten().collect();
        assert_eq!(report["recomputed_rows"], 1);
        assert_eq!(report["values_crc32"], format!("{:08x}", crc32fast::hash(&bytes)));
    }
}

#[test]
fn another_trace_or_other_options_do_not_go_on_in_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let replay = |trace: &Path, window: &str| common::replay(trace, &store, &["--window", window]);
    let trace = write_trace(folder.path(), &[put(1, 0), access(1, 0)]);
    assert!(replay(&trace, "8").status.success());
    assert_eq!(replay(&trace, "9").status.code(), Some(2));
    let other = write_trace(folder.path(), &[put(2, 0), access(2, 0)]);
    let output = replay(&other, "8");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not the trace that was replayed before"), "{}", stderr(&output));
}
