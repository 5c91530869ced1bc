//! Durable ingest: batches of 512 rollouts of 1,024 f32 each, one commit a batch.
//!
//! Settings: all defaults; arrays are borrowed; contents do not compress. Guarantee: each commit survives power loss when
//! it returns. Syncs: one a commit, and a few for each segment of 256 MiB (header, footer, manifest). The baseline
//! appends the same array bytes to a plain file by one vectored write and syncs once a batch; it has no checksums, no
//! index and no names.
//!
//! Each sample starts from an empty directory, so that the disk never fills up.

mod common;

use std::time::Instant;

use common::{BATCH_ROLLOUTS, ROW_VALUES, RawLog, random, rows, scratch, store};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use rollstore::NewRollout;

fn ingest(criterion: &mut Criterion) {
    let rows = rows(BATCH_ROLLOUTS, &mut random());
    let mut group = criterion.benchmark_group("ingest");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.throughput(Throughput::Bytes((BATCH_ROLLOUTS * ROW_VALUES * size_of::<f32>()) as u64));

    group.bench_function("rollstore", |bencher| {
        bencher.iter_custom(|batches| {
            let dir = scratch();
            let store = store(&dir);
            let began = Instant::now();
            for (batch, first) in (0..batches).map(|batch| (batch, batch * BATCH_ROLLOUTS as u64)) {
                let mut commit = store.batch();
                for (id, row) in (first..).zip(&rows) {
                    commit.insert(NewRollout::new(id, batch).old_logps(row, 0)).expect("a sound rollout");
                }
                commit.commit().expect("a commit");
            }
            let took = began.elapsed();
            store.abandon();
            took
        });
    });
    group.bench_function("raw: append and sync", |bencher| {
        bencher.iter_custom(|batches| {
            let dir = scratch();
            let mut raw = RawLog::create(&dir);
            let began = Instant::now();
            for _ in 0..batches {
                raw.append(rows.iter().map(|row| bytemuck::cast_slice(row)));
            }
            began.elapsed()
        });
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
