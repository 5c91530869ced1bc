//! Goal: a mistake is told by what, where and the next step. Method: wrong buckets, no credentials, foreign prefixes and targets, asked
//! of a real server.

use std::time::Duration;

use rollstore::{ErrorKind, RolloutStore};
use rollstore_objects::{Options, checkpoint, list, restore};
use rollstore_testkit::scratch::{Scratch, assert_says};

use crate::common::{Server, URL, fill};

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let says = ["s3://buckett/run", "there is no bucket \"buckett\"", "AWS_ENDPOINT_URL"];
    // Not by an upload: this server makes a bucket where one puts something into it.
    assert_says(&list("s3://buckett/run", &server.options()).unwrap_err(), ErrorKind::NotFound, &says);
    let error = restore("s3://buckett/run", scratch.path("again"), None, &server.options()).unwrap_err();
    assert_says(&error, ErrorKind::NotFound, &says);
}

#[test]
fn missing_and_wrong_credentials_are_told_apart() {
    let scratch = Scratch::new();
    let (server, store) = (Server::start(&scratch), scratch.open());
    let endpoint = server.endpoint();
    let bare = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1"),
    ];
    let none = Options::default().environment(&bare).retry_for(Duration::from_millis(50));
    let error = checkpoint(&store, URL, None, &none).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Io,
        &[URL, "there are no credentials", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"],
    );
    let keys = [("AWS_ACCESS_KEY_ID", "someone else"), ("AWS_SECRET_ACCESS_KEY", "else's secret")];
    let error =
        checkpoint(&store, URL, None, &Options::default().environment(&[&bare[..], &keys].concat())).unwrap_err();
    assert_says(&error, ErrorKind::Io, &[URL, "access is refused (", "AWS_SECRET_ACCESS_KEY"]);
    let https = [("AWS_ENDPOINT_URL", endpoint.as_str()), keys[0], keys[1]];
    let https = Options::default().environment(&https).retry_for(Duration::from_millis(50));
    assert_says(&list(URL, &https).unwrap_err(), ErrorKind::Io, &["AWS_ALLOW_HTTP=true"]);
}

#[test]
fn a_prefix_is_of_one_run() {
    let scratch = Scratch::new();
    let (server, store) = (Server::start(&scratch), scratch.open());
    fill(&store, 0..5);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    let other = RolloutStore::options().window(8).open(scratch.path("other")).unwrap();
    fill(&other, 0..5);
    let error = checkpoint(&other, URL, Some(1), &server.options()).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &[URL, "checkpoints of another run", "choose another prefix"]);
    other.close().unwrap();
    let error = restore(URL, scratch.path("other"), None, &server.options()).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &["is a store of another run", "restore elsewhere"]);
    assert!(!scratch.path("other.fetching").exists(), "nothing was fetched");
    assert_eq!(list(URL, &server.options()).unwrap().len(), 1);
}

#[test]
fn what_is_not_there_is_told() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let again = scratch.path("again");
    let error = restore(URL, &again, None, &server.options()).unwrap_err();
    assert_says(&error, ErrorKind::NotFound, &["there is no checkpoint under s3://bucket/run"]);
    let error = restore(URL, &again, Some(7), &server.options()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::NotFound,
        &["s3://bucket/run/checkpoints/0000000007", "rollstore checkpoints s3://bucket/run"],
    );
    assert_eq!(list(URL, &server.options()).unwrap(), []);
    assert_eq!(list(&format!("file://{}", scratch.path("none").display()), &Options::default()).unwrap(), []);
    assert!(!again.exists() && !scratch.path("again.fetching").exists());
}

#[test]
fn an_open_store_is_not_restored_over() {
    let scratch = Scratch::new();
    let (server, store) = (Server::start(&scratch), scratch.open());
    fill(&store, 0..5);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    let error = restore(URL, scratch.store_dir(), None, &server.options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    drop(store);
    restore(URL, scratch.store_dir(), None, &server.options()).unwrap();
}
