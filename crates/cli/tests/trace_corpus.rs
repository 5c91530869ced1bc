//! No bytes make the parser of traces panic, and its errors name a line that is there.
//!
//! Method: the function of the fuzz target `trace`, with each file of `fuzz/corpus/trace/` and with each of them cut short
//! or changed in one byte.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/trace.rs"]
mod trace;

fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn the_corpus_of_traces_is_read_or_refused() {
    let corpus = corpus();
    assert!(corpus.len() >= 8, "{} inputs", corpus.len());
    corpus.iter().for_each(|bytes| trace::trace(bytes));
}

#[test]
fn traces_cut_short_are_read_or_refused() {
    for bytes in corpus() {
        (0..bytes.len()).step_by(7).for_each(|len| trace::trace(&bytes[..len]));
    }
}

#[test]
fn traces_changed_in_one_byte_are_read_or_refused() {
    for bytes in corpus() {
        for at in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            trace::trace(&changed);
        }
    }
}
