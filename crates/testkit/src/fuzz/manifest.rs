//! Arbitrary bytes as the newest manifest, beside an older sound one and alone.

use crate::bytes;
use crate::fuzz::Input;
use crate::fuzz::judge::judge;
use crate::fuzz::look::survive;
use crate::fuzz::planted::{CLOSED, Planted, RUNNING};
use crate::fuzz::seal;
use crate::store::DIR;

/// The store was closed, so that every segment is sealed.
pub(super) const QUIET: u8 = 1;
/// Magic, length and checksum are made right.
pub(super) const RIGHT: u8 = 1 << 1;
/// The bytes are changes to the sound manifest: place, value.
pub(super) const CHANGES: u8 = 1 << 2;
/// No other generation stands beside it.
pub(super) const ALONE: u8 = 1 << 3;

/// Plants the bytes as the newest manifest: the first one says how.
///
/// # Panics
/// Where the store panics, believes a length, or shows what it never held.
pub fn manifest(input: &[u8]) {
    let mut input = Input::new(input);
    let mode = input.byte();
    let has = |flag: u8| mode & flag != 0;
    let sound: &Planted = if has(QUIET) { &CLOSED } else { &RUNNING };
    let disk = sound.copy();
    let mut generations = bytes::manifests(&disk, DIR);
    let path = generations.pop().expect("a store has a manifest");
    if has(ALONE) {
        for older in &generations {
            bytes::remove(&disk, older);
        }
    }
    bytes::edit(&disk, &path, |file| {
        if has(CHANGES) {
            while !input.is_empty() {
                let at = usize::from(input.short()) % file.len();
                file[at] = input.byte();
            }
        } else {
            *file = input.rest().to_vec();
        }
        if has(RIGHT) {
            seal::manifest(file);
        }
    });
    if has(RIGHT) { survive(&disk) } else { judge(&disk, sound) }
}
