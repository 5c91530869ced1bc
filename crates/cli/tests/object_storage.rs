//! Goal: `checkpoint`, `checkpoints` and `restore` take URLs, and tell what came of it and what went wrong without a secret. Method: a
//! directory as object storage, and an S3 service that nobody listens for.
#![cfg(feature = "object-store")]

mod common;

use std::path::Path;

use common::{json_lines, rollstore, run, stderr, stdout};
use rollstore::{NewRollout, RolloutStore, inspect};

fn insert(path: &Path, id: u64) {
    let store = RolloutStore::options().window(8).open(path).unwrap();
    store.insert(NewRollout::new(id, 3).old_logps(vec![-0.5], 0)).unwrap();
    store.close().unwrap();
}

#[test]
fn a_store_is_sent_listed_and_brought_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, url) = (path("store"), format!("file://{}", path("bucket")));
    for number in 1..=3 {
        insert(store.as_ref(), number);
        let told = stdout(&run(["checkpoint", &store, &url, "--keep", "2"]));
        let there = if number == 2 { "1 segment there" } else { "segments there" };
        assert!(told.starts_with(&format!(" {url} {number}\n")) && told.contains(there), "{told}");
        let ended = if number == 3 {
            "keeps      2 checkpoints; 1 checkpoint ended, 0 B given back"
        } else {
            "0 checkpoints ended"
        };
        assert!(told.contains("sent       1 segment, ") && told.contains(ended), "{told}");
    }
    let listed = json_lines(&run(["checkpoints", &url, "--json"]));
    let numbers: Vec<_> = listed.iter().map(|line| (line["checkpoint"].as_u64(), line["segments"].as_u64())).collect();
    assert_eq!(numbers, [(Some(2), Some(2)), (Some(3), Some(3))]);
    assert_eq!(stdout(&run(["checkpoints", &url])).lines().count(), 3);

    assert!(listed.iter().all(|line| line["annotation"] == ""));
    let told = stdout(&run(["verify", &url]));
    assert!(
        told.contains("checked    2 checkpoints, 3 segments, ") && told.contains("sound      every byte"),
        "{told}"
    );

    let told = stdout(&run(["restore", &url, &path("newest")]));
    assert!(told.contains("restored   3 rollouts live"), "{told}");
    assert!(inspect::diff(&store, path("newest")).unwrap().is_empty());
    let told = stdout(&run(["restore", &url, &path("second"), "--number", "2"]));
    assert!(told.contains("restored   2 rollouts live"), "{told}");
    let refused = run(["restore", &url, &path("first"), "--number", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("checkpoints/0000000001") && !Path::new(&path("first")).exists());
}

#[test]
fn damage_under_a_url_is_found_with_the_checkpoints_that_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, url) = (path("store"), format!("file://{}", path("bucket")));
    for number in 1..=2 {
        insert(store.as_ref(), number);
        run(["checkpoint", &store, &url]);
    }
    let runs = std::fs::read_dir(path("bucket/segments")).unwrap().next().unwrap().unwrap().path();
    let mut segments: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();

    let found = run(["verify", &url]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(1), "{told}");
    assert!(told.contains("damaged    of checkpoint 1, 2: ") && told.contains("next: restore"), "{told}");
    let found = run(["verify", &url, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((&json["sound"], json["findings"].as_array().unwrap().len()), (&false.into(), 1));
    assert_eq!(json["findings"][0]["checkpoints"], serde_json::json!([1, 2]));
    let nowhere = run(["verify", "file:///no/such/bucket"]);
    assert!(stdout(&nowhere).contains("checked    0 checkpoints"));
}

#[test]
fn what_is_for_urls_is_refused_for_directories() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    insert(path("store").as_ref(), 1);
    for arguments in [
        ["checkpoint", &path("store"), &path("saved"), "--keep", "2"],
        ["restore", &path("saved"), &path("again"), "--number", "2"],
    ] {
        let refused = run(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("is for checkpoints under a URL"), "{}", stderr(&refused));
    }
    assert!(!Path::new(&path("saved")).exists());
}

#[test]
fn no_secret_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    insert(store.as_ref(), 1);
    let urls = ["s3://bucket/run", "s3://planted:planted@bucket/run", "s3://bucket/run?token=planted", "ftp://bucket"];
    for url in urls {
        for arguments in
            [&["checkpoint", &store, url][..], &["restore", url, "again"], &["checkpoints", url], &["verify", url]]
        {
            let mut command = rollstore();
            command.args(arguments).current_dir(folder.path()).env("RUST_LOG", "trace");
            command.env("AWS_ACCESS_KEY_ID", "planted-id").env("AWS_SECRET_ACCESS_KEY", "planted-secret");
            // Not allowed without TLS: refused at once, and nothing is sent.
            command.env("AWS_SESSION_TOKEN", "planted-token").env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
            command.env_remove("AWS_ALLOW_HTTP");
            let refused = command.output().unwrap();
            let told = format!("{}{}", stderr(&refused), String::from_utf8_lossy(&refused.stdout));
            assert_eq!(refused.status.code(), Some(2), "{told}");
            assert!(!told.contains("planted") && told.lines().count() == 1, "{told}");
        }
    }
}
