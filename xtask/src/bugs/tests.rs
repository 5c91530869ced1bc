//! Goal: the table, the planted bugs and the document tell the same, and a test that did not run counts for nothing.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use super::table::NOT_YET;
use super::*;

/// The text of a file of the project.
fn document(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The bugs of `src/planted.rs`, each with what its comment says.
fn planted() -> Vec<(String, String)> {
    let source = document("src/planted.rs");
    let body = source.split("pub(crate) enum Bug {\n").nth(1).unwrap().split("\n}").next().unwrap();
    let mut says = String::new();
    let mut bugs = Vec::new();
    for line in body.lines().map(str::trim) {
        match (line.strip_prefix("/// "), line.strip_suffix(',')) {
            (Some(text), _) => says.push_str(text),
            (None, Some(name)) => bugs.push((name.to_owned(), std::mem::take(&mut says))),
            (None, None) => {}
        }
    }
    bugs
}

#[test]
fn every_planted_bug_has_its_test() {
    let named: Vec<String> = planted().into_iter().map(|(name, _)| name).collect();
    let mut checked: Vec<&str> = TABLE.iter().map(|row| row.bug).chain(NOT_YET.iter().copied()).collect();
    let order = |name: &&str| named.iter().position(|planted| planted == name);
    checked.sort_by_key(order);
    assert_eq!(checked, named, "src/planted.rs and the table");
    assert!(TABLE.len() >= 16);
}

#[test]
fn every_bug_of_the_table_is_planted_somewhere() {
    let mut pending = vec![root().join("src")];
    let mut text = String::new();
    while let Some(dir) = pending.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                text.push_str(&document(&path));
            }
        }
    }
    let missing: Vec<_> = TABLE.iter().filter(|row| !text.contains(&format!("planted(Bug::{})", row.bug))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_document_shows_the_table() {
    let says: BTreeMap<String, String> = planted().into_iter().collect();
    let line = |row: &Row| {
        let (bug, promise, file, test) = (row.bug, row.promise, row.file, row.test);
        format!("| `{bug}`: {} | {promise} | `{file}::{test}` |\n", says[bug].trim_end_matches('.'))
    };
    let wanted: String = TABLE.iter().map(line).collect();
    let document = document("docs/durability.md");
    assert!(document.contains(&wanted), "docs/durability.md is to hold:\n{wanted}");
}

#[test]
fn a_test_that_did_not_run_or_died_neither_passed_nor_failed() {
    let exit = |code| Some(ExitStatus::from_raw(code << 8));
    let (passed, failed) = ("test result: ok. 1 passed; 0 failed;", "test result: FAILED. 0 passed; 1 failed;");
    assert_eq!(ended(exit(0), passed), Ended::Passed);
    assert_eq!(ended(exit(101), failed), Ended::Failed);
    let none = "test result: ok. 0 passed; 0 failed;";
    let aborted = Some(ExitStatus::from_raw(6));
    for (status, output) in [(exit(0), none), (aborted, failed), (None, failed), (exit(101), "thread panicked")] {
        assert!(matches!(ended(status, output), Ended::Otherwise(_)), "{status:?} {output}");
    }
}
