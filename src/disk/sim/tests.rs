//! The simulated disk loses exactly what a real one may lose, and says the same for the same seed.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use super::super::{Access, Disk, DiskFile, EntryKind, LockError};
use super::*;

const SEEDS: std::ops::Range<u64> = 0..200;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn write(file: &Arc<dyn DiskFile>, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_vectored_at(&mut [IoSlice::new(bytes)], offset)
}

fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(path(name), Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn exists(disk: &SimDisk, name: &str) -> bool {
    disk.entry_kind(path(name)).unwrap().is_some()
}

fn image(style: ImageStyle, seed: u64) -> CrashImage {
    CrashImage { seed, style }
}

/// A disk with one durable file `f` of these bytes.
fn with_file(bytes: &[u8]) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    let file = disk.create(path("f")).unwrap();
    write(&file, bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path("/")).unwrap();
    (disk, file)
}

/// `f` as each seed of a style leaves it.
fn remains(disk: &SimDisk, style: ImageStyle) -> Vec<Vec<u8>> {
    SEEDS.map(|seed| read(&disk.crash(image(style, seed)), "f")).collect()
}

#[test]
fn nothing_unsynced_and_everything_are_the_two_ends() {
    let (disk, file) = with_file(b"old");
    write(&file, b"NEW and longer", 0).unwrap();
    file.set_len(8).unwrap();
    disk.create(path("unsynced")).unwrap();

    let nothing = disk.crash(image(ImageStyle::NothingUnsynced, 0));
    assert_eq!((read(&nothing, "f"), exists(&nothing, "unsynced")), (b"old".to_vec(), false));
    let everything = disk.crash(image(ImageStyle::Everything, 0));
    assert_eq!((read(&everything, "f"), exists(&everything, "unsynced")), (b"NEW and ".to_vec(), true));
}

#[test]
fn synced_bytes_survive_every_image() {
    for style in ImageStyle::ALL {
        let (disk, _file) = with_file(&[3; 5000]);
        for left in remains(&disk, style) {
            assert_eq!(left, [3; 5000]);
        }
    }
}

#[test]
fn a_prefix_keeps_the_order_of_writes_across_files() {
    let (disk, file) = with_file(b"");
    let other = disk.create(path("g")).unwrap();
    disk.sync_dir(path("")).unwrap();
    write(&file, b"1111", 0).unwrap();
    write(&other, b"2222", 0).unwrap();
    write(&file, b"3333", 4).unwrap();

    let mut lengths = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let after = disk.crash(image(ImageStyle::Prefix, seed));
        let (f, g) = (read(&after, "f"), read(&after, "g"));
        assert!(b"11113333".starts_with(&f) && b"2222".starts_with(&g));
        assert!(g.is_empty() || f.len() >= 4, "the first write came before the second");
        assert!(f.len() <= 4 || g.len() == 4, "the second write came before the third");
        lengths.insert(f.len() + g.len());
    }
    assert_eq!(lengths.len(), 13, "every byte is a place to stop at");
}

#[test]
fn torn_sectors_are_old_or_new_each_for_itself() {
    let (disk, file) = with_file(&[1; 2048]);
    write(&file, &[2; 2048], 0).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    let mut kinds = std::collections::BTreeSet::new();
    for left in &remains {
        let sectors: Vec<u8> = left.chunks(512).map(|sector| sector[0]).collect();
        assert!(left.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        kinds.insert(sectors);
    }
    assert_eq!(kinds.len(), 16, "all combinations of four sectors");
}

#[test]
fn torn_lengths_and_bytes_survive_independently() {
    let (disk, file) = with_file(b"");
    write(&file, &[2; 512], 0).unwrap();
    write(&file, &[2; 512], 512).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    for len in [0, 512, 1024] {
        assert!(remains.iter().any(|left| left.len() == len), "a length of {len}");
    }
    assert!(remains.contains(&vec![0; 1024]), "the length without the bytes");
    assert!(remains.contains(&[vec![0; 512], vec![2; 512]].concat()), "the later write without the earlier");
}

#[test]
fn torn_bytes_mix_within_a_sector() {
    let (disk, file) = with_file(&[1; 64]);
    write(&file, &[2; 64], 0).unwrap();
    for left in remains(&disk, ImageStyle::TornBytes) {
        assert!(left.contains(&1) && left.contains(&2));
    }
}

#[test]
fn zeros_and_garbage_fill_new_sectors_alone() {
    for style in [ImageStyle::ZeroFilled, ImageStyle::Garbage] {
        let (disk, file) = with_file(&[1; 700]);
        write(&file, &[2; 2000], 100).unwrap();
        let mut strange = 0;
        for left in remains(&disk, style) {
            assert_eq!(left.len(), 2100, "the length survives");
            assert_eq!(left[..100], [1; 100], "nobody wrote there");
            assert!(left[100..700].iter().all(|byte| matches!(byte, 1 | 2)), "old or new");
            strange += left[700..].iter().filter(|byte| **byte != 2).count();
        }
        assert!(strange > 100_000, "about half of 1400 bytes in 200 images");
    }
}

#[test]
fn a_truncation_is_pending_until_the_sync() {
    let (disk, file) = with_file(&[1; 1000]);
    file.set_len(10).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    assert!(remains.contains(&vec![1; 1000]) && remains.contains(&vec![1; 10]));
    assert_eq!(disk.crash(image(ImageStyle::Garbage, 0)).open(path("f"), Access::Read).unwrap().len().unwrap(), 10);
}

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
    let mut found = std::collections::BTreeSet::new();
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
    assert!(exists(&after, "b/f") && !exists(&after, "a/f"));
    assert!(!exists(&after, "a/other"), "its own directory was not synced");
}

#[test]
fn an_exchange_changes_both_names_or_none() {
    let (disk, _file) = with_file(b"first");
    let second = disk.create(path("g")).unwrap();
    write(&second, b"second", 0).unwrap();
    second.sync_data().unwrap();
    disk.sync_dir(path("")).unwrap();
    disk.exchange(path("f"), path("g")).unwrap();
    let mut found = std::collections::BTreeSet::new();
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
fn a_failed_sync_loses_its_bytes_for_good() {
    let (disk, file) = with_file(b"safe");
    write(&file, b"LOST", 4).unwrap();
    disk.fail_at(disk.operation_count(), Fault::Eio);
    file.sync_data().unwrap_err();
    write(&file, b"next", 8).unwrap();
    file.sync_data().unwrap();
    assert_eq!(read(&disk, "f"), b"safeLOSTnext", "this boot still sees them");
    assert_eq!(read(&disk.crash(image(ImageStyle::Everything, 0)), "f"), b"safe\0\0\0\0next");
}

#[test]
fn faults_strike_the_operation_that_they_are_aimed_at() {
    let (disk, file) = with_file(b"");
    let next = disk.operation_count();
    disk.fail_at(next + 1, Fault::ShortWrite);
    disk.fail_at(next + 2, Fault::Other(io::ErrorKind::TooManyLinks));
    disk.fail_from(next + 4, Fault::Enospc);
    write(&file, b"whole", 0).unwrap();
    assert_eq!(write(&file, b"halved", 5).unwrap_err().kind(), io::ErrorKind::WriteZero);
    assert_eq!(disk.hard_link(path("f"), path("g")).unwrap_err().kind(), io::ErrorKind::TooManyLinks);
    assert_eq!(read(&disk.crash(image(ImageStyle::Everything, 0)), "f"), b"wholehal");

    let (disk, file) = with_file(b"");
    disk.fail_from(disk.operation_count(), Fault::Enospc);
    for _ in 0..3 {
        assert_eq!(write(&file, b"x", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(file.len().unwrap(), 0, "asking for a length takes no space");
    disk.heal();
    write(&file, b"x", 0).unwrap();
}

#[test]
fn a_full_disk_writes_what_fits_and_goes_on_once_there_is_space() {
    let (disk, file) = with_file(b"123");
    disk.set_capacity(Some(5));
    assert_eq!(write(&file, b"abcdef", 3).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(read(&disk, "f"), b"123ab");
    write(&file, b"XYZ", 0).unwrap();
    assert_eq!(file.set_len(6).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let other = disk.create(path("g")).unwrap();
    assert_eq!(write(&other, b"a", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    drop(file);
    disk.remove_file(path("f")).unwrap();
    write(&other, b"a", 0).unwrap();
}

#[test]
fn a_power_cut_leaves_the_operation_under_way_to_the_image() {
    let (disk, file) = with_file(b"old");
    disk.fail_at(disk.operation_count(), Fault::PowerCut);
    write(&file, b"new", 0).unwrap_err();
    assert!(disk.list(path("")).is_err() && file.len().is_err() && disk.file_system(path("")).is_err());
    assert_eq!(read(&disk.crash(image(ImageStyle::NothingUnsynced, 0)), "f"), b"old");
    assert_eq!(read(&disk.crash(image(ImageStyle::Everything, 0)), "f"), b"new");

    let (disk, file) = with_file(b"old");
    write(&file, b"new", 0).unwrap();
    disk.fail_at(disk.operation_count(), Fault::PowerCut);
    file.sync_data().unwrap_err();
    assert_eq!(read(&disk.crash(image(ImageStyle::NothingUnsynced, 0)), "f"), b"old", "the sync did not end");
}

#[test]
fn the_same_seed_gives_the_same_disk_and_another_seed_another() {
    let (disk, file) = with_file(&[1; 4096]);
    write(&file, &[2; 100_000], 0).unwrap();
    for style in [ImageStyle::Prefix, ImageStyle::TornSectors, ImageStyle::ZeroFilled, ImageStyle::Garbage] {
        let once = |seed| read(&disk.crash(image(style, seed)), "f");
        assert_eq!(once(7), once(7));
        assert_ne!(once(7), once(8));
    }
}

#[test]
fn a_killed_process_leaves_its_writes_and_its_losses_to_the_next() {
    let (disk, file) = with_file(b"safe");
    write(&file, b"LOST", 4).unwrap();
    disk.fail_at(disk.operation_count(), Fault::Eio);
    file.sync_data().unwrap_err();
    write(&file, b"written", 8).unwrap();
    let _lock = disk.lock(path("LOCK"), "killed").unwrap();

    let next = disk.kill();
    assert!(file.len().is_err());
    assert_eq!(read(&next, "f"), b"safeLOSTwritten");
    next.lock(path("LOCK"), "next").unwrap();
    let file = next.open(path("f"), Access::ReadWrite).unwrap();
    file.sync_data().unwrap();
    assert_eq!(read(&next.crash(image(ImageStyle::NothingUnsynced, 0)), "f"), b"safe\0\0\0\0written");
}

#[test]
fn a_crash_leaves_the_old_handles_dead_and_the_new_disk_alone() {
    let (disk, file) = with_file(b"old");
    let after = disk.crash(image(ImageStyle::Everything, 0));
    write(&file, b"ghost", 0).unwrap_err();
    file.sync_data().unwrap_err();
    disk.remove_file(path("f")).unwrap_err();
    assert_eq!(read(&after, "f"), b"old");
    assert_eq!(after.entry_kind(path("/./x/../f")).unwrap(), Some(EntryKind::File));
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

#[test]
fn the_trace_orders_a_sync_after_the_write_that_it_covers() {
    let (disk, file) = with_file(b"old");
    disk.clear_trace();
    write(&file, b"new", 10).unwrap();
    file.sync_data().unwrap();
    let returned = disk.tick();
    let trace = disk.trace();
    let [write, sync] = &trace[..] else { panic!("two operations, found {trace:?}") };
    assert_eq!((write.kind, write.offset, write.len, sync.kind), (OpKind::Write, 10, 3, OpKind::SyncData));
    assert!(write.ended < sync.begun && sync.ended < returned && sync.ok);
    assert_eq!((disk.counts().write_bytes, disk.counts().syncs), (3, 1));
    assert_eq!(sync.number + 1, disk.operation_count());
}
