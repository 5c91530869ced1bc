//! Group commit, publication and the index flush keep their promises in whatever order threads take their steps.
//!
//! Method: a whole store on a simulated disk, whose locks, condition variables and threads belong to a scheduler that
//! chooses the next step from a seed: at random, and by priorities that change at few points. The disk gives way around
//! each operation on the log. Built by `cargo xtask shuttle` alone; `ROLLSTORE_TEST_SCALE` multiplies the orders.

#![cfg(shuttle)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{CompactBudget, Durability, ErrorKind, Reason, RolloutStore};
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::settings::{scale, seed};
use rollstore_testkit::state::{StoreState, assert_same};
use rollstore_testkit::store::{DIR, check_content, ids, open, options, recompute_all, rollout_of};
use rollstore_testkit::yielding::Yielding;
use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// Orders of each of the two kinds, times the scale.
const ORDERS: usize = 250;
/// Points at which priorities change: most faults of concurrency need no more than two.
const CHANGES: usize = 3;
/// Two rollouts of so many tokens fill the smallest segment.
const SEGMENT_TOKENS: usize = 3 << 10;
/// Times that a reader looks: more than there are batches.
const LOOKS: usize = 20;

/// Runs `body` under many orders; a failure prints the schedule that repeats it.
fn in_many_orders(body: impl Fn() + Send + Sync + 'static) {
    let orders = ORDERS * usize::try_from(scale()).unwrap();
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let body = Arc::new(body);
    let again = Arc::clone(&body);
    Runner::new(RandomScheduler::new_from_seed(seed(), orders), config.clone()).run(move || body());
    Runner::new(PctScheduler::new_from_seed(seed(), CHANGES, orders), config).run(move || again());
}

fn store(disk: &SimDisk) -> RolloutStore {
    let yielding = Hooked::with(Arc::new(disk.clone()), Yielding(thread::yield_now));
    options(Arc::new(yielding)).open(DIR).unwrap()
}

/// A Buffered store, whose thread syncs as soon as it is its turn.
fn buffered_store(disk: &SimDisk) -> RolloutStore {
    let yielding = Hooked::with(Arc::new(disk.clone()), Yielding(thread::yield_now));
    options(Arc::new(yielding)).durability(Durability::Buffered { max_delay: Duration::ZERO }).open(DIR).unwrap()
}

/// Commits a batch of two rollouts, `2 * number` and the one behind it.
fn commit(store: &RolloutStore, number: u64, tokens: usize) -> rollstore::Result<()> {
    let mut batch = store.batch();
    batch.insert(rollout_of(2 * number, 0, 0, tokens))?;
    batch.insert(rollout_of(2 * number + 1, 0, 0, tokens))?;
    batch.commit().map(drop)
}

/// Starts threads that commit two batches each; what they acknowledge is told with the disk as a power cut leaves it then.
fn writers(store: &RolloutStore, threads: u64, tokens: usize, acked: &Acked) -> Vec<thread::JoinHandle<()>> {
    let write = |thread: u64| {
        let (store, acked) = (store.clone(), acked.clone());
        thread::spawn(move || {
            for number in [2 * thread, 2 * thread + 1] {
                match commit(&store, number, tokens) {
                    Ok(()) => acked.tell(&store, number),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}"),
                }
            }
        })
    };
    (0..threads).map(write).collect()
}

/// What was acknowledged, and the last image of the medium that was taken at such a moment.
#[derive(Clone)]
struct Acked {
    disk: SimDisk,
    told: Arc<Mutex<(BTreeSet<u64>, Option<SimDisk>)>>,
}

impl Acked {
    fn new(disk: &SimDisk) -> Self {
        Self { disk: disk.clone(), told: Arc::default() }
    }

    fn tell(&self, store: &RolloutStore, number: u64) {
        let image = durable(&self.disk);
        let mut told = self.told.lock().unwrap();
        told.0.insert(number);
        told.1 = Some(image);
        drop(told);
        assert!(store.get((2 * number).into()).unwrap().is_some(), "a writer sees its own batch");
    }

    fn numbers(&self) -> BTreeSet<u64> {
        self.told.lock().unwrap().0.clone()
    }

    /// Every batch that was acknowledged when the image was taken is on it, whole.
    fn check(&self) {
        let (numbers, image) = self.told.lock().unwrap().clone();
        let Some(image) = image else { return };
        assert_holds(&image, &numbers);
    }
}

/// What a power cut leaves now if the medium kept nothing but what was synced.
fn durable(disk: &SimDisk) -> SimDisk {
    disk.as_if_crashed(CrashImage { seed: 0, style: ImageStyle::NothingUnsynced })
}

/// The batches that a store shows, each whole.
fn shown(store: &RolloutStore) -> BTreeSet<u64> {
    let ids: BTreeSet<u64> = store.ids().iter().map(|id| id.get()).collect();
    let halves: Vec<&u64> = ids.iter().filter(|id| !ids.contains(&(**id ^ 1))).collect();
    assert!(halves.is_empty(), "{halves:?} without the other of their batch");
    ids.iter().map(|id| id / 2).collect()
}

fn assert_holds(disk: &SimDisk, numbers: &BTreeSet<u64>) {
    let store = options(Arc::new(disk.clone())).read_only(true).open(DIR).unwrap();
    let found = shown(&store);
    assert!(found.is_superset(numbers), "acknowledged {numbers:?}, durable {found:?}");
    for id in store.ids() {
        check_content(&store.get(id).unwrap().unwrap());
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn every_writer_returns_and_its_batch_is_durable() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        join(writers(&store, 3, 16, &acked));
        assert_eq!(acked.numbers().len(), 6);
        acked.check();
        store.abandon();
    });
}

#[test]
fn readers_see_only_what_a_sync_made_durable() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        let threads = writers(&store, 2, 16, &acked);
        let mut before = BTreeSet::new();
        for _ in 0..LOOKS {
            let seen = shown(&store);
            if seen != before {
                assert_holds(&durable(&disk), &seen);
                before = seen;
            }
            thread::yield_now();
        }
        join(threads);
        store.abandon();
    });
}

#[test]
fn a_reader_sees_batches_in_the_order_of_their_commits() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        let threads = writers(&store, 3, 16, &acked);
        let mut before = 0;
        for _ in 0..LOOKS {
            let lsn = |id| store.get(id).unwrap().unwrap().insert_lsn().get();
            let mut lsns: Vec<u64> = store.ids().into_iter().map(lsn).collect();
            lsns.sort_unstable();
            assert_eq!(lsns, (1..=lsns.len() as u64).collect::<Vec<_>>(), "a hole in the order");
            assert!(lsns.len() >= before, "what was seen stays");
            before = lsns.len();
            thread::yield_now();
        }
        join(threads);
        store.abandon();
    });
}

#[test]
fn a_failed_sync_reaches_every_waiter_and_nothing_follows_it() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        commit(&store, 100, 16).unwrap();
        disk.fail_next(OpKind::SyncData, "seg-00000001.log", Fault::Eio);
        join(writers(&store, 3, 16, &acked));
        // At least the batch whose sync failed, and each of its thread's after it.
        assert!(acked.numbers().len() < 5, "{:?}", acked.numbers());
        let again = commit(&store, 101, 16).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Poisoned, "{again}");
        let mut kept = acked.numbers();
        kept.insert(100);
        assert_eq!(shown(&store), kept, "readers see what was acknowledged and no more");
        store.abandon();
        assert_holds(&durable(&disk), &kept);
    });
}

/// What an index says must be what the log says, now and after other frames took the numbers of lost ones.
fn assert_index_agrees(disk: &SimDisk) {
    let index = Path::new(DIR).join("index.redb");
    let without = || {
        let disk = disk.kill();
        let _ = rollstore::disk::Disk::remove_file(&disk, &index);
        disk
    };
    let state = |disk: &SimDisk, write_on: bool| {
        let store = open(disk).unwrap();
        if write_on {
            for number in 200..206 {
                commit(&store, number, 16).unwrap();
            }
        }
        store.abandon();
        let store = open(disk).unwrap();
        let state = StoreState::of(&store).unwrap();
        store.abandon();
        state
    };
    assert_same(&state(&disk.kill(), false), &state(&without(), false), "with the index and without it");
    assert_same(&state(&disk.kill(), true), &state(&without(), true), "written on, with the index and without it");
}

#[test]
fn an_index_on_disk_is_never_ahead_of_the_log() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        // Three batches fit into a segment: what is lost of one lies behind what is kept.
        let threads = writers(&store, 3, SEGMENT_TOKENS / 3, &acked);
        for _ in 0..thread_rng().next_u64() % 40 {
            thread::yield_now();
        }
        let image = durable(&disk);
        join(threads);
        store.abandon();
        assert_index_agrees(&image);
    });
}

#[test]
fn an_index_flushed_beside_writers_is_the_log() {
    // All in one segment, which is never finished; a segment each.
    for tokens in [16, SEGMENT_TOKENS] {
        in_many_orders(move || {
            let disk = SimDisk::new();
            let (store, acked) = (store(&disk), Acked::new(&disk));
            let threads = writers(&store, 2, tokens, &acked);
            thread::yield_now();
            store.flush_index().unwrap();
            join(threads);
            // The last batch is written again by the next opening: one that is lost has another behind it.
            (100..102).for_each(|number| commit(&store, number, 16).unwrap());
            store.abandon();
            assert_index_agrees(&disk);
        });
    }
}

#[test]
fn a_checkpoint_beside_writers_is_one_moment() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let (store, acked) = (store(&disk), Acked::new(&disk));
        let threads = writers(&store, 2, 16, &acked);
        thread::yield_now();
        let before = acked.numbers();
        store.checkpoint("/saved").unwrap();
        join(threads);
        acked.check();
        store.abandon();
        let saved = options(Arc::new(durable(&disk))).read_only(true).open("/saved").unwrap();
        assert!(shown(&saved).is_superset(&before), "what was acknowledged before is in it");
    });
}

#[test]
fn a_close_beside_writers_keeps_what_was_acknowledged() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let store = store(&disk);
        let acked = Arc::new(Mutex::new(BTreeSet::new()));
        let write = |thread: u64| {
            let (store, acked) = (store.clone(), Arc::clone(&acked));
            thread::spawn(move || match commit(&store, thread, 16) {
                Ok(()) => drop(acked.lock().unwrap().insert(thread)),
                Err(error) => assert!(error.to_string().contains("closed"), "{error}"),
            })
        };
        let threads = (0..3).map(write).collect();
        for _ in 0..thread_rng().next_u64() % 10 {
            thread::yield_now();
        }
        store.close().unwrap();
        join(threads);
        let acked = acked.lock().unwrap().clone();
        assert_holds(&durable(&disk), &acked);
        assert_index_agrees(&disk);
    });
}

/// Starts threads that each commit two batches to a Buffered store; the second of each is followed by a barrier.
fn buffered_writers(store: &RolloutStore, threads: u64, tokens: usize, disk: &SimDisk) -> Vec<thread::JoinHandle<()>> {
    let write = |thread: u64| {
        let (store, disk) = (store.clone(), disk.clone());
        thread::spawn(move || {
            for number in [2 * thread, 2 * thread + 1] {
                commit(&store, number, tokens).unwrap();
                assert!(shown(&store).contains(&number), "a writer sees its own batch");
                let written = disk.as_if_crashed(CrashImage { seed: 0, style: ImageStyle::Everything });
                assert_holds(&written, &BTreeSet::from([number]));
            }
            store.sync().unwrap();
            assert_holds(&durable(&disk), &BTreeSet::from([2 * thread, 2 * thread + 1]));
        })
    };
    (0..threads).map(write).collect()
}

#[test]
fn buffered_commits_survive_a_kill_and_what_a_barrier_returned_for_a_power_cut() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let store = buffered_store(&disk);
        join(buffered_writers(&store, 2, 16, &disk));
        store.sync().unwrap();
        assert_eq!(store.durable_lsn(), store.stats().unwrap().last_lsn);
        store.close().unwrap();
        assert_holds(&durable(&disk), &(0..4).collect());
    });
}

#[test]
fn what_a_power_cut_leaves_of_buffered_commits_is_a_prefix_and_not_older_than_what_was_called_durable() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let store = buffered_store(&disk);
        let threads = buffered_writers(&store, 2, 16, &disk);
        for _ in 0..LOOKS {
            let called_durable = store.durable_lsn().get();
            let found = options(Arc::new(durable(&disk))).read_only(true).open(DIR);
            if let Ok(found) = found {
                let lsns: BTreeSet<u64> =
                    found.ids().iter().map(|id| found.get(*id).unwrap().unwrap().insert_lsn().get()).collect();
                let count = lsns.len() as u64;
                assert_eq!(lsns, (1..=count).collect(), "a hole in the order");
                assert!(count >= called_durable, "{count} are left, {called_durable} were called durable");
            }
            thread::yield_now();
        }
        join(threads);
        store.abandon();
    });
}

#[test]
fn an_index_on_disk_is_never_ahead_of_a_buffered_log() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let store = buffered_store(&disk);
        // Three batches fit into a segment: an index flush comes with the second.
        let threads = buffered_writers(&store, 2, SEGMENT_TOKENS / 3, &disk);
        for _ in 0..thread_rng().next_u64() % 40 {
            thread::yield_now();
        }
        store.flush_index().unwrap();
        let image = durable(&disk);
        join(threads);
        store.abandon();
        assert_index_agrees(&image);
    });
}

#[test]
fn a_compaction_beside_changes_and_readers_loses_nothing_and_brings_nothing_back() {
    in_many_orders(|| {
        let disk = SimDisk::new();
        let store = store(&disk);
        // Segments of two, one of each alive.
        (0..3).for_each(|number| commit(&store, number, SEGMENT_TOKENS).unwrap());
        store.retire(&ids([1, 3, 5]), Reason::Trained).unwrap();
        store.advance_ref_version(1, None).unwrap();
        store.advance_ref_version(2, None).unwrap();

        let compacting = store.clone();
        let compact = thread::spawn(move || drop(compacting.compact(CompactBudget::all()).unwrap()));
        let changing = store.clone();
        let change = thread::spawn(move || {
            changing.retire(&ids([0]), Reason::Stale).unwrap();
            recompute_all(&changing, 2).unwrap();
            changing.insert(rollout_of(1, 2, 2, 16)).unwrap();
        });
        for _ in 0..LOOKS {
            for id in store.ids() {
                store.get(id).unwrap().iter().for_each(check_content);
            }
            thread::yield_now();
        }
        join(vec![compact, change]);
        store.compact(CompactBudget::all()).unwrap();
        let state = StoreState::of(&store).unwrap();
        assert_eq!(state.rollouts.keys().map(|id| id.get()).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(store.count_stale(), 0);
        store.abandon();
        let reopened = StoreState::of(&open(&disk.kill()).unwrap()).unwrap();
        assert_same(&reopened, &state, "reopened");
        assert_index_agrees(&disk);
    });
}
