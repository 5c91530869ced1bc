//! Names, links and locks change as POSIX has it, and survive as their directory was synced.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_name_needs_the_sync_of_its_directory() {
    let disk = SimDisk::new();
    disk.create_dir_all(path("run/store")).unwrap();
    disk.sync_dir(path("run")).unwrap();
    let file = disk.create(path("run/store/f")).unwrap();
    write(&file, b"bytes", 0).unwrap();
    file.sync_data().unwrap();
    let lost = |disk: &SimDisk| !exists(&disk.crash(image(ImageStyle::NothingUnsynced, 0)), "run/store/f");
    assert!(lost(&disk));

    let disk = SimDisk::new();
    disk.create_dir_all(path("run/store")).unwrap();
    drop(disk.create(path("run/store/f")).unwrap());
    for dir in ["run/store", "run", ""] {
        disk.sync_dir(path(dir)).unwrap();
    }
    assert!(!lost(&disk));
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one_and_never_none() {
    let mut found = BTreeSet::new();
    for seed in SEEDS {
        let (disk, _file) = with_file(b"old");
        disk.create_dir_all(path("dir")).unwrap();
        disk.sync_dir(path("")).unwrap();
        let new = disk.create(path("dir/new")).unwrap();
        write(&new, b"new", 0).unwrap();
        new.sync_data().unwrap();
        disk.rename(path("dir/new"), path("f")).unwrap();
        let after = disk.crash(image(ImageStyle::TornSectors, seed));
        let (f, moved) = (read(&after, "f"), exists(&after, "dir/new"));
        assert!(f == b"old" || (f == b"new" && !moved), "{f:?} {moved}");
        found.insert((f, moved));
    }
    assert_eq!(found.len(), 3, "not created, created, renamed");
}

#[test]
fn syncing_one_directory_of_a_rename_takes_the_other_along() {
    let disk = SimDisk::new();
    for dir in ["a", "b"] {
        disk.create_dir_all(path(dir)).unwrap();
    }
    disk.sync_dir(path("")).unwrap();
    disk.create(path("a/f")).unwrap();
    disk.create(path("a/other")).unwrap();
    disk.rename(path("a/f"), path("b/f")).unwrap();
    disk.sync_dir(path("b")).unwrap();
    let after = disk.crash(image(ImageStyle::NothingUnsynced, 0));
    assert!(exists(&after, "b/f") && !exists(&after, "a/other"), "the other name in its directory was not synced");
    for style in ImageStyle::ALL {
        let after = disk.crash(image(style, 0));
        assert!(exists(&after, "b/f") && !exists(&after, "a/f"), "the creation before the rename does not come back");
    }
}

#[test]
fn a_file_renamed_twice_has_one_name_in_every_image() {
    let (disk, _file) = with_file(b"one");
    disk.create_dir_all(path("dir")).unwrap();
    disk.rename(path("f"), path("g")).unwrap();
    disk.rename(path("g"), path("h")).unwrap();
    // What stays pending in the root keeps its order while another directory is synced.
    disk.sync_dir(path("dir")).unwrap();
    let mut found = BTreeSet::new();
    for style in ImageStyle::ALL {
        for seed in SEEDS {
            let after = disk.crash(image(style, seed));
            let names = ["f", "g", "h"].map(|name| exists(&after, name));
            assert_eq!(names.iter().filter(|exists| **exists).count(), 1, "{names:?} in {style:?}");
            found.insert(names);
        }
    }
    assert_eq!(found.len(), 3, "each of the names");
}

#[test]
fn an_exchange_changes_both_names_or_none() {
    let (disk, _file) = with_file(b"first");
    let second = disk.create(path("g")).unwrap();
    write(&second, b"second", 0).unwrap();
    second.sync_data().unwrap();
    disk.sync_dir(path("")).unwrap();
    disk.exchange(path("f"), path("g")).unwrap();
    let mut found = BTreeSet::new();
    for seed in SEEDS {
        let after = disk.crash(image(ImageStyle::ZeroFilled, seed));
        found.insert((read(&after, "f"), read(&after, "g")));
    }
    let (first, second) = (b"first".to_vec(), b"second".to_vec());
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(first.clone(), second.clone()), (second, first)]);
}

#[test]
fn a_hard_link_is_a_second_name_of_the_same_bytes() {
    let (disk, file) = with_file(b"one");
    disk.hard_link(path("f"), path("g")).unwrap();
    disk.remove_file(path("f")).unwrap();
    disk.sync_dir(path("")).unwrap();
    write(&file, b"two", 0).unwrap();
    assert_eq!(read(&disk, "g"), b"two");
    assert_eq!(read(&disk.crash(image(ImageStyle::NothingUnsynced, 0)), "g"), b"one");
    let refusing = SimDisk::new().with_hard_links(false);
    refusing.create(path("f")).unwrap();
    assert_eq!(refusing.hard_link(path("f"), path("g")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn one_holder_a_lock_until_it_is_dropped_or_the_power_goes() {
    let disk = SimDisk::new();
    let lock = disk.lock(path("LOCK"), "the first holder").unwrap();
    assert!(lock.is_current());
    assert!(matches!(disk.clone().lock(path("LOCK"), "b"), Err(LockError::Held(text)) if text == "the first holder"));
    drop(lock);
    let lock = disk.lock(path("LOCK"), "b").unwrap();
    assert_eq!(read(&disk, "LOCK"), b"b");

    disk.rename(path("LOCK"), path("elsewhere")).unwrap();
    assert!(!lock.is_current());
    disk.rename(path("elsewhere"), path("LOCK")).unwrap();
    assert!(lock.is_current());
    let after = disk.crash(image(ImageStyle::Everything, 0));
    assert!(!lock.is_current(), "its machine is gone");
    after.lock(path("LOCK"), "c").unwrap();
    assert!(matches!(SimDisk::new().with_locks(false).lock(path("L"), ""), Err(LockError::Io(_))));
}

#[test]
fn a_removed_file_is_read_as_long_as_it_is_open() {
    let (disk, file) = with_file(b"still here");
    disk.remove_file(path("f")).unwrap();
    disk.sync_dir(path("")).unwrap();
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
    assert_eq!(file.read_exact_at(&mut [0; 1], u64::MAX).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn directories_are_renamed_whole_and_refused_where_posix_refuses() {
    let disk = SimDisk::new().with_exchange(false);
    disk.create_dir_all(path("a/b")).unwrap();
    disk.create(path("a/b/f")).unwrap();
    disk.create_dir_all(path("full/x")).unwrap();
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(disk.rename(path("a"), path("a/b/c"))), io::ErrorKind::InvalidInput);
    assert_eq!(kind(disk.rename(path("a"), path("full"))), io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_dir(path("a"))), io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_file(path("a"))), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.exchange(path("a"), path("full"))), io::ErrorKind::Unsupported);
    assert_eq!(disk.create(path("none/f")).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.rename(path("a"), path("new")).unwrap();
    assert!(exists(&disk, "new/b/f") && !exists(&disk, "a"));
}
