//! Opening after an unclean stop: 50,000 rollouts of 1,024 f32, closed once, then 512 more that no close followed.
//!
//! Settings: all defaults. The store was let go as by `kill -9`: the last segment has no footer, and the index lags
//! behind it. Opening loads the index, scans the tail, writes again what nothing attests, seals it and writes a manifest
//! generation: a handful of syncs. In the second case the index file was deleted, and is rebuilt from the footers. The
//! baseline reads every byte of the log once, which is what a store without footers and index must do at least.
//!
//! Each iteration opens the same directory anew, with segments linked and the rest copied; that is not measured.

mod common;

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use common::{BATCH_ROLLOUTS, insert_rows, random, rows, scratch, store};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rollstore::RolloutStore;
use tempfile::TempDir;

const CLOSED: u64 = 50_000;
const UNCLEAN: u64 = BATCH_ROLLOUTS as u64;

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path())
}

fn is_segment(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "log")
}

/// The same store once more, without the files whose names start with `without`. Segments are linked: recovery never
/// writes to one that is there.
fn again(from: &Path, without: &str) -> TempDir {
    let to = scratch();
    for file in files(from) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a plain name");
        if without.is_empty() || !name.starts_with(without) {
            let to = to.path().join(name);
            if is_segment(&file) {
                fs::hard_link(&file, to).expect("a link");
            } else {
                fs::copy(&file, to).expect("a copy");
            }
        }
    }
    to
}

fn open(dir: &TempDir) -> RolloutStore {
    let store = RolloutStore::options().create(false).open(dir.path()).expect("recovery");
    assert_eq!(store.len() as u64, CLOSED + UNCLEAN, "nothing is lost");
    store
}

fn reopen(criterion: &mut Criterion) {
    let dir = scratch();
    let built = store(&dir);
    let rows = rows(BATCH_ROLLOUTS, &mut random());
    insert_rows(&built, 0..CLOSED, &rows);
    built.close().expect("a clean close");
    let crashed = store(&dir);
    insert_rows(&crashed, CLOSED..CLOSED + UNCLEAN, &rows);
    crashed.abandon();
    let crashed = dir.path().join("store");

    let mut group = criterion.benchmark_group("open after an unclean stop");
    group.sample_size(10);
    for (name, without) in [("rollstore, with the index", ""), ("rollstore, index deleted", "index")] {
        group.bench_function(name, |bencher| {
            let setup = || again(&crashed, without);
            // The store goes with its directory, outside of what is measured.
            let run = |dir: TempDir| (open(&dir), dir);
            bencher.iter_batched(setup, run, BatchSize::PerIteration);
        });
    }
    group.bench_function("raw: read every byte of the log", |bencher| {
        bencher.iter(|| {
            let segments = files(&crashed).filter(|file| is_segment(file));
            segments.map(|segment| black_box(fs::read(segment).expect("a segment")).len()).sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(benches, reopen);
criterion_main!(benches);
