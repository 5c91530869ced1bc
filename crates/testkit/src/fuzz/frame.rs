//! Changes to any bytes of a sound store's files: frames, descriptors, arrays, footers, manifests, the index.

use rollstore::disk::sim::SimDisk;

use crate::bytes;
use crate::fuzz::Input;
use crate::fuzz::judge::judge;
use crate::fuzz::look::survive;
use crate::fuzz::planted::{CLOSED, Planted, RUNNING, files};
use crate::fuzz::seal::{self, PAGE_BYTES, Seed};

/// The store was closed, so that every segment is sealed.
pub(super) const QUIET: u8 = 1;
/// The checksums of changed frames and manifests are made right.
pub(super) const RIGHT: u8 = 1 << 1;
/// There is no index, so that the log is read.
pub(super) const NO_INDEX: u8 = 1 << 2;

/// Changes a sound store as the bytes say: the first one says which, then come file, place, kind and value of each change.
///
/// # Panics
/// Where the store panics, believes a length, shows what it never held, or hides what it held.
pub fn frame(input: &[u8]) {
    let mut input = Input::new(input);
    let mode = input.byte();
    let has = |flag: u8| mode & flag != 0;
    let sound: &Planted = if has(QUIET) { &CLOSED } else { &RUNNING };
    let disk = sound.copy();
    if has(NO_INDEX) {
        let _ = rollstore::disk::Disk::remove_file(&disk, "/run/rollouts/index.redb".as_ref());
    }
    change(&disk, &mut input, has(RIGHT));
    if has(RIGHT) { survive(&disk) } else { judge(&disk, sound) }
}

fn change(disk: &SimDisk, input: &mut Input<'_>, makes_right: bool) {
    let mut files: Vec<_> = files(disk).into_iter().map(|(path, bytes)| (path, bytes, false)).collect();
    while !input.is_empty() {
        let at = usize::from(input.byte()) % files.len();
        let (_, file, changed) = &mut files[at];
        *changed = true;
        let place = usize::from(input.short()) + (usize::from(input.byte()) << 16);
        let (kind, value) = (input.byte(), input.byte());
        if !file.is_empty() {
            let place = place % file.len();
            spoil(file, place, kind, value);
        }
    }
    for (path, mut file, _) in files.into_iter().filter(|(_, _, changed)| *changed) {
        let is_segment = path.extension().is_some_and(|extension| extension == "log");
        if makes_right && is_segment && file.len() >= PAGE_BYTES {
            let seed = Seed::of(&bytes::read(disk, &path));
            seal::page(&mut file, &seed);
            seal::frames(&mut file, &seed, false);
        } else if makes_right && path.extension().is_none() {
            seal::manifest(&mut file);
        }
        bytes::write(disk, &path, &file);
    }
}

/// One change, as media and people make them.
fn spoil(file: &mut Vec<u8>, place: usize, kind: u8, value: u8) {
    let until = |len: usize| place..file.len().min(place + len);
    match kind % 8 {
        0..=2 => file[place] ^= 1 << (value % 8),
        3 => file[place] = value,
        4 => file.truncate(place),
        5 => {
            let sector = until(512);
            file[sector].fill(value);
        }
        6 => {
            // Bytes of another place of the same file.
            let from = usize::from(value) * 64 % file.len();
            let len = 64.min(file.len() - place).min(file.len() - from);
            file.copy_within(from..from + len, place);
        }
        _ => file.extend(std::iter::repeat_n(value, 64)),
    }
}
