//! Goal: retention ends what is old, and never what anyone needs, whoever else is at work. Method: checkpoints that share segments,
//! uploads held at one request while a retention runs, and the other way round.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rollstore::{ErrorKind, Reason, RolloutStore};
use rollstore_objects::{Options, checkpoint, list, restore, retain, verify};
use rollstore_testkit::scratch::{Scratch, assert_says};

use crate::common::{Server, URL, assert_equal, fill, lock};

/// A server that holds the first request that begins so, until it is let go; it says when it does.
struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
    held: mpsc::Receiver<()>,
}

impl Gate {
    fn at(scratch: &Scratch, what: &'static str, nth: usize) -> (Server, Self) {
        let (told, held) = mpsc::channel();
        let open: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (gate, times) = (Arc::clone(&open), Mutex::new(0));
        let hook = move |_: usize, request: &str| {
            let is_it = request.starts_with(what) && {
                let mut times = lock(&times);
                *times += 1;
                *times == nth
            };
            if is_it {
                told.send(()).unwrap();
                let opened = gate.1.wait_while(lock(&gate.0), |open| !*open);
                drop(opened.unwrap());
            }
        };
        (Server::start_with(scratch, Arc::new(hook)), Self { open, held })
    }

    fn let_go(&self) {
        *lock(&self.open.0) = true;
        self.open.1.notify_all();
    }

    /// Lets go when it is dropped: a test that fails must not wait for whom it holds.
    fn at_last(&self) -> impl Drop + use<'_> {
        struct AtLast<'a>(&'a Gate);
        impl Drop for AtLast<'_> {
            fn drop(&mut self) {
                self.0.let_go();
            }
        }
        AtLast(self)
    }
}

fn numbers(server: &Server) -> Vec<u64> {
    list(URL, &server.options()).unwrap().iter().map(|seen| seen.number).collect()
}

/// Drops the segments of all rollouts that there were, and puts in others.
fn renew(store: &RolloutStore, ids: std::ops::Range<u64>) {
    store.retire(&store.ids(), Reason::Trained).unwrap();
    fill(store, ids);
    store.compact(rollstore::CompactBudget::all()).unwrap();
}

#[test]
fn a_segment_goes_with_the_last_checkpoint_that_has_it() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    for number in 1..=3 {
        checkpoint(&store, URL, None, &server.options()).unwrap();
        fill(&store, number * 10..number * 10 + 10);
    }
    let segments = server.files("run/segments");
    assert_eq!(segments.len(), 3);
    let kept = retain(URL, 2, &server.options()).unwrap();
    assert_eq!((kept.checkpoints, kept.deleted_checkpoints, kept.deleted_segments), (2, 1, 0), "all are shared");
    assert_eq!((numbers(&server), server.files("run/segments")), (vec![2, 3], segments));

    renew(&store, 100..110);
    let sent = checkpoint(&store, URL, Some(2), &server.options()).unwrap();
    assert_eq!(sent.retention.unwrap().unwrap().deleted_segments, 0, "checkpoint 3 has them");
    renew(&store, 200..210);
    let sent = checkpoint(&store, URL, Some(1), &server.options()).unwrap();
    let retained = sent.retention.unwrap().unwrap();
    assert!(retained.deleted_checkpoints == 2 && retained.deleted_segments >= 3, "{retained:?}");
    assert_eq!(numbers(&server), [5]);
    assert_eq!(server.files("run/segments").len() as u64, sent.segments, "nothing else is left");
    restore(URL, scratch.path("again"), None, &server.options()).unwrap();
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
    assert!(server.files("run/leases").is_empty(), "{:?}", server.files("run/leases"));
}

#[test]
fn an_upload_under_way_keeps_what_it_will_name() {
    let scratch = Scratch::new();
    // Held before its checkpoint is put: the two before it were put already.
    let (server, gate) = Gate::at(&scratch, "PUT /bucket/run/checkpoints/", 3);
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    let slow = scratch.path("slow");
    store.checkpoint(scratch.path("saved")).unwrap();
    RolloutStore::restore(scratch.path("saved"), &slow).unwrap();
    renew(&store, 20..30);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    thread::scope(|scope| {
        // A second writer of the run, which shares the segment of checkpoint 1 alone.
        let options = server.options();
        let sent = scope.spawn(move || {
            let store = RolloutStore::options().open(&slow).unwrap();
            fill(&store, 50..60);
            checkpoint(&store, URL, None, &options).unwrap()
        });
        let _at_last = gate.at_last();
        gate.held.recv().unwrap();
        let retained = retain(URL, 1, &server.options()).unwrap();
        assert_eq!((retained.deleted_checkpoints, retained.deleted_segments), (1, 0), "it is about to be named");
        gate.let_go();
        assert_eq!(sent.join().unwrap().number, 3);
    });
    assert!(verify(URL, &server.options()).unwrap().is_sound());
    restore(URL, scratch.path("again"), Some(3), &server.options()).unwrap();
}

#[test]
fn an_upload_that_begins_during_a_retention_waits_for_it_and_sends_what_it_took() {
    let scratch = Scratch::new();
    // A retention that has read all notes, and is about to delete; the two before it end uploads' notes.
    let (server, gate) = Gate::at(&scratch, "POST /bucket", 3);
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    store.checkpoint(scratch.path("saved")).unwrap();
    RolloutStore::restore(scratch.path("saved"), scratch.path("slow")).unwrap();
    renew(&store, 20..30);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    server.seen();
    thread::scope(|scope| {
        let (retaining, sending) = (server.options(), server.options());
        let retained = scope.spawn(move || retain(URL, 1, &retaining));
        let _at_last = gate.at_last();
        gate.held.recv().unwrap();
        let slow = RolloutStore::options().open(scratch.path("slow")).unwrap();
        fill(&slow, 50..60);
        let sent = scope.spawn(move || checkpoint(&slow, URL, None, &sending));
        // It has looked at the notes, and waits: no segment is put.
        while !server_saw(&server, "PUT /bucket/run/leases/upload") {
            thread::yield_now();
        }
        gate.let_go();
        let retained = retained.join().unwrap().unwrap();
        let sent = sent.join().unwrap().unwrap();
        assert_eq!((retained.deleted_checkpoints, sent.number), (1, 3));
        assert_eq!(sent.sent_segments, 2, "the shared one was deleted, and is sent again");
    });
    assert!(verify(URL, &server.options()).unwrap().is_sound());
}

fn server_saw(server: &Server, what: &str) -> bool {
    server.peek(|seen| seen.iter().any(|told| told.starts_with(what)))
}

#[test]
fn what_a_killed_upload_left_goes_once_its_lease_is_over() {
    let scratch = Scratch::new();
    let (server, gate) = Gate::at(&scratch, "PUT /bucket/run/checkpoints/", 2);
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    fill(&store, 10..20);
    // Never let go: as good as killed. Its options say for how long others count on it.
    let lost = server.options().lease(Duration::from_millis(1500)).retry_for(Duration::ZERO);
    let mut server = server;
    thread::scope(|scope| {
        let sent = scope.spawn(|| checkpoint(&store, URL, None, &lost));
        let _at_last = gate.at_last();
        gate.held.recv().unwrap();
        gate.let_go();
        server.kill();
        assert_eq!(sent.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    });
    server.run();
    if numbers(&server) == [1, 2] {
        return; // It was put before the server went.
    }
    assert_eq!(server.files("run/segments").len(), 2);
    let mut tries = 0;
    while server.files("run/segments").len() > 1 {
        retain(URL, 5, &server.options()).unwrap();
        tries += 1;
        assert!(tries < 10_000, "it never goes");
    }
    assert!(tries > 1, "not while it may be at work");
    assert!(server.files("run/leases").is_empty());
    assert!(verify(URL, &server.options()).unwrap().is_sound());
}

#[test]
fn nothing_is_deleted_while_a_checkpoint_that_is_kept_cannot_be_read() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    renew(&store, 10..20);
    checkpoint(&store, URL, None, &server.options()).unwrap();
    let segments = server.files("run/segments");
    let damaged = server.files("run/checkpoints").remove(0);
    std::fs::write(&damaged, b"no checkpoint").unwrap();
    assert_says(&retain(URL, 2, &server.options()).unwrap_err(), ErrorKind::Damaged, &["checkpoints/0000000001"]);
    let sent = checkpoint(&store, URL, Some(3), &server.options()).unwrap();
    assert!(sent.number == 3 && sent.retention.unwrap().is_err(), "the checkpoint is there all the same");
    assert!(segments.iter().all(|path| path.exists()));
    let retained = retain(URL, 1, &server.options()).unwrap();
    assert!(retained.deleted_checkpoints == 2 && retained.deleted_segments >= 1, "{retained:?}");
}

#[test]
fn in_a_directory_a_retention_removes_what_was_never_renamed() {
    let scratch = Scratch::new();
    let url = format!("file://{}", scratch.path("bucket").display());
    let options = Options::default();
    let store = scratch.open();
    fill(&store, 0..10);
    checkpoint(&store, &url, None, &options).unwrap();
    let runs = std::fs::read_dir(scratch.path("bucket/segments")).unwrap().next().unwrap().unwrap().path();
    let [old, new] = ["00000009-0-1#1", "00000009-0-1#2"].map(|name| runs.join(name));
    for path in [&old, &new] {
        std::fs::write(path, "half a segment").unwrap();
    }
    let hours_ago = std::time::SystemTime::now() - Duration::from_hours(2);
    let touched =
        std::process::Command::new("touch").arg("-d").arg(format!("@{}", seconds(hours_ago))).arg(&old).status();
    assert!(touched.unwrap().success());
    retain(&url, 1, &options).unwrap();
    assert!(!old.exists() && new.exists(), "an upload may be at work on the new one");
}

fn seconds(time: std::time::SystemTime) -> u64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}
