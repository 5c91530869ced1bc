//! Goal: the benchmark itself works: every case runs with every peer that it was built with, what is read is what was
//! written, and one JSON object tells it all. Method: the small run, whose figures mean nothing.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench_peers(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-peers")).arg("--dir").arg(dir).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_quick_run_does_every_case_with_every_peer_and_makes_json_a_page_and_tables() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = bench_peers(dir.path(), &["--quick", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one object and nothing else");

    let runs = json["runs"].as_array().unwrap();
    let peers: Vec<&str> = json["settings"].as_object().unwrap().keys().map(String::as_str).collect();
    let listed = text(&bench_peers(dir.path(), &["--list"]).stdout);
    let cases = listed.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split(' ').next());
    for case in cases {
        assert!(runs.iter().any(|run| run["case"] == case && run["peer"] == "rollstore"), "{case}");
    }
    for peer in peers {
        assert!(runs.iter().any(|run| run["case"] == "w" && run["peer"] == peer), "{peer}");
    }
    let every_figure = runs.iter().flat_map(|run| run["figures"].as_object().unwrap());
    assert!(every_figure.clone().count() > 100);
    for (name, figure) in every_figure {
        assert!(figure.is_number(), "{name}: {figure}");
    }
    let bars = json["bars"].as_array().unwrap();
    let ingest = bars.iter().find(|bar| bar["what"] == "ingest against raw append and fdatasync").unwrap();
    assert_ne!(ingest["verdict"], "not_measured");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "its directories are gone: {left:?}");

    // The same results once more, as a page and as tables.
    let (results, page) = (dir.path().join("results.json"), dir.path().join("page.html"));
    std::fs::write(&results, &output.stdout).unwrap();
    let [results, page] = [&results, &page].map(|path| path.to_str().unwrap());
    let output = bench_peers(dir.path(), &["--from", results, "--html", page]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("aim"), "tables on standard output");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg ") && page.ends_with("</html>\n"));
}

#[test]
fn only_measures_what_is_named_and_refuses_what_nobody_knows() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = bench_peers(dir.path(), &["--quick", "--json", "--only", "w", "--only", "raw"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: Vec<_> = json["runs"].as_array().unwrap().iter().map(|run| (&run["case"], &run["peer"])).collect();
    assert_eq!(runs.len(), 2, "rollstore and the limit it is held against: {runs:?}");

    let output = bench_peers(dir.path(), &["--quick", "--only", "oracle"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("oracle"), "{}", text(&output.stderr));
}
