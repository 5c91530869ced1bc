//! `advance_ref_version` with 1,000, 100,000 and 1,000,000 live rollouts: its cost must not depend on their number.
//!
//! Settings: all defaults. Guarantee: each advance survives power loss when it returns, and makes every rollout stale.
//! Syncs: one an advance, and a manifest generation (two more) every 256 advances, when reserved versions run out. The
//! baseline appends as many bytes to a plain file and syncs.
//!
//! Each store is built once, closed, and opened again, so that no index is being written meanwhile.

mod common;

use common::{RawLog, insert_tiny, scratch, store};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// Bytes of an advance in the log: header and descriptor.
const FRAME_BYTES: usize = 256;

fn advance(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("advance_ref_version");
    group.sample_size(20);
    for rollouts in [1_000, 100_000, 1_000_000] {
        let dir = scratch();
        let built = store(&dir);
        insert_tiny(&built, 0..rollouts);
        built.close().expect("a clean close");
        let store = store(&dir);
        let (before, version) = (store.stats().expect("stats").log_bytes, store.ref_version());
        store.advance_ref_version(0, None).expect("an advance");
        assert_eq!(store.count_stale(), rollouts, "version {version} is behind");
        let frame = store.stats().expect("stats").log_bytes - before;
        assert!(frame <= FRAME_BYTES as u64 + 4096, "one frame, and the header of the new segment: {frame}");
        group.bench_function(BenchmarkId::new("rollstore", rollouts), |bencher| {
            bencher.iter(|| store.advance_ref_version(0, None).expect("an advance"));
        });
        store.abandon();
    }
    let dir = scratch();
    let mut raw = RawLog::create(&dir);
    let bytes = [7; FRAME_BYTES];
    group.bench_function("raw: append and sync", |bencher| bencher.iter(|| raw.append([&bytes[..]].into_iter())));
    group.finish();
}

criterion_group!(benches, advance);
criterion_main!(benches);
