//! Gathers of 64 random rollouts out of 20,000 into a padded `[64, 1024]` buffer.
//!
//! Settings: all defaults, mapped; rollouts of 1,024 f32, each read once before, so that checksums are done and pages are in
//! memory. Nothing is written or synced while this runs. The baseline copies the same rows from one vector in memory,
//! picked by the same ids: what is left of the difference is the look-up and the check that each row is fresh.

mod common;

use common::{BATCH_ROLLOUTS, ROW_VALUES, insert_rows, random, rows, scratch, store};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt;
use rollstore::{Column, Padded, RolloutId, Stale};

const ROLLOUTS: u64 = 20_000;
const GATHERED: usize = 64;

fn gather(criterion: &mut Criterion) {
    let (dir, mut random) = (scratch(), random());
    let store = store(&dir);
    let rows = rows(BATCH_ROLLOUTS, &mut random);
    insert_rows(&store, 0..ROLLOUTS, &rows);
    let memory: Vec<f32> =
        rows.iter().cycle().take(usize::try_from(ROLLOUTS).expect("small")).flatten().copied().collect();

    let copy = |ids: &[RolloutId], tensor: &mut [f32]| {
        for (out, id) in tensor.chunks_exact_mut(ROW_VALUES).zip(ids) {
            let start = usize::try_from(id.get()).expect("small") * ROW_VALUES;
            out.copy_from_slice(&memory[start..start + ROW_VALUES]);
        }
    };
    let gather = |ids: &[RolloutId], tensor: &mut [f32]| {
        let mut padded = Padded::new(tensor, ROW_VALUES, 0.0);
        store.gather(ids, Column::OldLogps, 0, Stale::Error, &mut padded).expect("fresh rows");
    };
    let mut tensors = [vec![0.0; GATHERED * ROW_VALUES], vec![1.0; GATHERED * ROW_VALUES]];
    let all: Vec<RolloutId> = (0..ROLLOUTS).map(RolloutId::new).collect();
    for ids in all.chunks_exact(GATHERED) {
        let [gathered, copied] = &mut tensors;
        gather(ids, gathered);
        copy(ids, copied);
        assert_eq!(gathered, copied, "the same rows are compared");
    }

    let [tensor, _] = &mut tensors;
    let mut some =
        || -> Vec<RolloutId> { (0..GATHERED).map(|_| RolloutId::new(random.random_range(0..ROLLOUTS))).collect() };
    let mut group = criterion.benchmark_group("gather 64 rows");
    group.throughput(Throughput::Bytes((GATHERED * ROW_VALUES * size_of::<f32>()) as u64));
    group.bench_function("rollstore", |bencher| {
        bencher.iter_batched(&mut some, |ids| gather(&ids, tensor), criterion::BatchSize::SmallInput);
    });
    group.bench_function("raw: memcpy", |bencher| {
        bencher.iter_batched(&mut some, |ids| copy(&ids, tensor), criterion::BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(benches, gather);
criterion_main!(benches);
