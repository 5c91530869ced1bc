//! Goal: what the README and the documents say in figures is so. Method: each figure is looked up in the text and compared
//! with the code or the manifest that it comes from. The replay's table is checked beside the program, in `crates/cli`;
//! the code blocks run as documentation tests.

use std::path::Path;

use rollstore::limits;

fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// One line a sentence, so that a claim is found however its lines are broken.
fn flat(path: &str) -> String {
    document(path).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_readme_states_the_limits_that_hold() {
    let readme = flat("README.md");
    let gib = |bytes: u64| format!("{} GiB", bytes >> 30);
    let (record, batch) = (gib(limits::RECORD_BYTES_MAX), gib(limits::BATCH_BYTES_MAX));
    assert!(readme.contains(&format!("Limits: {record} a rollout, {batch} a batch.")), "{record}, {batch}");
}

#[test]
fn the_readme_states_the_versions_of_the_manifest() {
    let (readme, manifest) = (flat("README.md"), document("Cargo.toml"));
    let value = |key: &str| {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    assert!(readme.contains(&format!("a Rust toolchain ({} or newer)", value("rust-version"))));
    let version = value("version");
    assert!(readme.contains(&format!("Version {}. ", version.rsplit_once('.').unwrap().0)), "{version}");
}

#[test]
fn the_readme_names_the_format_that_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = rollstore::RolloutStore::options().window(1).open(dir.path()).unwrap();
    store.close().unwrap();
    let manifest = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST-"));
    // docs/format.md: the format version is the u32 at offset 8.
    let bytes = std::fs::read(manifest.last().unwrap()).unwrap();
    let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    assert!(flat("README.md").contains(&format!("The on-disk format is version {version},")));
}

#[test]
fn the_readme_shows_its_code_in_few_lines() {
    let readme = document("README.md");
    let code = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    assert!((15..=25).contains(&lines), "{lines} lines");
}

#[test]
fn each_core_dependency_has_its_reason_and_version() {
    let (map, manifest) = (document("docs/architecture.md"), document("Cargo.toml"));
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let workspace = manifest.split("\n[workspace.dependencies]\n").nth(1).unwrap();
    let mut count = 0;
    for line in section.lines().filter(|line| line.contains('=')) {
        let name = line.split([' ', '.']).next().unwrap();
        let declared = if line.contains("workspace = true") {
            workspace.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap()
        } else {
            line
        };
        let version = declared.split('"').nth(1).unwrap();
        let row = map.lines().find_map(|row| row.strip_prefix(&format!("| {name} | "))).unwrap_or_else(|| {
            panic!("{name} has no line in docs/architecture.md");
        });
        let (stated, reason) = row.split_once(" | ").unwrap();
        assert!(version.starts_with(stated), "{name}: {stated} is stated, {version} is used");
        assert!(reason.len() > 20, "{name}: {reason}");
        count += 1;
    }
    assert!(count >= 10, "the dependencies were found");
}

#[test]
fn every_test_that_the_promises_name_exists() {
    let promises = document("docs/durability.md");
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with("| D")).collect();
    assert_eq!(rows.len(), 12, "D1 to D12");
    for (number, row) in (1..).zip(rows) {
        assert!(row.starts_with(&format!("| D{number} |")), "{row}");
        assert!(promises.contains(&format!("\n## D{number}. ")), "D{number} has its chapter");
        for test in row.split('`').skip(1).step_by(2) {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{test}.rs"));
            assert!(file.exists(), "D{number} names {}", file.display());
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "docs/decisions"] {
        let paths = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut followed = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some(path) = link.split('#').next().filter(|path| !path.is_empty() && !path.contains("://")) else {
                continue;
            };
            assert!(document.parent().unwrap().join(path).exists(), "{} links to {path}", document.display());
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed} links were followed");
}
