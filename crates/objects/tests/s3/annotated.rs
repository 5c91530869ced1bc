//! Goal: checkpoints that were taken before are sent as they were taken, carry their caller's text, and are found and kept by number.
//! Method: an S3 server; a store that goes on between a checkpoint and its sending; objects that are taken away.

use std::fs;

use rollstore::ErrorKind;
use rollstore_objects::{ANNOTATION_BYTES_MAX, checkpoint, find, list, restore, retain_only, send, verify};
use rollstore_testkit::scratch::{Scratch, assert_says};

use crate::common::{Server, URL, assert_equal, fill};

#[test]
fn a_checkpoint_is_sent_as_it_was_taken_with_its_text() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    let taken = scratch.path("taken");
    store.checkpoint(&taken).unwrap();
    fill(&store, 10..20);
    let text = "cut {\"shards\": [4, 5]}\nß";
    let sent = send(&taken, URL, None, &server.options().annotation(text)).unwrap();
    assert_eq!((sent.number, sent.sent_segments), (1, 1));
    checkpoint(&store, URL, None, &server.options()).unwrap();

    let told: Vec<_> =
        list(URL, &server.options()).unwrap().into_iter().map(|seen| (seen.number, seen.annotation)).collect();
    assert_eq!(told, [(1, text.to_owned()), (2, String::new())]);
    assert_eq!(find(URL, Some(1), &server.options()).unwrap(), (1, text.to_owned()));
    assert_eq!(find(URL, None, &server.options()).unwrap(), (2, String::new()));
    restore(URL, scratch.path("again"), Some(1), &server.options()).unwrap();
    assert_equal(&taken, &scratch.path("again"));
    // What a crash of the caller made it send twice is there twice, and costs no segment.
    let again = send(&taken, URL, None, &server.options().annotation(text)).unwrap();
    assert_eq!((again.number, again.sent_segments), (3, 0));
}

#[test]
fn what_is_no_checkpoint_or_says_too_much_is_refused() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    let refused = send(scratch.store_dir(), URL, None, &server.options()).unwrap_err();
    assert_says(&refused, ErrorKind::Invalid, &["is a store and no checkpoint"]);
    let refused = send(scratch.path("nowhere"), URL, None, &server.options()).unwrap_err();
    assert_says(&refused, ErrorKind::NotFound, &["nowhere"]);
    let long = server.options().annotation("x".repeat(ANNOTATION_BYTES_MAX + 1));
    assert_says(&checkpoint(&store, URL, None, &long).unwrap_err(), ErrorKind::Invalid, &["65537 bytes", "65536"]);
    assert!(server.files("").is_empty(), "nothing was sent");
    checkpoint(&store, URL, None, &server.options().annotation("x".repeat(ANNOTATION_BYTES_MAX))).unwrap();
}

#[test]
fn a_checkpoint_that_is_found_has_its_segments() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    let nothing = find(URL, None, &server.options()).unwrap_err();
    assert_says(&nothing, ErrorKind::NotFound, &["no checkpoint under s3://bucket/run"]);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    let absent = find(URL, Some(2), &server.options()).unwrap_err();
    assert_says(&absent, ErrorKind::NotFound, &["checkpoints/0000000002"]);
    let segment = server.files("run/segments").remove(0);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[1..]).unwrap();
    assert_says(&find(URL, None, &server.options()).unwrap_err(), ErrorKind::Damaged, &["run/segments"]);
    fs::remove_file(&segment).unwrap();
    assert_says(&find(URL, None, &server.options()).unwrap_err(), ErrorKind::Damaged, &["run/segments"]);
}

#[test]
fn those_that_are_named_and_newer_ones_stay_and_one_at_least() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    for number in 1..=5 {
        fill(&store, number * 10..number * 10 + 10);
        assert_eq!(checkpoint(&store, URL, None, &server.options()).unwrap().number, number);
    }
    let numbers = || list(URL, &server.options()).unwrap().iter().map(|seen| seen.number).collect::<Vec<_>>();
    retain_only(URL, &[], &server.options()).unwrap();
    assert_eq!(numbers(), [1, 2, 3, 4, 5], "where none is named, none is known to be old");
    let retained = retain_only(URL, &[2, 4], &server.options()).unwrap();
    assert_eq!((numbers(), retained.deleted_checkpoints), (vec![2, 4, 5], 2), "the newest may not be told of yet");
    let retained = retain_only(URL, &[2, 9], &server.options()).unwrap();
    assert_eq!((numbers(), retained.checkpoints, retained.deleted_checkpoints), (vec![2], 1, 2));
    assert_eq!(retained.deleted_segments, 3, "those of checkpoints 3, 4 and 5");
    assert!(verify(URL, &server.options()).unwrap().is_sound());
    retain_only(URL, &[9], &server.options()).unwrap();
    assert_eq!(numbers(), [2], "one stays, whatever is asked for");
    restore(URL, scratch.path("again"), None, &server.options()).unwrap();
}
