//! The rooms of the library, and who may enter which: a lower one never imports a higher one, siblings never each other.
//!
//! Method: the paths in the sources are read and held against the table of the architecture. No parser: the rules of
//! formatting that the project keeps make every import a line of its own kind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each room with the rooms that it may import, itself aside.
const ROOMS: &[(&str, &[&str])] = &[
    ("ids", &[]),
    ("limits", &[]),
    ("reason", &[]),
    ("error", &["ids"]),
    ("format", &["error", "ids", "limits"]),
    ("disk", &["error", "ids", "limits"]),
    ("log", &["format", "disk", "error", "ids", "limits", "reason"]),
    ("index", &["format", "disk", "error", "ids", "limits", "reason"]),
    ("state", &["log", "format", "error", "ids", "limits", "reason"]),
    ("recovery", &["state", "log", "index", "format", "disk", "error", "ids", "limits", "reason"]),
    ("rules", &["index", "format", "error", "ids"]),
    // It only reads, and knows nothing of the store, which offers its reports and repairs by them.
    (
        "store",
        &[
            "inspect", "rules", "recovery", "state", "log", "index", "format", "disk", "error", "ids", "limits",
            "reason",
        ],
    ),
    ("inspect", &["rules", "recovery", "state", "log", "index", "format", "disk", "error", "ids", "limits", "reason"]),
];

/// Each may be entered from everywhere, and none imports anything.
const EVERYWHERE: &[&str] = &["planted", "sync"];

/// Words that may occur in one room alone.
const CONFINED: &[(&str, &str)] = &[
    ("redb::", "index"),
    ("memmap2::", "disk"),
    ("rustix::", "disk"),
    ("libc::", "disk"),
    ("std::fs", "disk"),
    ("fs::File", "disk"),
    ("rkyv::", "format"),
];

const FILE_LINES_MAX: usize = 500;

struct Source {
    /// Relative to `src`.
    path: PathBuf,
    text: String,
}

impl Source {
    fn room(&self) -> String {
        let first = self.path.components().next().unwrap();
        Path::new(first.as_os_str()).file_stem().unwrap().to_str().unwrap().to_owned()
    }

    /// Lines of code with their numbers; comments and what stands behind `//` are left out.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")));
        lines.filter(|(_, line)| !line.trim().is_empty())
    }

    /// Modules between the crate's root and this file's own.
    fn depth(&self) -> usize {
        let parts = self.path.components().count();
        if self.path.ends_with("mod.rs") { parts - 1 } else { parts }
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs")
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut pending = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push(Source { path: path.strip_prefix(&root).unwrap().to_owned(), text });
            }
        }
    }
    assert!(sources.len() > 50, "the sources were found");
    sources
}

/// The rooms that a line of code names by `crate::`.
fn imports(line: &str) -> Vec<String> {
    let room = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>();
    let named = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric()));
    named
        .flat_map(|(at, found)| match line[at + found.len()..].strip_prefix('{') {
            Some(list) => list.split(',').map(|item| room(item.trim())).collect(),
            None => vec![room(&line[at + found.len()..])],
        })
        .filter(|room| !room.is_empty())
        .collect()
}

#[test]
fn no_room_imports_one_that_it_must_not_know() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.path != Path::new("lib.rs")) {
        let room = source.room();
        let of_tests = [(&*room, [].as_slice())];
        let of_tests = of_tests.iter().filter(|(room, _)| EVERYWHERE.contains(room));
        let Some((_, allowed)) = ROOMS.iter().chain(of_tests).find(|(named, _)| *named == room) else {
            wrong.push(format!("{} is no room of the table", source.path.display()));
            continue;
        };
        for (number, line) in source.code() {
            for import in imports(line).into_iter().filter(|import| *import != room) {
                seen.insert((room.clone(), import.clone()));
                // `crate::Error` and the like come from the root; rooms are lower case, and a room's own are its own.
                if !allowed.contains(&import.as_str()) && !EVERYWHERE.contains(&import.as_str()) {
                    wrong.push(format!("{}:{number}: {room} imports {import}", source.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let store_uses_recovery = ("store".to_owned(), "recovery".to_owned());
    assert!(seen.contains(&store_uses_recovery), "the imports were read: {seen:?}");
}

#[test]
fn no_path_climbs_out_of_its_room() {
    let mut wrong = Vec::new();
    for source in &sources() {
        for (number, line) in source.code() {
            let climbs = line.matches("super::").count();
            // Within a module of the file itself, which is indented, the first step only leaves that module.
            let inner = usize::from(line.starts_with(' ') && line.contains("use super::"));
            if line.trim_start().contains("super::") && climbs >= source.depth().max(1) + inner {
                wrong.push(format!("{}:{number}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_dependency_stays_in_its_room() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (number, line) in source.code() {
            for (word, room) in CONFINED {
                if line.contains(word) && source.room() != *room {
                    wrong.push(format!("{}:{number}: {word} is for {room} alone", source.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_grows_beyond_what_one_reads_in_a_sitting() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source.path.display().to_string(), source.text.lines().count()))
        .filter(|(_, lines)| *lines >= FILE_LINES_MAX)
        .map(|(path, lines)| format!("{path} has {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_root_holds_documentation_and_re_exports_alone() {
    let sources = sources();
    let root = sources.iter().find(|source| source.path == Path::new("lib.rs")).unwrap();
    assert!(root.text.starts_with("//! "), "it begins with the crate's documentation");
    let items = ["fn ", "struct ", "enum ", "trait ", "impl ", "impl<", "static ", "const ", "macro_rules!"];
    // Indented lines belong to a list, or to the module that makes documentation tests of the documents.
    let item = root.code().find(|(_, line)| {
        let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        items.iter().any(|item| line.starts_with(item))
    });
    let modules = root.text.lines().zip(root.text.lines().skip(1));
    let mut inline = modules.filter(|(_, line)| line.contains("mod ") && line.ends_with('{'));
    assert!(inline.all(|(above, _)| above == "#[cfg(doctest)]"), "a module with code of its own");
    assert_eq!(item, None, "an item of the root's own");
    let every_file_has_a_header = sources.iter().filter(|source| !source.text.starts_with("//!")).map(|s| &s.path);
    assert_eq!(every_file_has_a_header.collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "files without a header");
}

#[test]
fn the_reader_of_imports_sees_them_in_every_form() {
    assert_eq!(imports("use crate::disk::Disk;"), ["disk"]);
    assert_eq!(imports("    let a: crate::index::Entry = crate::log::b();"), ["index", "log"]);
    assert_eq!(imports("use crate::{error::Error, ids};"), ["error", "ids"]);
    assert_eq!(imports("pub(crate) fn f() -> crate::Result<()>"), Vec::<String>::new());
    assert_eq!(imports("use std::sync::Arc;"), Vec::<String>::new());
}
