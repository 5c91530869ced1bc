//! Directories that cannot be opened as a store: each is named and left as it was, those of a newer format too.
//!
//! Method: real files of every wrong kind, and stores whose version is raised under a checksum that is right.

use std::fs;
use std::path::Path;
use std::process::Command;

use rollstore::{Error, ErrorKind, RolloutStore};
use rollstore_testkit::scratch::{Scratch, assert_says, bare, with_old};

fn open(dir: &Path) -> Result<RolloutStore, Error> {
    RolloutStore::options().window(8).open(dir)
}

#[test]
fn a_directory_that_is_no_store_is_left_alone() {
    let scratch = Scratch::new();
    let dir = scratch.path("model");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("weights.safetensors"), "weights").unwrap();
    assert_says(&open(&dir).unwrap_err(), ErrorKind::Invalid, &["not a store", "weights.safetensors"]);
    assert_eq!(fs::read(dir.join("weights.safetensors")).unwrap(), b"weights");
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "weights.safetensors" || name == "LOCK"), "{left:?}");
}

#[test]
fn a_file_in_place_of_a_directory_is_left_alone() {
    let scratch = Scratch::new();
    fs::write(scratch.store_dir(), "a file").unwrap();
    assert_says(&open(&scratch.store_dir()).unwrap_err(), ErrorKind::Invalid, &["is not a directory"]);
    let below = open(&scratch.store_dir().join("below")).unwrap_err();
    assert!(below.path().is_some(), "{below}");
    assert_eq!(fs::read(scratch.store_dir()).unwrap(), b"a file");
}

#[test]
fn a_new_store_without_a_window_is_refused_and_leaves_no_store() {
    let scratch = Scratch::new();
    let refused = RolloutStore::options().open(scratch.store_dir()).unwrap_err();
    assert_says(&refused, ErrorKind::Invalid, &["window"]);
    let missing = RolloutStore::options().create(false).open(scratch.store_dir()).unwrap_err();
    assert_says(&missing, ErrorKind::NotFound, &["holds no store"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    // Not even root may create anything here.
    let place = Path::new("/sys/kernel/rollouts");
    let error = open(place).unwrap_err();
    assert_says(&error, ErrorKind::Io, &["create directory", "/sys/kernel/rollouts"]);
    assert_eq!(error.path(), Some(place));
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let error = open(&scratch.store_dir()).unwrap_err();
    assert_says(&error, ErrorKind::Locked, &[&format!("pid {}", std::process::id())]);
    store.insert(bare(1, 5)).unwrap();
    drop(store);
    assert_eq!(open(&scratch.store_dir()).unwrap().len(), 1);
}

/// Makes the object in the file's bytes one of a newer format, with a checksum that is right.
fn of_a_newer_format(path: &Path, crc_at: impl Fn(usize) -> usize) {
    const VERSION: std::ops::Range<usize> = 8..12;
    let mut bytes = fs::read(path).unwrap();
    let version = u32::from_le_bytes(bytes[VERSION].try_into().unwrap());
    assert_eq!(version, 1, "the version stands where docs/format.md says");
    bytes[VERSION].copy_from_slice(&2_u32.to_le_bytes());
    let crc_at = crc_at(bytes.len());
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

fn newest_file(dir: &Path, prefix: &str) -> std::path::PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    named.max().expect("such a file")
}

#[test]
fn a_store_whose_newest_manifest_is_of_a_newer_format_is_left_alone() {
    let scratch = Scratch::new();
    scratch.open().close().unwrap();
    // A second generation, with nothing between the two: the first still fits every file.
    scratch.open_with(|options| options.window(9)).close().unwrap();
    of_a_newer_format(&newest_file(&scratch.store_dir(), "MANIFEST-"), |len| len - 4);
    for read_only in [false, true] {
        let options = RolloutStore::options().window(8).read_only(read_only);
        let error = options.open(scratch.store_dir()).unwrap_err();
        assert_says(&error, ErrorKind::TooNew, &["MANIFEST-", "format version 2", "upgrade"]);
    }
}

#[test]
fn a_segment_of_a_newer_format_is_not_read() {
    for closed in [false, true] {
        let scratch = Scratch::new();
        let store = scratch.open();
        store.insert(with_old(1, 5, -1.0, 0)).unwrap();
        if closed {
            store.close().unwrap();
        } else {
            store.abandon();
        }
        of_a_newer_format(&newest_file(&scratch.store_dir(), "seg-"), |_| 4092);
        let read = open(&scratch.store_dir()).and_then(|store| store.get(1.into()).map(drop));
        assert_says(&read.unwrap_err(), ErrorKind::TooNew, &["seg-", "format version 2"]);
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_told_and_not_waited_for() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 0)).unwrap();
    store.close().unwrap();
    let names: Vec<_> = fs::read_dir(scratch.store_dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let newest = names.iter().filter(|path| path.to_string_lossy().contains("MANIFEST")).max();
    let mut refused = Vec::new();
    for path in &names {
        let kept = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        match RolloutStore::options().read_only(true).open(scratch.store_dir()) {
            Ok(store) => assert_eq!(store.ids(), [1.into()]),
            Err(error) => {
                assert_says(&error, ErrorKind::Damaged, &[&path.to_string_lossy()]);
                refused.push(path);
            }
        }
        fs::remove_file(path).unwrap();
        fs::write(path, kept).unwrap();
    }
    refused.sort();
    let segment = names.iter().find(|path| path.to_string_lossy().contains("seg-"));
    assert_eq!(refused, newest.into_iter().chain(segment).collect::<Vec<_>>(), "what the store cannot do without");
}
