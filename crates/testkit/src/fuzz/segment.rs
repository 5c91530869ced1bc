//! Arbitrary bytes as a segment file that the manifest lists.

use rollstore::disk::sim::SimDisk;

use crate::bytes;
use crate::fuzz::Input;
use crate::fuzz::judge::judge;
use crate::fuzz::look::survive;
use crate::fuzz::planted::{CLOSED, Planted, RUNNING, last_manifest, last_segment};
use crate::fuzz::seal::{self, PAGE_BYTES, Seed};

/// The bytes are the segment as Sealed, not as Active.
pub(super) const SEALED: u8 = 1;
/// Checksums, magics and lengths are made right.
pub(super) const RIGHT: u8 = 1 << 1;
/// The bytes are the whole file: its header page too.
pub(super) const WHOLE: u8 = 1 << 2;
/// Frames are numbered as they should be.
pub(super) const IN_ORDER: u8 = 1 << 3;

/// Plants the bytes as the store's last segment: the first one says how, the others are the file's.
///
/// # Panics
/// Where the store panics, believes a length, or shows what it never held.
pub fn segment(input: &[u8]) {
    let mut input = Input::new(input);
    let mode = input.byte();
    let has = |flag: u8| mode & flag != 0;
    let sound: &Planted = if has(SEALED) { &CLOSED } else { &RUNNING };
    let disk = sound.copy();
    // The index covers what is sealed: without it, the bytes are looked at.
    let _ = rollstore::disk::Disk::remove_file(&disk, "/run/rollouts/index.redb".as_ref());
    let path = last_segment(&disk);
    let page = bytes::read(&disk, &path)[..PAGE_BYTES].to_vec();
    let seed = Seed::of(&page);
    let mut file = if has(WHOLE) { Vec::new() } else { page };
    file.extend_from_slice(input.rest());
    if !has(RIGHT) {
        bytes::write(&disk, &path, &file);
        return judge(&disk, sound);
    }
    seal::page(&mut file, &seed);
    seal::frames(&mut file, &seed, has(IN_ORDER));
    if has(SEALED) {
        list_as_sealed(&disk, &mut file, &seed);
    }
    bytes::write(&disk, &path, &file);
    survive(&disk);
}

fn list_as_sealed(disk: &SimDisk, file: &mut [u8], seed: &Seed) {
    let footer_crc = seal::trailer(file, seed);
    bytes::edit(disk, &last_manifest(disk), |manifest| {
        seal::row(manifest, seed, file.len(), footer_crc);
        seal::manifest(manifest);
    });
}
