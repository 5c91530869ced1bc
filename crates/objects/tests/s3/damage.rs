//! Goal: what rotted at the service is a named error, and no store appears. Method: files of an S3 server are changed behind its back.

use std::fs;
use std::path::Path;

use rollstore::ErrorKind;
use rollstore_objects::{checkpoint, list, restore, verify};
use rollstore_testkit::scratch::{Scratch, assert_says};

use crate::common::{Server, URL, assert_equal, fill};

/// Two checkpoints of two segments; the second one is the newest's alone.
fn two_checkpoints(scratch: &Scratch) -> Server {
    let server = Server::start(scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    fill(&store, 10..20);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    server
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Changes the newest segment and looks at what the calls say.
fn newest_segment_is(change: impl Fn(&Path), says: &[&str]) {
    let scratch = Scratch::new();
    let server = two_checkpoints(&scratch);
    let segments = server.files("run/segments");
    let newest = segments.last().unwrap();
    change(newest);
    let error = restore(URL, scratch.path("again"), None, &server.options()).unwrap_err();
    let name = newest.file_name().unwrap().to_str().unwrap();
    assert_says(&error, ErrorKind::Damaged, &[says, &[URL, name, "restore an older checkpoint"]].concat());
    assert!(!scratch.path("again").exists(), "no store appears");
    let seen = verify(URL, &server.options()).unwrap();
    assert_eq!(seen.findings.len(), 1, "{seen:?}");
    assert!(seen.findings[0].object.ends_with(name) && seen.findings[0].checkpoints == [2], "{seen:?}");
    restore(URL, scratch.path("again"), Some(1), &server.options()).unwrap();
}

#[test]
fn a_flipped_byte_is_named() {
    newest_segment_is(|path| flip(path, 5000), &["expected checksum 0x", "found 0x"]);
}

#[test]
fn a_segment_cut_short_is_named() {
    let cut = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..4999]).unwrap();
    newest_segment_is(cut, &["bytes, found 4999 bytes"]);
}

#[test]
fn a_segment_that_is_gone_is_named() {
    newest_segment_is(|path| fs::remove_file(path).unwrap(), &["found no such object"]);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_restores() {
    let scratch = Scratch::new();
    let server = two_checkpoints(&scratch);
    flip(server.files("run/checkpoints").last().unwrap(), 20);
    let options = server.options();
    let error = restore(URL, scratch.path("again"), None, &options).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Damaged,
        &["s3://bucket/run/checkpoints/0000000002", "expected checksum", "restore another"],
    );
    assert_says(&list(URL, &options).unwrap_err(), ErrorKind::Damaged, &["checkpoints/0000000002"]);
    let seen = verify(URL, &options).unwrap();
    assert!(seen.findings.len() == 1 && seen.findings[0].checkpoints == [2], "{seen:?}");
    assert!(!scratch.path("again").exists());
    restore(URL, scratch.path("again"), Some(1), &options).unwrap();
}

#[test]
fn the_next_checkpoint_mends_a_damaged_one() {
    let scratch = Scratch::new();
    let server = two_checkpoints(&scratch);
    flip(server.files("run/checkpoints").last().unwrap(), 20);
    fs::remove_file(server.files("run/segments").last().unwrap()).unwrap();
    let store = scratch.open();
    let sent = checkpoint(&store, URL, None, &server.options()).unwrap();
    assert_eq!((sent.number, sent.segments, sent.sent_segments), (3, 2, 1));
    restore(URL, scratch.path("again"), None, &server.options()).unwrap();
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
}
