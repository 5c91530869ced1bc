//! Opening after an unclean stop: 100,000 rollouts, closed once, then 2,000 more that no close followed.
//!
//! Settings: all defaults. The store was let go as by `kill -9`: the last segment has no footer, and the index lags
//! behind it. Opening loads the index, scans the tail, writes again what nothing attests, seals it and writes a manifest
//! generation: a handful of syncs. In the second case the index file was deleted, and is rebuilt from the footers. The
//! baseline reads every byte of the log once, which is what a store without footers and index must do at least.
//!
//! Each iteration opens a fresh copy of the same directory; copying is not measured.

mod common;

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use common::{insert_tiny, scratch, store};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rollstore::RolloutStore;
use tempfile::TempDir;

const CLOSED: u64 = 100_000;
const UNCLEAN: u64 = 2_000;

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path())
}

/// A copy of the store, without the files whose names start with `without`.
fn copy(from: &Path, without: &str) -> TempDir {
    let to = scratch();
    for file in files(from) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a plain name");
        if without.is_empty() || !name.starts_with(without) {
            fs::copy(&file, to.path().join(name)).expect("a copy");
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
    insert_tiny(&built, 0..CLOSED);
    built.close().expect("a clean close");
    let crashed = store(&dir);
    insert_tiny(&crashed, CLOSED..CLOSED + UNCLEAN);
    crashed.abandon();
    let crashed = dir.path().join("store");

    let mut group = criterion.benchmark_group("open after an unclean stop");
    group.sample_size(10);
    for (name, without) in [("with the index", ""), ("index deleted", "index")] {
        group.bench_function(name, |bencher| {
            let setup = || copy(&crashed, without);
            // The store goes with the copy, outside of what is measured.
            let run = |dir: TempDir| (open(&dir), dir);
            bencher.iter_batched(setup, run, BatchSize::PerIteration);
        });
    }
    group.bench_function("reading every byte of the log", |bencher| {
        bencher.iter(|| {
            let segments = files(&crashed).filter(|file| file.extension().is_some_and(|extension| extension == "log"));
            segments.map(|segment| black_box(fs::read(segment).expect("a segment")).len()).sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(benches, reopen);
criterion_main!(benches);
