//! Faults strike where they are aimed, do the harm that they do on Linux, and are told by the trace.

use super::*;

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

    let disk = SimDisk::new();
    disk.create(path("f")).unwrap();
    disk.fail_at(disk.operation_count(), Fault::PowerCut);
    disk.sync_dir(path("")).unwrap_err();
    assert!(!exists(&disk.crash(image(ImageStyle::NothingUnsynced, 0)), "f"));
    assert!(exists(&disk.crash(image(ImageStyle::Everything, 0)), "f"));
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
