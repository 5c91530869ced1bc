//! Every Ok of a Synced batch has a completed data sync between its last write and its return (D1).
//!
//! Method: count through the disk. Each batch has another number of tokens, so that its write is known by its length:
//! a rehearsal of one thread tells the lengths, then many threads commit at once, each noting the disk's tick at every
//! return. The disk is the operating system's, then a simulated one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rollstore::RolloutStore;
use rollstore::disk::Disk;
use rollstore::disk::counting::{CountingDisk, Op, OpKind};
use rollstore::disk::os::OsDisk;
use rollstore::disk::sim::SimDisk;
use rollstore_testkit::grouping::Grouping;
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::store::{DIR, options, rollout_of};

const THREADS: u64 = 8;
const BATCHES: u64 = 25;

/// Commits the batch of this number, which no other has as many tokens as.
fn commit(store: &RolloutStore, number: u64) {
    let mut batch = store.batch();
    let tokens = 64 * (usize::try_from(number).unwrap() + 1);
    batch.insert(rollout_of(2 * number, 0, 0, tokens)).unwrap();
    batch.cursor(b"a fixed length");
    batch.commit().unwrap();
}

fn is_log(op: &Op) -> bool {
    op.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seg-"))
}

/// The bytes that each batch writes, by its number.
fn lengths() -> Vec<u64> {
    let disk = SimDisk::new();
    let store = options(Arc::new(disk.clone())).segment_bytes(1 << 30).open(DIR).unwrap();
    let write_of = |number| {
        let before = disk.trace().len();
        commit(&store, number);
        let trace = disk.trace();
        let writes: Vec<u64> = trace[before..]
            .iter()
            .filter(|op| is_log(op) && op.kind == OpKind::Write && op.offset >= 4096)
            .map(|op| op.len)
            .collect();
        assert_eq!(writes.len(), 1, "a batch is one write");
        writes[0]
    };
    let lengths: Vec<u64> = (0..THREADS * BATCHES).map(write_of).collect();
    let distinct: BTreeSet<u64> = lengths.iter().copied().collect();
    assert_eq!(distinct.len(), lengths.len(), "no two batches have the same length");
    lengths
}

/// Commits from `threads` threads, and checks for each return that a sync covered its write. Returns the log's syncs.
fn check(inner: Arc<dyn Disk>, dir: &std::path::Path, threads: u64) -> usize {
    let disk = CountingDisk::new(inner);
    let store = options(Arc::new(disk.clone())).segment_bytes(1 << 20).open(dir).unwrap();
    let run = |thread: u64| {
        let numbers = (0..THREADS * BATCHES).filter(move |number| number % threads == thread);
        let returned = |number| {
            commit(&store, number);
            (number, disk.tick())
        };
        numbers.map(returned).collect::<Vec<(u64, u64)>>()
    };
    let returns: Vec<(u64, u64)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });

    let trace: Vec<Op> = disk.trace().into_iter().filter(is_log).collect();
    let lengths = lengths();
    for (number, returned) in &returns {
        let len = lengths[usize::try_from(*number).unwrap()];
        let write = trace.iter().find(|op| op.kind == OpKind::Write && op.len == len && op.offset >= 4096);
        let write = write.unwrap_or_else(|| panic!("batch {number} of {len} bytes was acknowledged and never written"));
        let covers = |op: &&Op| {
            let is_sync = op.kind == OpKind::SyncData && op.ok && op.path == write.path;
            is_sync && op.begun > write.ended && op.ended < *returned
        };
        let sync = trace.iter().find(covers);
        assert!(sync.is_some(), "batch {number} returned at tick {returned} without a sync behind {write:?}");
    }
    assert_eq!(returns.len() as u64, THREADS * BATCHES);
    assert_listed_first(&disk.trace());
    trace.iter().filter(|op| op.kind == OpKind::SyncData).count()
}

/// A segment is made durable, with its name and in a manifest, before its first frame is written.
fn assert_listed_first(trace: &[Op]) {
    let created: Vec<&PathBuf> =
        trace.iter().filter(|op| is_log(op) && op.kind == OpKind::Create).map(|op| &op.path).collect();
    assert!(created.len() > 1, "the batches roll over several segments");
    for path in created {
        let of_file = |op: &&Op| op.path == *path;
        let first_frame = trace.iter().filter(of_file).find(|op| op.kind == OpKind::Write && op.offset >= 4096);
        let header = trace.iter().filter(of_file).find(|op| op.kind == OpKind::Write).unwrap();
        let first_frame = first_frame.unwrap();
        let between = |op: &&Op| op.begun > header.ended && op.ended < first_frame.begun && op.ok;
        let order = [OpKind::SyncData, OpKind::SyncDir, OpKind::Rename, OpKind::SyncDir];
        let mut wanted = order.iter();
        let mut next = wanted.next();
        for op in trace.iter().filter(between) {
            if next == Some(&op.kind) {
                next = wanted.next();
            }
        }
        assert_eq!(next, None, "{}: header, name and manifest are durable before the first frame", path.display());
    }
}

/// Threads that ask for ids at once: who gets some of another one's reservation waits for it too.
#[test]
fn no_id_is_handed_out_before_its_reservation_is_durable() {
    for _ in 0..20 {
        let root = tempfile::tempdir().unwrap();
        let disk = CountingDisk::new(Arc::new(OsDisk));
        let store = options(Arc::new(disk.clone())).open(root.path().join("rollouts")).unwrap();
        let allocate = || {
            drop(store.allocate_ids(1).unwrap());
            disk.tick()
        };
        let first = thread::scope(|scope| {
            let handles: Vec<_> = (0..THREADS).map(|_| scope.spawn(allocate)).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).min()
        });
        let trace: Vec<Op> = disk.trace().into_iter().filter(is_log).collect();
        let write = trace.iter().find(|op| op.kind == OpKind::Write && op.offset >= 4096).unwrap();
        let sync = trace.iter().find(|op| op.kind == OpKind::SyncData && op.begun > write.ended).unwrap();
        assert!(Some(sync.ended) < first, "ids at tick {first:?}, their reservation is durable at {}", sync.ended);
    }
}

#[test]
fn d1_each_ok_of_one_thread_follows_a_sync_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = check(Arc::new(OsDisk), &dir.path().join("rollouts"), 1);
    assert!(syncs as u64 >= THREADS * BATCHES, "{syncs} syncs: one thread shares none");
}

#[test]
fn d1_each_ok_of_eight_threads_follows_a_sync_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    check(Arc::new(OsDisk), &dir.path().join("rollouts"), THREADS);
}

#[test]
fn d1_each_ok_of_eight_threads_follows_a_sync_on_a_simulated_disk() {
    let disk = Hooked::with(Arc::new(SimDisk::new()), Grouping::of(THREADS));
    check(Arc::new(disk), DIR.as_ref(), THREADS);
}

#[test]
fn a_replaced_manifest_is_whole_and_durable_before_its_name() {
    let disk = SimDisk::new();
    let store = options(Arc::new(disk.clone())).open(DIR).unwrap();
    (0..4).for_each(|number| commit(&store, number * 50));
    store.close().unwrap();
    let trace = disk.trace();
    let renames = trace.iter().filter(|op| op.kind == OpKind::Rename);
    let mut count = 0;
    for rename in renames {
        count += 1;
        let of_file = |op: &&Op| op.path == rename.path && op.ended < rename.begun;
        let write = trace.iter().filter(of_file).rfind(|op| op.kind == OpKind::Write).unwrap();
        let sync = trace.iter().filter(of_file).find(|op| op.kind == OpKind::SyncData && op.begun > write.ended);
        assert!(sync.is_some_and(|sync| sync.ok), "renamed before it was durable: {rename:?}");
    }
    assert!(count >= 3, "the first generation, the first segment's, and the last one");
}

#[test]
fn one_sync_covers_the_batches_of_several_threads() {
    let disk = SimDisk::new();
    let grouping = Arc::new(Hooked::with(Arc::new(disk.clone()), Grouping::of(THREADS)));
    let counting = CountingDisk::new(grouping);
    let store = options(Arc::new(counting.clone())).segment_bytes(1 << 30).open(DIR).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || (0..BATCHES).for_each(|round| commit(store, thread * BATCHES + round)));
        }
    });
    let syncs = counting.trace().iter().filter(|op| is_log(op) && op.kind == OpKind::SyncData).count() as u64;
    let batches = THREADS * BATCHES;
    assert!(syncs < batches / 2, "{syncs} syncs for {batches} batches");
}
