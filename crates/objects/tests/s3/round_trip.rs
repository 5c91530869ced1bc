//! Goal: what goes up comes down equal, and only new segments go up. Method: an S3 server, a directory and memory; states compared by
//! the library's own comparison and bit for bit; requests counted at the server.

use std::fs;

use rollstore::RolloutStore;
use rollstore_objects::{Options, checkpoint, list, restore, verify};
use rollstore_testkit::scratch::Scratch;

use crate::common::{Server, assert_equal, fill, fill_large, left_over, lock};

/// Up, down, more, up again, under any URL.
fn there_and_back(scratch: &Scratch, url: &str, options: &Options) {
    let store = scratch.open();
    fill(&store, 0..50);
    let first = checkpoint(&store, url, None, options).unwrap();
    assert_eq!((first.number, first.segments, first.sent_segments), (1, 1, 1));
    let saved = scratch.path("saved");
    store.checkpoint(&saved).unwrap();

    fill(&store, 50..80);
    store.advance_ref_version(7, None).unwrap();
    let second = checkpoint(&store, url, None, options).unwrap();
    assert_eq!((second.number, second.segments, second.sent_segments), (2, 2, 1));
    assert_eq!(second.sent_bytes, second.bytes - first.bytes);

    let (then, now) = (scratch.path("then"), scratch.path("now"));
    assert_eq!(restore(url, &then, Some(1), options).unwrap().number, 1);
    let restored = restore(url, &now, None, options).unwrap();
    assert_eq!((restored.number, restored.step, restored.bytes), (2, Some(7), second.bytes));
    assert_equal(&saved, &then);
    assert_equal(&scratch.store_dir(), &now);
    let again = RolloutStore::options().open(&now).unwrap();
    assert_eq!((again.len(), again.cursor().as_deref()), (80, Some(&b"where the loader is"[..])));
    assert_eq!(left_over(scratch), [""; 0]);

    let listed = list(url, options).unwrap();
    assert_eq!(listed.iter().map(|seen| (seen.number, seen.step)).collect::<Vec<_>>(), [(1, None), (2, Some(7))]);
    assert_eq!(listed.iter().map(|seen| seen.new_bytes).collect::<Vec<_>>(), [first.bytes, second.sent_bytes]);
    let seen = verify(url, options).unwrap();
    assert!(seen.is_sound() && seen.bytes == second.bytes, "{seen:?}");
}

#[test]
fn an_s3_server_gives_back_what_it_was_given() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    there_and_back(&scratch, "s3://bucket/run/shard 0", &server.options());
}

#[test]
fn a_directory_gives_back_what_it_was_given() {
    let scratch = Scratch::new();
    there_and_back(&scratch, &format!("file://{}/", scratch.path("bucket").display()), &Options::default());
}

#[test]
fn memory_gives_back_what_it_was_given() {
    let scratch = Scratch::new();
    there_and_back(&scratch, "memory:///round/trip", &Options::default());
}

#[test]
fn a_bucket_itself_may_be_the_prefix() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    there_and_back(&scratch, "s3://bucket", &server.options());
}

#[test]
fn a_large_segment_goes_up_in_parts_and_comes_down_in_parts() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let options = server.options().part_bytes(5 << 20).requests(3);
    let store = scratch.open();
    fill_large(&store, 1, 23 << 20);
    let sent = checkpoint(&store, "s3://bucket/run", None, &options).unwrap();
    let parts = sent.bytes.div_ceil(5 << 20);
    let count = |requests: &[String], what: &str| requests.iter().filter(|told| told.contains(what)).count() as u64;
    assert_eq!((count(&server.seen(), "partNumber="), parts), (parts, 5));
    restore("s3://bucket/run", scratch.path("again"), None, &options).unwrap();
    assert_eq!(count(&server.seen(), "GET /bucket/run/segments/"), parts);
    assert_equal(&scratch.store_dir(), &scratch.path("again"));
}

#[test]
fn a_checkpoint_with_one_new_segment_takes_eight_requests() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    for round in 0..4 {
        fill(&store, round * 10..round * 10 + 10);
        checkpoint(&store, "s3://bucket/run", None, &server.options()).unwrap();
        let seen = server.seen();
        let puts = seen.iter().filter(|told| told.starts_with("PUT")).count();
        // Notes are put and deleted; notes, segments and checkpoints listed, the newest checkpoint read, a segment and the
        // checkpoint put. The first finds no checkpoint to read.
        assert_eq!((seen.len(), puts), (if round == 0 { 7 } else { 8 }, 3), "{seen:#?}");
    }
}

#[test]
fn a_shard_whose_directory_was_removed_comes_back_from_its_last_checkpoint() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..20);
    checkpoint(&store, "s3://bucket/run", None, &server.options()).unwrap();
    let saved = scratch.path("saved");
    store.checkpoint(&saved).unwrap();
    fill(&store, 20..40);
    store.abandon();
    fs::remove_dir_all(scratch.store_dir()).unwrap();
    restore("s3://bucket/run", scratch.store_dir(), None, &server.options()).unwrap();
    assert_equal(&saved, &scratch.store_dir());
    let store = scratch.open();
    fill(&store, 20..30);
    let next = checkpoint(&store, "s3://bucket/run", None, &server.options()).unwrap();
    assert_eq!((next.number, next.sent_segments), (2, 1), "the run goes on under its prefix");
}

#[test]
fn an_existing_store_goes_back_to_its_checkpoint() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let store = scratch.open();
    fill(&store, 0..20);
    checkpoint(&store, "s3://bucket/run", None, &server.options()).unwrap();
    fill(&store, 20..40);
    store.close().unwrap();
    restore("s3://bucket/run", scratch.store_dir(), None, &server.options()).unwrap();
    assert_eq!(scratch.open().len(), 20);
}

#[test]
fn calls_work_inside_a_runtime() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..5);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let made = runtime.block_on(async { checkpoint(&store, "memory:///inside", None, &Options::default()) });
    assert_eq!(made.unwrap().number, 1);
}

#[test]
fn progress_reaches_the_end() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill_large(&store, 1, 12 << 20);
    let last = std::sync::Arc::new(std::sync::Mutex::new(None));
    let told = std::sync::Arc::clone(&last);
    let options = Options::default().on_progress(move |progress| *lock(&told) = Some(progress));
    let sent = checkpoint(&store, "memory:///progress", None, &options).unwrap();
    let end = lock(&last).take().unwrap();
    assert_eq!((end.done_bytes, end.total_bytes), (sent.bytes, sent.bytes));
    restore("memory:///progress", scratch.path("again"), None, &options).unwrap();
    let end = lock(&last).take().unwrap();
    assert_eq!((end.done_bytes, end.total_bytes), (sent.bytes, sent.bytes));
}
