//! Goal: a store that an earlier build wrote is read as it was then, by every command, byte for byte; and what programs read
//! from `--json` keeps its shape. Method: the store in `tests/data/golden` is looked at, and what is printed is held against
//! the files beside it. `ROLLSTORE_TEST_BLESS=1` writes them anew: for a change that is meant, and seen in the diff.

mod common;

use std::path::{Path, PathBuf};

use common::{rollstore, stderr, stdout};

/// Names of expected outputs, and the arguments that print them.
const LOOKS: &[(&str, &str)] = &[
    ("stat.txt", "stat store"),
    ("stat.json", "stat store --json"),
    ("ls.txt", "ls store"),
    ("ls.jsonl", "ls store --json"),
    ("ls-columns.jsonl", "ls store --json --columns id,key,age,state"),
    ("get.txt", "get store 9007199254740993"),
    ("get.json", "get store 9007199254740993 --json"),
    ("get-tokens.txt", "get store 9007199254740993 --tokens"),
    ("get-tokens.jsonl", "get store 9007199254740993 --tokens --json"),
    ("get-column.jsonl", "get store 9007199254740993 --column sampler_logps --json"),
    ("dump.jsonl", "dump store"),
    ("group.txt", "group store 8"),
    ("group.json", "group store 8 --json"),
    ("history.txt", "history store prompt-7/sample-2"),
    ("history.jsonl", "history store prompt-7/sample-2 --json"),
    ("log.txt", "log store"),
    ("log.jsonl", "log store --json"),
    ("report.json", "report store --json"),
    ("segments.txt", "segments store"),
    ("segments.jsonl", "segments store --json"),
    ("diff.txt", "diff store store"),
    ("diff.json", "diff store store --json"),
    ("diagnose.txt", "diagnose store"),
    ("diagnose.json", "diagnose store --json"),
    ("sweeps.txt", "sweeps store"),
    ("sweeps.jsonl", "sweeps store --json"),
    ("verify.txt", "verify store"),
    ("verify.json", "verify store --json"),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden")
}

#[test]
fn the_golden_store_looks_as_it_did_when_it_was_made() {
    let bless = std::env::var_os("ROLLSTORE_TEST_BLESS").is_some();
    let mut changed = Vec::new();
    for (name, arguments) in LOOKS {
        let output = rollstore().args(arguments.split(' ')).current_dir(golden()).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments}");
        let (path, given) = (golden().join("expected").join(name), stdout(&output));
        if bless {
            std::fs::write(&path, &given).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if given != expected {
            changed.push(format!("$ rollstore {arguments}\n--- expected\n{expected}--- printed\n{given}"));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn nothing_of_the_golden_store_is_left_unread() {
    let names: Vec<_> =
        std::fs::read_dir(golden().join("expected")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), LOOKS.len(), "{names:?}");
}
