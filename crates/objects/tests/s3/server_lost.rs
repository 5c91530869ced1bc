//! Goal: a server that goes away costs time, and no checkpoint. Method: it is killed in the middle of a transfer, and started again
//! at once, later or never.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rollstore::ErrorKind;
use rollstore_objects::{checkpoint, list, restore};
use rollstore_testkit::scratch::{Scratch, assert_says};

use crate::common::{Server, URL, assert_equal, fill, fill_large};

/// A server that says when it is asked for `what` for the n-th time.
fn watched(scratch: &Scratch, what: &'static str, nth: usize) -> (Server, mpsc::Receiver<()>) {
    let (asked, when) = mpsc::channel();
    let times = AtomicUsize::new(0);
    let server = Server::start_with(
        scratch,
        Arc::new(move |_, request| {
            if request.contains(what) && times.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                asked.send(()).unwrap();
            }
        }),
    );
    (server, when)
}

#[test]
fn an_upload_goes_on_when_the_server_comes_back() {
    let scratch = Scratch::new();
    let (mut server, when) = watched(&scratch, "partNumber=2", 1);
    let store = scratch.open();
    fill_large(&store, 1, 30 << 20);
    let options = server.options().part_bytes(5 << 20).requests(2);
    thread::scope(|scope| {
        let sent = scope.spawn(|| checkpoint(&store, URL, None, &options));
        when.recv().unwrap();
        server.kill();
        server.run();
        assert_eq!(sent.join().unwrap().unwrap().number, 1);
    });
    restore(URL, scratch.path("again"), None, &options).unwrap();
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
}

#[test]
fn a_restore_goes_on_when_the_server_comes_back() {
    let scratch = Scratch::new();
    let (mut server, when) = watched(&scratch, "GET /bucket/run/segments/", 3);
    let store = scratch.open();
    fill_large(&store, 1, 30 << 20);
    let options = server.options().part_bytes(5 << 20).requests(2);
    checkpoint(&store, URL, None, &options).unwrap();
    thread::scope(|scope| {
        let restored = scope.spawn(|| restore(URL, scratch.path("again"), None, &options));
        when.recv().unwrap();
        server.kill();
        server.run();
        assert_eq!(restored.join().unwrap().unwrap().number, 1);
    });
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
}

#[test]
fn a_server_that_stays_away_is_an_error_and_the_next_call_sends_what_is_missing() {
    let scratch = Scratch::new();
    let (mut server, when) = watched(&scratch, "partNumber=2", 1);
    let store = scratch.open();
    fill(&store, 0..10);
    let options = server.options().part_bytes(5 << 20).requests(1).retry_for(Duration::from_millis(300));
    checkpoint(&store, URL, None, &options).unwrap();
    fill(&store, 10..20);
    store.checkpoint(scratch.path("sealed")).unwrap();
    fill_large(&store, 100, 30 << 20);
    thread::scope(|scope| {
        let sent = scope.spawn(|| checkpoint(&store, URL, None, &options));
        when.recv().unwrap();
        server.kill();
        assert_says(&sent.join().unwrap().unwrap_err(), ErrorKind::Io, &[URL, "network", "AWS_ENDPOINT_URL"]);
    });
    assert_says(&list(URL, &options).unwrap_err(), ErrorKind::Io, &["could not list checkpoints", URL]);
    server.run();
    assert_eq!(list(URL, &options).unwrap().len(), 1, "no half checkpoint");
    fill(&store, 20..30);
    let sent = checkpoint(&store, URL, None, &options).unwrap();
    assert_eq!((sent.number, sent.segments, sent.sent_segments), (2, 4, 2), "a small one had arrived");
}

#[test]
fn a_restore_that_ended_early_keeps_what_it_fetched() {
    let scratch = Scratch::new();
    let (mut server, when) = watched(&scratch, "GET /bucket/run/segments/", 3);
    let store = scratch.open();
    for round in 0..6 {
        fill(&store, round * 10..round * 10 + 10);
        store.checkpoint(scratch.path("sealed")).unwrap();
    }
    let options = server.options().requests(1).retry_for(Duration::from_millis(300));
    checkpoint(&store, URL, None, &options).unwrap();
    thread::scope(|scope| {
        let restored = scope.spawn(|| restore(URL, scratch.path("again"), None, &options));
        when.recv().unwrap();
        server.kill();
        assert_says(&restored.join().unwrap().unwrap_err(), ErrorKind::Io, &["could not read segments/", URL]);
    });
    assert!(!scratch.path("again").exists(), "no store appears");
    server.run();
    server.seen();
    restore(URL, scratch.path("again"), None, &options).unwrap();
    let fetched = server.seen().iter().filter(|told| told.contains("GET /bucket/run/segments/")).count();
    // The third may have come whole before the server went.
    assert!((3..=4).contains(&fetched), "{fetched} of 6 segments were fetched again");
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
}
