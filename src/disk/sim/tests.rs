//! The simulated disk loses exactly what a real one may lose: what the tests of it share.

mod faults;
mod images;
mod names;

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use super::super::{Access, Disk, DiskFile, EntryKind, LockError};
use super::*;

const SEEDS: std::ops::Range<u64> = 0..200;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn write(file: &Arc<dyn DiskFile>, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_vectored_at(&mut [IoSlice::new(bytes)], offset)
}

fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(path(name), Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn exists(disk: &SimDisk, name: &str) -> bool {
    disk.entry_kind(path(name)).unwrap().is_some()
}

fn image(style: ImageStyle, seed: u64) -> CrashImage {
    CrashImage { seed, style }
}

/// A disk with one durable file `f` of these bytes.
fn with_file(bytes: &[u8]) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    let file = disk.create(path("f")).unwrap();
    write(&file, bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path("/")).unwrap();
    (disk, file)
}

/// `f` as each seed of a style leaves it.
fn remains(disk: &SimDisk, style: ImageStyle) -> Vec<Vec<u8>> {
    SEEDS.map(|seed| read(&disk.crash(image(style, seed)), "f")).collect()
}
