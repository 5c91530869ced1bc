//! A valid frame that stands where another belongs is never taken for it (D5, F20).
//!
//! Method: whole frames are copied over others of the same length, within a segment and between two, sealed and not, with
//! the index and without; whatever still opens must give each rollout its own arrays, or an error that names the damage.

use std::path::{Path, PathBuf};

use rollstore::ErrorKind;
use rollstore::disk::sim::SimDisk;
use rollstore_testkit::bytes;
use rollstore_testkit::store::{DIR, TOKENS, check_content, completion_ids, open, rollout};

/// Rollouts of one size, and where the frame of each begins.
struct Store {
    disk: SimDisk,
    frames: Vec<(PathBuf, u64)>,
    frame_bytes: usize,
}

impl Store {
    /// Two segments of even ids, so that all frames are of one length; the second segment is sealed or still active.
    fn new(sealed: bool) -> Self {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        for id in (0..8).step_by(2) {
            store.insert(rollout(id, 0, 0)).unwrap();
        }
        // Seals the segment.
        store.checkpoint("/saved").unwrap();
        for id in (8..16).step_by(2) {
            store.insert(rollout(id, 0, 0)).unwrap();
        }
        if sealed {
            store.close().unwrap();
        } else {
            store.abandon();
        }
        let disk = disk.kill();
        let segments = bytes::segments(&disk, DIR);
        let place = |id: u64| {
            let segment = segments[usize::from(id >= 8)].clone();
            let column = bytes::find_u32(&disk, &segment, &completion_ids(id, TOKENS));
            let at = bytes::frame_around(&disk, &segment, column);
            (segment, at)
        };
        let frames: Vec<_> = (0..16).step_by(2).map(place).collect();
        let frame_bytes = usize::try_from(frames[1].1 - frames[0].1).unwrap();
        Self { disk, frames, frame_bytes }
    }

    /// A copy of the disk on which the frame of `from` stands in the place of the one of `to`.
    fn misplace(&self, from: usize, to: usize) -> SimDisk {
        let disk = self.disk.kill();
        let ((source, from), (target, to)) = (&self.frames[from], &self.frames[to]);
        let (from, to) = (usize::try_from(*from).unwrap(), usize::try_from(*to).unwrap());
        let frame = bytes::read(&disk, source)[from..from + self.frame_bytes].to_vec();
        bytes::edit(&disk, target, |file| file[to..to + frame.len()].copy_from_slice(&frame));
        disk
    }
}

/// Opens, where it can be opened, and looks at every rollout. Returns whether damage was told.
fn look(disk: &SimDisk, when: &str) -> bool {
    let store = match open(disk) {
        Ok(store) => store,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{when}: {error}");
            return true;
        }
    };
    let mut told = false;
    for id in store.ids() {
        match store.get(id) {
            Ok(view) => check_content(&view.unwrap()),
            Err(error) => {
                assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(id)), "{when}: {error}");
                told = true;
            }
        }
    }
    told
}

fn misplace_all(sealed: bool) {
    let store = Store::new(sealed);
    assert_eq!(bytes::segments(&store.disk, DIR).len(), 2);
    assert!(!look(&store.disk.kill(), "untouched"));
    let count = store.frames.len();
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        for with_index in [true, false] {
            let disk = store.misplace(from, to);
            let index = Path::new(DIR).join("index.redb");
            if !with_index && rollstore::disk::Disk::entry_kind(&disk, &index).unwrap().is_some() {
                bytes::remove(&disk, &index);
            }
            let when = format!("frame {from} over frame {to}, sealed {sealed}, with index {with_index}");
            let told = look(&disk, &when);
            // The newest frame of an active segment is attested by none: without it the tail is torn.
            let is_newest = !sealed && to == count - 1;
            assert!(told || is_newest, "{when}: nobody noticed");
        }
    }
}

#[test]
fn f20_a_valid_frame_in_another_place_of_sealed_segments_is_damage() {
    misplace_all(true);
}

#[test]
fn f20_a_valid_frame_in_another_place_of_an_active_segment_is_damage_or_a_torn_tail() {
    misplace_all(false);
}
