//! Warm random reads: 20,000 rollouts of 1,024 f32, read one at a time in random order.
//!
//! Settings: all defaults, mapped; every row was read once before, so that checksums are done and pages are in memory.
//! Nothing is written or synced while this runs. The baseline reads the same rows from one vector in memory: what is
//! left of the difference is the look-up, the header's checksum, the descriptor's check and the view.

mod common;

use std::hint::black_box;

use common::{BATCH_ROLLOUTS, ROW_VALUES, insert_rows, random, rows, scratch, store, sum};
use criterion::{Criterion, criterion_group, criterion_main};
use rand::RngExt;
use rollstore::RolloutId;

const ROLLOUTS: u64 = 20_000;

/// What a reader does with a row.
type UseRow = fn(&[f32]) -> f32;

fn get(criterion: &mut Criterion) {
    let (dir, mut random) = (scratch(), random());
    let store = store(&dir);
    let rows = rows(BATCH_ROLLOUTS, &mut random);
    let row_of = |id: u64| &rows[usize::try_from(id).expect("small") % rows.len()];
    insert_rows(&store, 0..ROLLOUTS, &rows);
    let read = |id: u64, use_row: UseRow| {
        let rollout = store.get(RolloutId::new(id)).expect("a sound frame").expect("a live rollout");
        use_row(rollout.old_logps().expect("old logps"))
    };
    let memory: Vec<f32> = (0..ROLLOUTS).flat_map(|id| row_of(id).iter().copied()).collect();
    let read_memory = |id: u64, use_row: UseRow| {
        let start = usize::try_from(id).expect("small") * ROW_VALUES;
        use_row(&memory[start..start + ROW_VALUES])
    };
    for id in 0..ROLLOUTS {
        assert_eq!(read(id, sum).to_bits(), read_memory(id, sum).to_bits(), "the same rows are compared");
    }

    let uses: [(&str, UseRow); 2] = [("first value", |row| row[0]), ("whole sum", sum)];
    for (name, use_row) in uses {
        let mut group = criterion.benchmark_group(format!("get, {name}"));
        group.bench_function("rollstore", |bencher| {
            bencher.iter(|| black_box(read(random.random_range(0..ROLLOUTS), use_row)));
        });
        group.bench_function("raw: a vector in memory", |bencher| {
            bencher.iter(|| black_box(read_memory(random.random_range(0..ROLLOUTS), use_row)));
        });
        group.finish();
    }
}

criterion_group!(benches, get);
criterion_main!(benches);
