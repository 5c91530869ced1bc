//! Bytes of a store's files, read and changed behind its back.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use rollstore::disk::{Access, Disk};

use crate::fuzz::seal;

/// The whole content of a file.
///
/// # Panics
/// Where it cannot be read.
#[must_use]
pub fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let len = file.len().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_exact_at(&mut bytes, 0).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

/// Makes a file hold exactly these bytes, durably; creates it where it is missing.
///
/// # Panics
/// Where it cannot be written.
pub fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let written = || {
        let file = match disk.entry_kind(path)? {
            Some(_) => disk.open(path, Access::ReadWrite)?,
            None => disk.create(path)?,
        };
        file.set_len(bytes.len() as u64)?;
        file.write_all_vectored_at(&mut [IoSlice::new(bytes)], 0)?;
        file.sync_data()?;
        disk.sync_dir(path.parent().unwrap_or(Path::new("")))
    };
    written().unwrap_or_else(|error: std::io::Error| panic!("{}: {error}", path.display()));
}

/// Flips one bit of a file, durably.
///
/// # Panics
/// Where the file ends before it.
pub fn flip(disk: &dyn Disk, path: &Path, offset: u64, bit: u8) {
    edit(disk, path, |bytes| bytes[usize::try_from(offset).unwrap_or(usize::MAX)] ^= 1 << bit);
}

/// Changes a file's content, its length included, durably.
///
/// # Panics
/// Where it cannot be read or written.
pub fn edit(disk: &dyn Disk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read(disk, path);
    change(&mut bytes);
    write(disk, path, &bytes);
}

/// Changes the footer of a sealed segment, under checksums that are right again, the newest manifest's among them. The
/// change is given the footer's rows: see `docs/format.md`.
///
/// # Panics
/// Where it cannot be read or written, or the segment is not sealed.
pub fn edit_footer(disk: &dyn Disk, segment: &Path, change: impl FnOnce(&mut [u8])) {
    let dir = segment.parent().unwrap_or(Path::new(""));
    let mut bytes = read(disk, segment);
    let (seed, trailer) = (seal::Seed::of(&bytes), bytes.len().saturating_sub(64));
    let start = bytes[trailer + 24..trailer + 32].try_into().map_or(0, u64::from_le_bytes);
    change(&mut bytes[usize::try_from(start).unwrap_or_default()..trailer]);
    let footer_crc = seal::trailer(&mut bytes, &seed);
    write(disk, segment, &bytes);
    let newest = manifests(disk, dir).pop().unwrap_or_else(|| panic!("{} holds no manifest", dir.display()));
    edit(disk, &newest, |manifest| {
        seal::row(manifest, &seed, bytes.len(), footer_crc);
        seal::manifest(manifest);
    });
}

/// Removes a file's name, durably.
///
/// # Panics
/// Where it cannot be removed.
pub fn remove(disk: &dyn Disk, path: &Path) {
    let removed = disk.remove_file(path).and_then(|()| disk.sync_dir(path.parent().unwrap_or(Path::new(""))));
    removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The segment files of a store, oldest first.
#[must_use]
pub fn segments(disk: &dyn Disk, dir: impl AsRef<Path>) -> Vec<PathBuf> {
    named(disk, dir.as_ref(), "seg-")
}

/// The manifest generations of a store, oldest first.
#[must_use]
pub fn manifests(disk: &dyn Disk, dir: impl AsRef<Path>) -> Vec<PathBuf> {
    named(disk, dir.as_ref(), "MANIFEST-")
}

fn named(disk: &dyn Disk, dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let names = disk.list(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let ours = names.iter().filter(|name| name.to_str().is_some_and(|name| name.starts_with(prefix)));
    let mut paths: Vec<PathBuf> = ours.map(|name| dir.join(name)).collect();
    paths.sort();
    paths
}

/// Where these f32 values lie in a file, as their one occurrence: the place of a column.
///
/// # Panics
/// Where they occur nowhere or twice.
#[must_use]
pub fn find_f32(disk: &dyn Disk, path: &Path, values: &[f32]) -> u64 {
    let wanted: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    find(disk, path, &wanted)
}

/// Where these u32 values lie in a file, as their one occurrence: the place of a column.
///
/// # Panics
/// Where they occur nowhere or twice.
#[must_use]
pub fn find_u32(disk: &dyn Disk, path: &Path, values: &[u32]) -> u64 {
    let wanted: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    find(disk, path, &wanted)
}

/// Where the frame begins that a place in a segment, such as that of a column, lies in.
///
/// # Panics
/// Where no frame begins before it.
#[must_use]
pub fn frame_around(disk: &dyn Disk, segment: &Path, place: u64) -> u64 {
    let bytes = read(disk, segment);
    let before = &bytes[..usize::try_from(place).unwrap_or_default()];
    let unit = before.chunks(64).rposition(|unit| unit.starts_with(&seal::FRAME_MAGIC));
    unit.unwrap_or_else(|| panic!("{}: no frame begins before byte {place}", segment.display())) as u64 * 64
}

fn find(disk: &dyn Disk, path: &Path, wanted: &[u8]) -> u64 {
    let bytes = read(disk, path);
    let places: Vec<usize> = (0..bytes.len()).step_by(64).filter(|at| bytes[*at..].starts_with(wanted)).collect();
    let [place] = places[..] else { panic!("{}: found at {places:?}, not once", path.display()) };
    place as u64
}
