//! An entry that points to another frame than its own gives an error and never the other one's arrays (D5; F20).
//!
//! Method: the rows of a sealed segment's footer exchange the places of their frames, under checksums that are right, so
//! that every place holds a sound frame; each rollout is then asked for by every way there is.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Column, ErrorKind, Flat, Reads, RolloutStore, Stale};
use rollstore_testkit::bytes;
use rollstore_testkit::store::{DIR, check_content, ids, open, options, rollout};

const ROW_BYTES: usize = 80;
/// Where a row tells the place of its frame.
const PLACE: std::ops::Range<usize> = 64..68;

const ROLLOUTS: usize = 6;

/// A closed store of one segment and no index, whose rows tell the places of their neighbours' frames. The manifest knows
/// the footer by its checksum; where it is not changed too, it knows another one.
fn exchanged(and_manifest: bool) -> SimDisk {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for id in 0..ROLLOUTS as u64 {
        store.insert(rollout(id, 0, 0)).unwrap();
    }
    store.close().unwrap();
    bytes::remove(&disk, &Path::new(DIR).join("index.redb"));
    let segments = bytes::segments(&disk, DIR);
    let [segment] = &segments[..] else { panic!("{segments:?}") };
    let manifest = bytes::manifests(&disk, DIR).pop().unwrap();
    let before = bytes::read(&disk, &manifest);
    bytes::edit_footer(&disk, segment, |rows| {
        let (rows, _) = rows.as_chunks_mut::<ROW_BYTES>();
        for pair in rows[..ROLLOUTS].chunks_exact_mut(2) {
            let [a, b] = pair else { unreachable!("pairs") };
            a[PLACE].swap_with_slice(&mut b[PLACE]);
        }
    });
    if !and_manifest {
        bytes::write(&disk, &manifest, &before);
    }
    disk
}

fn open_with(disk: &SimDisk, reads: Reads) -> RolloutStore {
    options(Arc::new(disk.clone())).reads(reads).open(DIR).unwrap()
}

#[test]
fn f20_an_entry_that_points_to_another_frame_gives_no_other_array() {
    let disk = exchanged(true);
    for reads in [Reads::Mapped, Reads::Copied] {
        let store = open_with(&disk, reads);
        assert_eq!(store.len(), ROLLOUTS);
        for id in ids(0..ROLLOUTS as u64) {
            let error = store.get(id).unwrap_err();
            assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(id)), "{error}");
            assert!(error.to_string().contains(&format!("of rollout {id}")), "{error}");
            let mut flat = Flat::<f32>::default();
            let gathered = store.gather(&[id], Column::OldLogps, 0, Stale::Allow, &mut flat);
            assert!(gathered.is_err(), "{gathered:?}");
        }
        store.abandon();
    }
}

#[test]
fn f20_a_footer_of_another_checksum_than_the_manifests_is_not_believed() {
    let disk = exchanged(false);
    let store = open(&disk).unwrap();
    assert_eq!(store.len(), ROLLOUTS);
    for id in ids(0..ROLLOUTS as u64) {
        check_content(&store.get(id).unwrap().unwrap());
    }
}
