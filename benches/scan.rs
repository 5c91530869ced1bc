//! Scans: the stale 1 % of 100,000 rollouts, on a fresh store and after half of the ids were recomputed in random order.
//!
//! Settings: all defaults, lag 0. A scan reads the index in memory and returns ids in no order; nothing is read from disk,
//! written or synced. The baseline looks at a (version, id) of every rollout in one vector: what a trainer does with a dict.

mod common;

use std::convert::Infallible;
use std::hint::black_box;

use common::{insert_tiny, random, scratch, store};
use criterion::{Criterion, criterion_group, criterion_main};
use rand::seq::SliceRandom;
use rollstore::{Results, RolloutId, RolloutStore};

const ROLLOUTS: u64 = 100_000;
const STALE: u64 = ROLLOUTS / 100;

/// Makes exactly the last hundredth of the ids stale, by an advance and a recompute of the others. Half of those are
/// recomputed in random order, at steps of their own, where `scattered`.
fn make_stale(store: &RolloutStore, scattered: bool) {
    store.advance_ref_version(1, None).expect("an advance");
    let mut ids: Vec<RolloutId> = (0..ROLLOUTS - STALE).map(RolloutId::new).collect();
    if scattered {
        ids.shuffle(&mut random());
    }
    let (early, late) = ids.split_at(ids.len() / 2);
    for (step, ids) in (1..).zip(early.chunks(if scattered { 500 } else { 50_000 }).chain([late])) {
        let compute = |work: &rollstore::Plan| {
            Ok::<_, Infallible>(work.ids().map(|id| (id, vec![-0.25; 4])).collect::<Results>())
        };
        store.get_or_compute(ids, step, compute).expect("a recompute");
    }
}

fn sorted(mut ids: Vec<RolloutId>) -> Vec<RolloutId> {
    ids.sort_unstable();
    ids
}

fn scan(criterion: &mut Criterion) {
    for (name, scattered) in [("fresh store", false), ("half recomputed in random order", true)] {
        let dir = scratch();
        let store = store(&dir);
        insert_tiny(&store, 0..ROLLOUTS);
        make_stale(&store, scattered);
        let versions: Vec<(u64, RolloutId)> = store
            .ids()
            .into_iter()
            .map(|id| store.get(id).expect("a sound frame").expect("a live rollout"))
            .map(|rollout| (rollout.ref_version(), rollout.id()))
            .collect();
        let current = store.ref_version();
        let look_at_all = || -> Vec<RolloutId> {
            versions.iter().filter(|(version, _)| *version < current).map(|(_, id)| *id).collect()
        };
        assert_eq!(store.stale().len() as u64, STALE);
        assert_eq!(sorted(store.stale()), sorted(look_at_all()), "the same rows are found");

        let mut group = criterion.benchmark_group(format!("stale 1 % of 100 K, {name}"));
        group.bench_function("rollstore", |bencher| bencher.iter(|| black_box(store.stale())));
        group.bench_function("rollstore, count only", |bencher| bencher.iter(|| black_box(store.count_stale())));
        group.bench_function("raw: a loop over all", |bencher| bencher.iter(|| black_box(look_at_all())));
        group.finish();
    }
}

criterion_group!(benches, scan);
criterion_main!(benches);
