//! Goal: docs/cli.md shows what the program prints. Method: every `$` line of its console blocks is run by a shell, in
//! order and in one folder, and what it prints is compared with the lines below it. Sizes, places in files and checksums
//! may differ: they change with what is stored beside them.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{run, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/cli.md")).expect("docs/cli.md")
}

/// A command of the document, and what it is said to print.
struct Example {
    command: String,
    printed: String,
}

fn examples(document: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in document.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => examples.push(Example { command: command.to_owned(), printed: String::new() }),
                (None, Some(example)) => example.printed.extend([line, "\n"]),
                (None, None) => panic!("a console block begins with a command, not with {line:?}"),
            }
        }
    }
    examples
}

/// The text with what may change from build to build written as `_`: hexadecimal numbers, and the numbers before or
/// behind a word that says what they measure; and seconds that have passed.
fn normalised(text: &str) -> String {
    let line = |line: &str| -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let is_volatile = |at: usize| {
            let word = words[at];
            let is_number = word.starts_with(|first: char| first.is_ascii_digit());
            let unit =
                words.get(at + 1).is_some_and(|next| ["B", "KiB", "MiB", "B,", "KiB,", "MiB,", "bytes"].contains(next));
            let place = at > 0 && ["byte", "lsn"].contains(&words[at - 1]);
            let total = at > 2 && words[at - 1] == "of" && words[at - 3] == "lsn";
            let seconds = |at: usize| words.get(at).is_some_and(|word| ["second", "seconds"].contains(word));
            let ago = words.get(at + 1) == Some(&"ago") && seconds(at);
            word.starts_with("0x") || ago || is_number && (unit || place || total || seconds(at + 1))
        };
        (0..words.len()).map(|at| if is_volatile(at) { "_" } else { words[at] }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).map(|line| normalised_json(&line) + "\n").collect()
}

/// The same for the fields of an object.
fn normalised_json(line: &str) -> String {
    let mut line = line.to_owned();
    for name in ["\"bytes\":", "\"last_lsn\":"] {
        if let Some((before, after)) = line.split_once(name) {
            line = format!("{before}{name}_{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()));
        }
    }
    line
}

#[test]
fn every_example_prints_what_the_document_shows() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("tests"), folder.path().join("tests")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_rollstore")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(program.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let path = path.unwrap();
    let examples = examples(&document());
    assert!(examples.len() >= 15, "{} examples", examples.len());
    // A program that was built without object storage knows no URLs.
    let is_known = |example: &Example| cfg!(feature = "object-store") || !example.command.contains("://");
    for Example { command, printed } in examples.into_iter().filter(is_known) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec 2>&1; {command}")).current_dir(&folder).env("PATH", &path);
        let output = shell.env_remove("COLUMNS").output().expect("a shell");
        let given = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(normalised(&given), normalised(&printed), "$ {command}\n{given}");
    }
}

#[test]
fn every_command_has_a_chapter_and_every_example_a_command() {
    let document = document();
    let help = stdout(&run(["--help"]));
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    // A line that is further in goes on with the one before.
    let commands = commands.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = commands.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let chapter =
            document.split(&format!("\n## {name}\n")).nth(1).unwrap_or_else(|| panic!("no chapter of {name}"));
        let chapter = chapter.split("\n## ").next().unwrap();
        assert!(chapter.contains(&format!("$ rollstore {name} ")), "the chapter of {name} shows no example");
        assert!(document.contains(&format!("| [`{name}`](#{name}) |")), "{name} is not in the table");
    }
}

#[test]
fn only_what_may_change_is_left_out_of_the_comparison() {
    let cases = [
        (" log        2.8 MiB in 3 segments", " log        _ MiB in 3 segments"),
        (" seg-00000005.log at byte 1713216", " seg-00000005.log at byte _"),
        ("   expected  checksum 0x7f9476ad", "   expected  checksum _"),
        (" durable up to lsn 12 of 34", " durable up to lsn _ of _"),
        (" born 2 steps ago, seen 1 second ago", " born 2 steps ago, seen _ _ ago"),
        (" 32 live, 0 stale", " 32 live, 0 stale"),
        (r#"{"frames":6,"bytes":12,"last_lsn":6}"#, r#"{"frames":6,"bytes":_,"last_lsn":_}"#),
    ];
    for (text, expected) in cases {
        assert_eq!(normalised(text), format!("{expected}\n"));
    }
}
