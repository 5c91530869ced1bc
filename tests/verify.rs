//! `verify` checks every byte: a store that was written is sound, and any flipped byte of it is found and named.
//!
//! Method: a small store with every kind of frame, sealed and unsealed; each byte of its segments flipped in turn.

use std::fs;
use std::path::{Path, PathBuf};

use rollstore::{NewRollout, Reason, Results, RolloutStore, inspect};

/// A store whose frames are of every kind; closed, so that its one segment is sealed.
fn store(dir: &Path) -> RolloutStore {
    let store = RolloutStore::options().window(8).open(dir).unwrap();
    for id in 0..4 {
        let rollout = NewRollout::new(id, 0).completion_ids(vec![1, 2, 3]).old_logps(vec![-0.5; 3], 0);
        store
            .insert(rollout.sampler_logps(vec![-0.25; 3]).metadata(b"seed 7").column("routes", vec![7_u8; 5]))
            .unwrap();
    }
    store.advance_ref_version(1, Some(7)).unwrap();
    let plan = store.plan_for(&[1.into()], 1).unwrap();
    let results: Results = plan.ids().map(|id| (id, vec![-0.75; 3])).collect();
    store.apply(plan, results).unwrap();
    store.retire(&[2.into()], Reason::Trained).unwrap();
    store.set_cursor(b"row 4711").unwrap();
    store
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    names.sort();
    names
}

#[test]
fn a_store_is_sound_while_open_after_a_crash_and_after_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let open = store(&path);
    let verification = open.verify().unwrap();
    assert!(verification.is_sound(), "{:?}", verification.findings);
    assert_eq!(verification.frames, open.stats().unwrap().last_lsn.get());
    open.abandon();
    assert!(inspect::verify(&path).unwrap().is_sound());
    RolloutStore::options().open(&path).unwrap().close().unwrap();
    let closed = inspect::verify(&path).unwrap();
    assert!(closed.is_sound(), "{:?}", closed.findings);
    assert_eq!(closed.in_flight_bytes, 0);
}

#[test]
fn every_flipped_byte_of_a_sealed_segment_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    store(&path).close().unwrap();
    let segment = segments(&path).remove(0);
    let sound = fs::read(&segment).unwrap();
    // The header's zeros are alike: a sample of them is enough.
    let header = (0..4096).step_by(61);
    for offset in header.chain((4096..sound.len()).step_by(3)) {
        let mut flipped = sound.clone();
        flipped[offset] ^= 0x10;
        fs::write(&segment, flipped).unwrap();
        let verification = inspect::verify(&path);
        let found = verification.as_ref().is_ok_and(|verification| !verification.is_sound());
        // A flip of a version or feature bit reads as a newer format, which is told as an error.
        assert!(found || verification.is_err(), "the flip at byte {offset} of {} was not found", sound.len());
    }
    fs::write(&segment, sound).unwrap();
    assert!(inspect::verify(&path).unwrap().is_sound());
}

#[test]
fn damage_in_a_body_names_its_rollout_and_the_frames_behind_are_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    store(&path).close().unwrap();
    let segment = segments(&path).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let places: Vec<usize> =
        bytes.windows(5).enumerate().filter(|(_, window)| *window == [7; 5]).map(|(at, _)| at).collect();
    bytes[places[0]] ^= 1;
    bytes[places[3]] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let verification = inspect::verify(&path).unwrap();
    let named: Vec<_> = verification.findings.iter().flat_map(|finding| finding.rollouts.clone()).collect();
    assert_eq!(named, [0.into(), 3.into()]);
    let first = &verification.findings[0].damage;
    assert_eq!((first.file.as_path(), first.offset), (segment.as_path(), places[0] as u64));
}

#[test]
fn a_missing_segment_and_a_missing_manifest_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    store(&path).close().unwrap();
    let segment = segments(&path).remove(0);
    let kept = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    let missing = inspect::verify(&path).unwrap();
    assert_eq!(missing.findings.len(), 1);
    assert_eq!(missing.findings[0].damage.found, "no file");
    fs::write(&segment, kept).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let name = entry.unwrap().path();
        if name.to_string_lossy().contains("MANIFEST") {
            fs::remove_file(name).unwrap();
        }
    }
    let emptied = inspect::verify(&path).unwrap();
    assert_eq!(emptied.findings.len(), 1, "segments without a manifest are no empty store");
    assert!(inspect::verify(dir.path().join("nothing")).is_err());
}

#[test]
fn behind_a_damaged_segment_header_the_frames_are_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    store(&path).close().unwrap();
    let segment = segments(&path).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let body = bytes.windows(5).position(|window| window == [7; 5]).unwrap();
    bytes[40] ^= 1;
    bytes[body] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let findings = inspect::verify(&path).unwrap().findings;
    let offsets: Vec<u64> = findings.iter().map(|finding| finding.damage.offset).collect();
    assert_eq!(
        (offsets.len(), offsets[1], &findings[1].rollouts[..]),
        (2, body as u64, &[0.into()][..]),
        "{offsets:?}"
    );
}

#[test]
fn each_manifest_is_checked_the_spare_one_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    store(&path).close().unwrap();
    let manifests: Vec<PathBuf> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("MANIFEST-"))
        .collect();
    assert_eq!(manifests.len(), 2);
    for manifest in manifests {
        let sound = fs::read(&manifest).unwrap();
        let mut flipped = sound.clone();
        flipped[sound.len() / 2] ^= 1;
        fs::write(&manifest, flipped).unwrap();
        let findings = inspect::verify(&path).unwrap().findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].damage.file, manifest);
        fs::write(&manifest, sound).unwrap();
    }
}

#[test]
fn a_checkpoint_is_told_from_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let (path, saved) = (dir.path().join("rollouts"), dir.path().join("ckpt"));
    store(&path).checkpoint(&saved).unwrap();
    let (store, checkpoint) = (inspect::verify(&path).unwrap(), inspect::verify(&saved).unwrap());
    let on_disk: u64 = segments(&saved).iter().map(|segment| segment.metadata().unwrap().len()).sum();
    assert_eq!(checkpoint.bytes, on_disk, "every byte was checked, and counted once");
    assert!(store.is_sound() && checkpoint.is_sound());
    assert!(!store.is_checkpoint && checkpoint.is_checkpoint);
}
