//! Batches of many threads share syncs, and a power cut leaves a prefix of their order (D1, D2, D3; F3).
//!
//! Method: eight threads commit to a simulated disk whose syncs let the others write first, and whose power goes at some
//! operation. A batch is two rollouts, whose LSNs tell its place in the order of commits. Images tear the unsynced batches per sector: a later one may be whole where
//! an earlier one is gone, and that is no damage.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;

use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{Lsn, RolloutStore};
use rollstore_testkit::grouping::Grouping;
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::settings::{random, scale, seed};
use rollstore_testkit::store::{DIR, check_content, open, options, rollout};

const THREADS: u64 = 8;

/// Commits batches of two rollouts from every thread until the power goes. Returns the first ids of those acknowledged.
fn commit_until_dark(store: &RolloutStore) -> BTreeSet<u64> {
    let acknowledged = Mutex::new(BTreeSet::new());
    let run = |thread: u64| {
        for round in 0.. {
            let id = (thread << 32) + round * 2;
            let mut batch = store.batch();
            batch.insert(rollout(id, 0, 0)).unwrap();
            batch.insert(rollout(id + 1, 0, 0)).unwrap();
            if batch.commit().is_err() {
                return;
            }
            acknowledged.lock().unwrap().insert(id);
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || run(thread));
        }
    });
    acknowledged.into_inner().unwrap()
}

/// The number of log writes behind the last sync of the log.
fn unsynced_writes(disk: &SimDisk) -> usize {
    let trace = disk.trace();
    let log = trace.iter().filter(|op| op.path.to_string_lossy().contains("seg-"));
    let unsynced = log.rev().take_while(|op| op.kind != OpKind::SyncData || !op.ok);
    unsynced.filter(|op| op.kind == OpKind::Write).count()
}

/// Whole batches alone, all that were acknowledged, and no hole in the order of commits.
fn check(disk: &SimDisk, acknowledged: &BTreeSet<u64>, when: &str) -> usize {
    let store = open(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
    let live: BTreeSet<u64> = store.ids().iter().map(|id| id.get()).collect();
    let firsts: BTreeSet<u64> = live.iter().copied().filter(|id| id % 2 == 0).collect();
    let halves: Vec<&u64> = live.iter().filter(|id| !live.contains(&(**id ^ 1))).collect();
    assert!(halves.is_empty(), "{when}: {halves:?} without the other of their batch");
    let lost: Vec<&u64> = acknowledged.difference(&firsts).collect();
    assert!(lost.is_empty(), "{when}: acknowledged and lost: {lost:?}");
    let mut lsns: Vec<Lsn> = Vec::new();
    for id in store.ids() {
        let view = store.get(id).unwrap().unwrap();
        check_content(&view);
        lsns.push(view.insert_lsn());
    }
    lsns.sort_unstable();
    assert_eq!(lsns, (1..=live.len() as u64).map(Lsn::new).collect::<Vec<_>>(), "{when}: a hole in the order");
    firsts.len()
}

#[test]
fn f03_a_power_cut_among_batches_of_eight_threads_leaves_a_prefix() {
    let (mut several, mut lost, mut kept) = (0, 0, 0);
    for round in 0..24 * scale() {
        let disk = SimDisk::new();
        let grouping = Hooked::with(Arc::new(disk.clone()), Grouping::of(THREADS));
        let store = options(Arc::new(grouping)).segment_bytes(1 << 30).open(DIR).unwrap();
        let number = disk.operation_count() + 12 + random(seed(), round) % 120;
        disk.fail_at(number, Fault::PowerCut);
        let acknowledged = commit_until_dark(&store);
        store.abandon();
        let unsynced = unsynced_writes(&disk);
        several += u64::from(unsynced > 1);
        for nth in 0..12 {
            let style = ImageStyle::ALL[usize::try_from(nth).unwrap() % ImageStyle::ALL.len()];
            let image = CrashImage { seed: random(seed(), round * 100 + nth), style };
            let when = format!("power cut at {number}, {image:?}, {unsynced} batches unsynced");
            let found = check(&disk.crash(image), &acknowledged, &when);
            kept += u64::from(found > acknowledged.len());
            lost += u64::from(found == acknowledged.len());
        }
        check(&disk.kill(), &acknowledged, &format!("killed at {number}"));
    }
    assert!(several > 5, "{several}: cuts fall among several unsynced batches");
    assert!(lost > 0 && kept > 0, "{lost} images lost all that was under way, {kept} kept some");
}
