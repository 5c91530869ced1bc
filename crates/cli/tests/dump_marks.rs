//! `load` takes a dump whole or not at all: one that was cut, changed, saved by another program, or made to harm is refused
//! with exit code 2 and one line, and no store appears.
//!
//! Method: files of every format are spoiled in each way; headers that lie are written by hand, some with a right checksum.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::rich::fill;
use common::{rollstore, stderr, stdout};
use rollstore::RolloutStore;

const FORMATS: [&str; 3] = ["jsonl", "parquet", "safetensors"];

struct Dumps {
    dir: tempfile::TempDir,
}

impl Dumps {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fill(&store);
        for format in FORMATS {
            let file = dir.path().join(format!("whole.{format}"));
            stdout(&rollstore().arg("dump").arg(&store).arg("-o").arg(file).output().unwrap());
        }
        Self { dir }
    }

    fn whole(&self, format: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(format!("whole.{format}"))).unwrap()
    }

    /// Loads these bytes, which must be refused, and gives what was said.
    fn refused(&self, bytes: &[u8], what: &str) -> String {
        let (file, store) = (self.dir.path().join("spoiled"), self.dir.path().join("loaded"));
        fs::write(&file, bytes).unwrap();
        let output = rollstore().arg("load").arg(&file).arg("-o").arg(&store).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{what}: {said}");
        assert!(!store.exists() && !has_leftovers(self.dir.path()), "{what}: something was left behind");
        assert_eq!(said.lines().count(), 1, "{what}: {said}");
        said
    }
}

fn has_leftovers(dir: &Path) -> bool {
    dir.read_dir().unwrap().any(|entry| entry.unwrap().file_name().as_encoded_bytes().starts_with(b"."))
}

#[test]
fn a_cut_file_is_refused_wherever_it_was_cut() {
    let dumps = Dumps::new();
    for format in FORMATS {
        let whole = dumps.whole(format);
        for len in [0, 1, 8, 9, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
            dumps.refused(&whole[..len], &format!("{format} cut to {len} bytes"));
        }
    }
}

#[test]
fn a_changed_byte_is_refused_wherever_it_stands() {
    let dumps = Dumps::new();
    for format in FORMATS {
        let whole = dumps.whole(format);
        for at in (0..whole.len()).step_by(whole.len() / 23) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            dumps.refused(&changed, &format!("{format} changed at {at}"));
        }
    }
}

#[test]
fn a_line_taken_out_or_added_is_refused() {
    let dumps = Dumps::new();
    let whole = String::from_utf8(dumps.whole("jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without = [&lines[..1], &lines[2..]].concat().join("\n") + "\n";
    assert!(dumps.refused(without.as_bytes(), "without a line").contains("it was cut or changed"));
    let twice = [&lines[..1], &lines[..]].concat().join("\n") + "\n";
    assert!(dumps.refused(twice.as_bytes(), "a line twice").contains("it was cut or changed"));
    let markless = lines[..lines.len() - 1].join("\n") + "\n";
    assert!(dumps.refused(markless.as_bytes(), "without a mark").contains("its last line is no mark"));
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let dumps = Dumps::new();
    for format in FORMATS {
        let mut longer = dumps.whole(format);
        longer.extend(b"{}\n");
        dumps.refused(&longer, format);
    }
}

#[test]
fn a_file_of_no_known_format_is_refused_by_name() {
    let dumps = Dumps::new();
    let said = dumps.refused(b"id,reward\n1,0.5\n", "CSV");
    assert!(said.contains("spoiled: it is no JSON Lines, Parquet or safetensors file"), "{said}");
}

/// A file with its checksum made right again: the digits begin at `at`.
fn sealed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at..at + 8].copy_from_slice(b"00000000");
    let digits = format!("{:08x}", crc32fast::hash(&bytes));
    bytes[at..at + 8].copy_from_slice(digits.as_bytes());
    bytes
}

fn find(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).rposition(|window| window == text.as_bytes()).unwrap() + text.len()
}

#[test]
fn lengths_that_lie_are_refused_though_the_checksum_is_right() {
    let dumps = Dumps::new();
    let whole = dumps.whole("safetensors");
    let digits = find(&whole, "\"rollstore.crc32\":\"");
    let header_bytes = usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    for huge in [u64::MAX, 100_000_001, whole.len() as u64] {
        let mut lying = whole.clone();
        lying[..8].copy_from_slice(&huge.to_le_bytes());
        assert!(dumps.refused(&sealed(lying, digits), "header").contains("its header has"));
    }
    // Offsets of the first list of values that go backwards, or to the end of all numbers.
    let header: serde_json::Value = serde_json::from_slice(&whole[8..8 + header_bytes]).unwrap();
    let begin = header["completion_ids.offsets"]["data_offsets"][0].as_u64().unwrap();
    let offsets = 8 + header_bytes + usize::try_from(begin).unwrap();
    for lie in [-1_i64, i64::MAX, i64::from(u32::MAX) * 16, 1 << 28] {
        let mut lying = whole.clone();
        lying[offsets + 8..offsets + 16].copy_from_slice(&lie.to_le_bytes());
        dumps.refused(&sealed(lying, digits), &format!("offset {lie}"));
    }
}

#[test]
fn a_file_with_any_byte_forged_and_the_checksum_made_right_is_loaded_or_refused_in_one_line() {
    const FORGED: usize = 60;
    let dumps = Dumps::new();
    for (format, digits) in [
        ("jsonl", "\"rollstore.crc32\":\""),
        ("parquet", "rollstore.crc32\u{18}\u{8}"),
        ("safetensors", "\"rollstore.crc32\":\""),
    ] {
        let whole = dumps.whole(format);
        let digits = find(&whole, digits);
        let (file, store) = (dumps.dir.path().join("forged"), dumps.dir.path().join("loaded"));
        let places = (0..whole.len()).step_by(whole.len() / FORGED).filter(|at| !(digits..digits + 8).contains(at));
        for at in places {
            for flipped in [1, 0x80, 0xff] {
                let mut forged = whole.clone();
                forged[at] ^= flipped;
                fs::write(&file, sealed(forged, digits)).unwrap();
                let output = rollstore().arg("load").arg(&file).arg("-o").arg(&store).output().unwrap();
                let (code, said) = (output.status.code(), stderr(&output));
                match code {
                    Some(0) => fs::remove_dir_all(&store).unwrap(),
                    Some(2) => assert_eq!(said.lines().count(), 1, "{format}, byte {at} ^ {flipped}: {said}"),
                    other => panic!("{format}, byte {at} ^ {flipped}: {other:?}: {said}"),
                }
                assert!(!store.exists(), "{format}, byte {at} ^ {flipped}: a store beside an error");
            }
        }
    }
}

/// The JSON Lines of one rollout, with a mark that says so many rows.
fn lines(rollouts: &[&str], rows: u64) -> Vec<u8> {
    let line = r#"{"lineage":[[0,0]],"next":1}"#;
    let store =
        format!(r#"{{"window":8,"max_version_lag":0,"step":null,"ref_versions":{line},"kl_ref_versions":{line}}}"#);
    let mark = format!(
        r#"{{"rollstore.crc32":"00000000","rollstore":{{"version":1,"rows":{rows},"damaged":0,"store":{store}}}}}"#
    );
    let bytes = [rollouts, &[&mark]].concat().join("\n").into_bytes();
    let bytes = [bytes, b"\n".to_vec()].concat();
    let digits = find(&bytes, "\"rollstore.crc32\":\"");
    sealed(bytes, digits)
}

#[test]
fn rollouts_that_no_store_takes_are_refused_with_their_place() {
    let dumps = Dumps::new();
    let one = r#"{"id":"1","columns":{"old_logps":{"dtype":"float32","values":[-0.5]}}}"#;
    for (rollouts, rows, told) in [
        (vec![one, one], 2, "rollout 1 stands in this batch already"),
        (vec![one], 2, "it holds 1 rollouts, its mark says 2"),
        (vec![one], 0, "it holds 1 rollouts, its mark says 0"),
        (vec![r#"{"id":1}"#], 1, "line 1: invalid type: integer `1`, expected a string"),
        (vec![r#"{"id":"-1"}"#], 1, "line 1: \"-1\" is no id"),
        (vec![r#"{"id":"1","key":"other"}"#], 1, "key \"other\" names another id"),
        (vec![r#"{"id":"1","born_step":18446744073709551615}"#], 1, "is no step"),
        (vec![r#"{"id":"1","ref_version":5}"#], 1, "version 5, which was never issued"),
        (vec![r#"{"id":"1","columns":{"x":{"dtype":"float64","values":[1]}}}"#], 1, "there is no type \"float64\""),
        (vec![r#"{"id":"1","columns":{"x":{"dtype":"uint8","values":[256]}}}"#], 1, "value 0 is 256"),
        (vec![r#"{"id":"1","columns":{"x":{"dtype":"uint8","values":[[1]]}}}"#], 1, "value 0 is [1]"),
        (vec![r#"{"id":"1","columns":{"x":{"dtype":"uint8"}}}"#], 1, "there are no values"),
        (vec![r#"{"id":"1","columns":{"kl_ref_logps":{"dtype":"float32","values":[]}}}"#], 1, "without their version"),
        (vec![r#"{"id":"1","first_old_logps":[-0.5]}"#], 1, "first old_logps"),
        (vec![r#"{"id":"1","columns":[[[["#], 1, "line 1:"),
    ] {
        let said = dumps.refused(&lines(&rollouts, rows), told);
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn clocks_that_contradict_themselves_are_refused() {
    let dumps = Dumps::new();
    let sound = lines(&[], 0);
    let loads = dumps.dir.path().join("sound.jsonl");
    fs::write(&loads, &sound).unwrap();
    let store = dumps.dir.path().join("sound");
    stdout(&rollstore().arg("load").arg(&loads).arg("-o").arg(&store).output().unwrap());
    assert!(RolloutStore::options().read_only(true).open(&store).is_ok_and(|store| store.is_empty()));
    for (from, to) in [
        ("\"next\":1", "\"next\":0"),
        ("\"lineage\":[[0,0]]", "\"lineage\":[]"),
        ("\"lineage\":[[0,0]]", "\"lineage\":[[1,0]]"),
        ("\"next\":1", "\"next\":18446744073709551615"),
        ("\"version\":1", "\"version\":2"),
    ] {
        let text = String::from_utf8(sound.clone()).unwrap().replace(from, to).into_bytes();
        let digits = find(&text, "\"rollstore.crc32\":\"");
        dumps.refused(&sealed(text, digits), to);
    }
}

#[test]
fn one_bad_file_of_many_lets_none_of_them_in() {
    let dumps = Dumps::new();
    let (bad, store) = (dumps.dir.path().join("bad"), dumps.dir.path().join("loaded"));
    fs::write(&bad, &dumps.whole("parquet")[..500]).unwrap();
    let whole: PathBuf = dumps.dir.path().join("whole.jsonl");
    let output = rollstore().arg("load").args([&whole, &bad]).arg("-o").arg(&store).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!store.exists());
}
