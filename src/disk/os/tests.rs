//! The real file system keeps the promises of `Disk`, checked on a temporary directory.

use super::*;

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    disk.create(path).unwrap().write_all_vectored_at(&mut [IoSlice::new(bytes)], 0).unwrap();
}

#[test]
fn three_thousand_slices_are_written_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = OsDisk.create(&dir.path().join("f")).unwrap();
    // Lengths from 0 to 6, so that empty slices stand at the front, at the limit of a call, and at the end.
    let slices: Vec<Vec<u8>> = (0..3000_usize).map(|i| vec![u8::try_from(i % 251).unwrap(); i % 7]).collect();
    let mut buffers: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    file.write_all_vectored_at(&mut buffers, 100).unwrap();

    let expected = slices.concat();
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 100).unwrap();
    assert_eq!(found, expected);
    assert_eq!(file.len().unwrap(), 100 + expected.len() as u64);
}

#[test]
fn a_write_of_several_portions_arrives_whole() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3 * PORTION_BYTES + 77).map(|at| u8::try_from(at % 251).unwrap()).collect();
    // One buffer longer than a portion, buffers that end within one, at its end and behind it, and empty ones.
    for lens in
        [vec![bytes.len()], vec![1, 0, PORTION_BYTES - 1, PORTION_BYTES, 7, PORTION_BYTES + 70], vec![4096; 385]]
    {
        let file = OsDisk.create(&dir.path().join(lens.len().to_string())).unwrap();
        let mut rest = &bytes[..];
        let mut take = |len: &usize| rest.split_off(..(*len).min(rest.len())).map(IoSlice::new).unwrap();
        let mut buffers: Vec<IoSlice<'_>> = lens.iter().map(&mut take).collect();
        file.write_all_vectored_at(&mut buffers, 13).unwrap();
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, 13).unwrap();
        assert!(found == bytes, "buffers of {lens:?}");
    }
}

#[test]
fn a_read_past_the_end_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    write(&OsDisk, &path, b"abc");
    let file = OsDisk.open(&path, Access::Read).unwrap();
    assert_eq!(file.read_exact_at(&mut [0; 4], 0).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(file.write_all_vectored_at(&mut [IoSlice::new(b"x")], 0).is_err(), "opened for reading alone");
}

#[test]
fn creating_over_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    write(&OsDisk, &path, b"abc");
    assert_eq!(OsDisk.create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(OsDisk.open(&path, Access::Read).unwrap().len().unwrap(), 3);
}

#[test]
fn the_lock_refuses_a_second_holder_and_tells_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let first = OsDisk.lock(&path, "a long text of the first holder").unwrap();
    let refused = OsDisk.lock(&path, "second").unwrap_err();
    assert!(matches!(refused, LockError::Held(text) if text == "a long text of the first holder"));
    drop(first);

    let _second = OsDisk.lock(&path, "second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second", "nothing of the longer text is left");
}

#[test]
fn every_way_to_say_that_there_are_no_locks_is_told_from_a_failing_disk() {
    let kind_of = |errno| no_lock(io::Error::from_raw_os_error(errno)).kind();
    for errno in [libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP, libc::ENOTSUP, libc::EINVAL, 524] {
        assert_eq!(kind_of(errno), io::ErrorKind::Unsupported, "error {errno}");
    }
    for errno in [libc::EIO, libc::EACCES, libc::ESTALE, libc::EINTR] {
        assert_ne!(kind_of(errno), io::ErrorKind::Unsupported, "error {errno}");
    }
}

#[test]
fn a_link_in_place_of_the_lock_file_is_refused_and_its_target_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (target, path) = (dir.path().join("precious"), dir.path().join("LOCK"));
    write(&OsDisk, &target, b"precious");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(matches!(OsDisk.lock(&path, "me"), Err(LockError::Io(_))));
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn a_deleted_or_replaced_lock_file_is_no_longer_current() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lock = OsDisk.lock(&path, "me").unwrap();
    assert!(lock.is_current());
    fs::remove_file(&path).unwrap();
    assert!(!lock.is_current());
    fs::write(&path, "someone else").unwrap();
    assert!(!lock.is_current());
}

#[test]
fn the_lock_of_a_renamed_directory_is_no_longer_current() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    OsDisk.create_dir_all(&old).unwrap();
    let lock = OsDisk.lock(&old.join("LOCK"), "me").unwrap();
    OsDisk.rename(&old, &new).unwrap();
    assert!(!lock.is_current());
    OsDisk.rename(&new, &old).unwrap();
    assert!(lock.is_current());
}

#[test]
#[cfg(target_os = "linux")]
fn exchange_swaps_two_directories() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    OsDisk.create_dir_all(&a).unwrap();
    OsDisk.create_dir_all(&b).unwrap();
    write(&OsDisk, &a.join("in-a"), b"");
    OsDisk.exchange(&a, &b).unwrap();
    assert_eq!(OsDisk.list(&b).unwrap(), ["in-a"]);
    assert!(OsDisk.list(&a).unwrap().is_empty());
    assert_eq!(OsDisk.exchange(&a, &dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn entry_kinds_are_told_apart_and_nothing_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    write(&OsDisk, &path, b"");
    assert_eq!(OsDisk.entry_kind(&path).unwrap(), Some(EntryKind::File));
    assert_eq!(OsDisk.entry_kind(dir.path()).unwrap(), Some(EntryKind::Directory));
    assert_eq!(OsDisk.entry_kind(Path::new("/dev/null")).unwrap(), Some(EntryKind::Other));
    assert_eq!(OsDisk.entry_kind(&dir.path().join("none")).unwrap(), None);
    assert_eq!(OsDisk.entry_kind(&path.join("below-a-file")).unwrap(), None);
}

#[test]
fn the_empty_path_is_the_working_directory() {
    OsDisk.sync_dir(Path::new("")).unwrap();
    assert!(!OsDisk.list(Path::new("")).unwrap().is_empty());
    OsDisk.file_system(Path::new("")).unwrap();
}

#[test]
fn a_mapped_file_is_read_after_its_name_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    write(&OsDisk, &path, b"still here");
    let map = OsDisk.open(&path, Access::Read).unwrap().map(1 << 20).unwrap().unwrap();
    map.publish(10);
    OsDisk.remove_file(&path).unwrap();
    map.populate(0..10).unwrap();
    assert_eq!(map.get(0..10).unwrap(), b"still here");
}
