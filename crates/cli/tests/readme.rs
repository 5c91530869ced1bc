//! Goal: the figures that the README and the guide show are those that the program prints. Method: the documents are read,
//! each command in them is run, and what stands beside it is compared with the output.

mod common;

use std::path::Path;

use common::{json, recorded_trace, stdout};

fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Replays the recorded run with the options that a document's command gives.
fn replay(options: &str) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let options: Vec<&str> = options.split_whitespace().collect();
    common::replay(&recorded_trace(), &folder.path().join("store"), &options)
}

#[test]
fn the_readme_shows_the_table_that_the_replay_prints() {
    let readme = document("README.md");
    let shown = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(stdout(&replay("")).trim_end(), shown.trim_end());
}

#[test]
fn the_readme_names_a_trace_that_is_there() {
    let readme = document("README.md");
    let command =
        readme.lines().find(|line| line.starts_with("cargo run --release -p rollstore-cli -- replay ")).unwrap();
    let trace = command.split("replay ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(trace);
    assert_eq!(path.canonicalize().unwrap(), recorded_trace().canonicalize().unwrap());
}

#[test]
fn the_guide_gives_the_numbers_of_its_commands() {
    const COMMAND: &str = "rollstore replay tests/data/grpo_tiny.jsonl.gz";
    let guide = document("docs/guide.md");
    let checks = guide.split("## Is your trainer wasting recompute?").nth(1).unwrap();
    let (mut commands, mut figures) = (0, 0);
    for block in checks.split("```sh\n").skip(1) {
        let (command, after) = block.split_once("```").unwrap();
        let Some(options) = command.lines().find_map(|line| line.strip_prefix(COMMAND)) else { continue };
        if !options.contains("--json") {
            continue;
        }
        commands += 1;
        let report = json(&replay(options));
        // `name`: number
        let after = after.split("\n#").next().unwrap();
        for (name, rest) in after.split('`').skip(1).step_by(2).zip(after.split('`').skip(2).step_by(2)) {
            let Some(number) = rest.strip_prefix(": ") else { continue };
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            assert_eq!(report[name], digits.parse::<u64>().unwrap(), "{name} of {COMMAND}{options}");
            figures += 1;
        }
    }
    assert_eq!((commands, figures), (6, 13), "commands and figures of the seven checks");
}

#[test]
fn the_guide_shows_how_many_rollouts_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    stdout(&common::replay(&recorded_trace(), &store, &[]));
    let rows = common::json_lines(&common::run(["ls".as_ref(), store.as_os_str(), "--json".as_ref()]));
    assert!(document("docs/guide.md").contains(&format!("\n{} rollouts, each with its age", rows.len())));
    for row in rows {
        assert!(row["age"].is_u64() && row["versions_behind"].is_u64(), "{row}");
        let flags = ["missing", "stale", "out_of_window", "from_future"];
        assert!(flags.iter().all(|flag| row[flag] == false), "in this buffer, all are fresh: {row}");
    }
}
