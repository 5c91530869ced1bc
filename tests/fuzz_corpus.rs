//! Inputs that fuzzing found or began with, and random ones, hold on a stable compiler (D1 to D6, D8, D9, D11).
//!
//! Method: the functions that the fuzz targets call, with each file of `fuzz/corpus/` and with inputs from a fixed seed;
//! `ROLLSTORE_TEST_SCALE` multiplies those. A failure prints the input in hexadecimal and the command that repeats it.
//! `fuzz/corpus/trace/` is replayed by the command line's own tests, whose parser it is for.

use std::fmt::Write;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use rollstore_testkit::fuzz::{TARGETS, Target, seeds};
use rollstore_testkit::settings;

/// Runs a target on one input; where it panics, tells how to have that again.
fn run(name: &str, target: Target, input: &[u8], repeat: impl FnOnce() -> String) {
    if let Err(cause) = panic::catch_unwind(|| target(input)) {
        let repeat = repeat();
        eprintln!("again: ROLLSTORE_FUZZ_INPUT={name}:{repeat} cargo test -p rollstore --test fuzz_corpus one_input");
        panic::resume_unwind(cause);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|(target, _)| *target == name).expect("a target of this name").1
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(name: &str) {
    let files = corpus(name);
    assert!(files.len() >= 8, "{} inputs in the corpus of {name}", files.len());
    for path in files {
        run(name, target(name), &fs::read(&path).unwrap(), || format!("@{}", path.display()));
    }
}

fn random(name: &str, count: u64, len_max: u64) {
    for place in 0..count * settings::scale() {
        let seed = settings::random(settings::seed(), place);
        let len = usize::try_from(seed % len_max).unwrap();
        let input = seeds::random_bytes(seed, len);
        run(name, target(name), &input, || hex(&input));
    }
}

#[test]
fn the_corpus_of_segments_holds() {
    replay("segment");
}

#[test]
fn the_corpus_of_manifests_holds() {
    replay("manifest");
}

#[test]
fn the_corpus_of_changed_files_holds() {
    replay("frame");
}

#[test]
fn the_corpus_of_operations_holds() {
    replay("ops");
}

#[test]
fn random_changes_to_a_stores_files_are_refused_or_harmless() {
    random("frame", 2000, 40);
}

#[test]
fn random_operations_with_faults_agree_with_the_model() {
    random("ops", 2000, 300);
}

/// The input of `ROLLSTORE_FUZZ_INPUT`, as a failure of another test prints it: `TARGET:HEX`, or `TARGET:@FILE`.
#[test]
fn one_input_from_the_environment_holds() {
    let Ok(input) = std::env::var("ROLLSTORE_FUZZ_INPUT") else { return };
    let (name, input) = input.split_once(':').expect("TARGET:INPUT");
    let byte = |at: usize| u8::from_str_radix(&input[at..at + 2], 16).expect("hexadecimal digits");
    let bytes = match input.strip_prefix('@') {
        Some(path) => fs::read(path).unwrap(),
        None => (0..input.len() / 2 * 2).step_by(2).map(byte).collect(),
    };
    target(name)(&bytes);
}

#[test]
fn the_corpus_is_small() {
    let bytes: u64 = TARGETS.iter().flat_map(|(name, _)| corpus(name)).map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes < 200_000, "{bytes} bytes in fuzz/corpus");
}
