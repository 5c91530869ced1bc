//! Goal: the page of a report is one small file that is there as a whole, and looking leaves the store as it was. Method: the
//! program writes pages of small stores and of a replay; their data is read as a browser would find it.

mod common;

use std::path::Path;

use common::{contents, json, marked_store, recorded_trace, replay, run, stderr, stdout};
use serde_json::Value;

const PAGE_BYTES_MAX: usize = 2 << 20;

/// Runs a report into a file.
fn write(store: &Path, page: &Path) -> std::process::Output {
    run([Path::new("report"), store, Path::new("-o"), page])
}

/// The figures that a page holds.
fn data(page: &Path) -> Value {
    let page = std::fs::read_to_string(page).expect("a page");
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script").next());
    serde_json::from_str(data.expect("data")).expect("JSON")
}

#[test]
fn the_page_of_the_recorded_run_is_small_and_holds_what_json_prints() {
    let folder = tempfile::tempdir().unwrap();
    let (store, page) = (folder.path().join("store"), folder.path().join("run.html"));
    stdout(&replay(&recorded_trace(), &store, &[]));
    let before = contents(&store);
    let told = stdout(&write(&store, &page));
    assert!(told.contains("run.html written, "), "{told}");
    assert!(std::fs::read(&page).unwrap().len() < PAGE_BYTES_MAX);
    assert_eq!(data(&page), json(&run([Path::new("report"), &store, Path::new("--json")])));
    assert_eq!(contents(&store), before, "the store is as it was");
    // A checkpoint is reported like a store.
    let checkpoint = folder.path().join("store.checkpoint");
    stdout(&write(&checkpoint, &page));
    let stat = json(&run([Path::new("stat"), &checkpoint, Path::new("--json")]));
    assert_eq!(
        (&data(&page)["buffer"]["last_lsn"], &data(&page)["buffer"]["live"]),
        (&stat["last_lsn"], &stat["live"])
    );
}

#[test]
fn a_page_is_replaced_as_a_whole_or_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (store, page) = (folder.path().join("store"), folder.path().join("run.html"));
    marked_store(&store);
    std::fs::write(&page, "before").unwrap();
    let absent = write(&folder.path().join("absent"), &page);
    assert_eq!((absent.status.code(), std::fs::read_to_string(&page).unwrap().as_str()), (Some(2), "before"));
    stdout(&write(&store, &page));
    assert_eq!(data(&page)["buffer"]["live"], 5);
    let names = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["run.html", "store"], "no temporary file is left");
}

#[test]
fn a_page_within_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    marked_store(&store);
    let before = contents(&store);
    let refused = write(&store, &store.join("run.html"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("is within the store"), "{}", stderr(&refused));
    assert_eq!(contents(&store), before);
}

#[test]
fn a_report_into_nothing_says_what_it_takes() {
    let refused = run(["report", "store"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--output"), "{}", stderr(&refused));
}

/// Names of fields, those of the elements of a list too.
fn fields(value: &Value, path: &str, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.insert(format!("{path}{name}"));
            fields(value, &format!("{path}{name}."), found);
        }),
        Value::Array(list) => list.iter().for_each(|value| fields(value, path, found)),
        _ => {}
    }
}

#[test]
fn the_fields_are_those_that_programs_rely_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    stdout(&replay(&recorded_trace(), &store, &[]));
    let mut found = std::collections::BTreeSet::new();
    fields(&json(&run([Path::new("report"), &store, Path::new("--json")])), "", &mut found);
    let found: Vec<String> = found.into_iter().collect();
    assert_eq!(found.join("\n"), include_str!("report_fields.txt").trim_end());
}
