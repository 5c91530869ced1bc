//! The index file: what was flushed comes back, and anything else is rejected, whatever was done to the bytes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::ids::RolloutId;
use crate::index::testing::{MemoryDisk, rich_row};

const IDENTITY: Identity = Identity { store: *b"sixteen bytes id", epoch: 4 };
const APPLIED: Lsn = Lsn::new(1 << 20);

fn path() -> &'static Path {
    Path::new("store/index.redb")
}

fn segments() -> BTreeSet<SegmentId> {
    [1, 2, 3].map(SegmentId).into()
}

fn index_meta() -> IndexMeta {
    IndexMeta {
        identity: IDENTITY,
        applied_lsn: APPLIED,
        covered: vec![SegmentId(1), SegmentId(2)],
        pieces: Vec::new(),
        resume: None,
    }
}

fn create(disk: &MemoryDisk) -> DiskIndex {
    DiskIndex::create(disk, path(), IDENTITY, &FileOptions::default()).unwrap()
}

fn upserts(ids: impl Iterator<Item = u64>) -> Changes {
    Changes { upserts: ids.map(rich_row).collect(), removed: Vec::new() }
}

fn load_from(disk: &MemoryDisk, access: Access) -> Result<Loaded, Rejected> {
    let expected = Expected { identity: IDENTITY, log_end: APPLIED, segments: &segments() };
    open(disk, path(), access, &FileOptions::default())?.load(&expected)
}

fn load_bytes(bytes: Vec<u8>, access: Access) -> Result<Loaded, Rejected> {
    let disk = MemoryDisk::default();
    disk.put(path(), bytes);
    load_from(&disk, access)
}

fn rows(index: &MemoryIndex) -> Vec<Row> {
    let mut rows: Vec<Row> =
        index.iter().map(|entry| Row { entry, extra: index.extra(entry.id).copied().unwrap_or_default() }).collect();
    rows.sort_unstable_by_key(|row| row.entry.id);
    rows
}

/// A closed file with some rows in it, a few of them replaced and removed since, and those rows.
fn sample() -> (Vec<u8>, Vec<Row>) {
    let disk = MemoryDisk::default();
    let mut index = create(&disk);
    index.flush(&upserts(1..401), &index_meta()).unwrap();
    let mut changes = upserts(401..421);
    for mut row in (100..120).map(rich_row) {
        row.entry.born_step += 50;
        changes.upserts.push(row);
    }
    changes.removed = (200..230).chain(900..910).map(RolloutId::new).collect();
    index.flush(&changes, &index_meta()).unwrap();
    index.close().unwrap();
    let gone = |row: &Row| (200..230).contains(&row.entry.id.get());
    let mut expected: Vec<Row> = (1..421).map(rich_row).filter(|row| !gone(row)).collect();
    for row in expected.iter_mut().filter(|row| (100..120).contains(&row.entry.id.get())) {
        row.entry.born_step += 50;
    }
    (disk.file(path()).unwrap().bytes(), expected)
}

fn reason(result: Result<Loaded, Rejected>) -> String {
    result.map(|loaded| loaded.meta).unwrap_err().to_string()
}

#[test]
fn what_was_flushed_comes_back() {
    let (bytes, expected) = sample();
    for access in [Access::Read, Access::ReadWrite] {
        let loaded = load_bytes(bytes.clone(), access).unwrap();
        assert_eq!(rows(&loaded.index), expected);
        assert_eq!(loaded.meta, index_meta());
        assert_eq!(loaded.index.changes_len(), 0);
        assert_eq!(loaded.disk.is_some(), access == Access::ReadWrite);
    }
}

#[test]
fn k3_a_reader_keeps_the_flush_that_it_opened_however_many_come_meanwhile() {
    let disk = MemoryDisk::default();
    let mut index = create(&disk);
    index.flush(&upserts(0..2000), &index_meta()).unwrap();
    let expected = Expected { identity: IDENTITY, log_end: APPLIED, segments: &segments() };
    let stored = open(&disk, path(), Access::Read, &FileOptions { cache_bytes: 0, ..FileOptions::default() }).unwrap();
    for round in 1..10 {
        let removed = (0..2000).map(RolloutId::new).filter(|id| id.get() % 10 == round).collect();
        index.flush(&Changes { removed, ..upserts(round * 2000..(round + 1) * 2000) }, &index_meta()).unwrap();
    }
    assert_eq!(rows(&stored.load(&expected).unwrap().index), (0..2000).map(rich_row).collect::<Vec<_>>());
}

#[test]
fn flushes_go_on_after_a_load() {
    let disk = MemoryDisk::default();
    drop(create(&disk));
    for round in 0..5 {
        let loaded = load_from(&disk, Access::ReadWrite).unwrap();
        assert_eq!(loaded.index.len(), usize::try_from(round * 10).unwrap());
        let changes = upserts(round * 10..(round + 1) * 10);
        loaded.disk.unwrap().flush(&changes, &index_meta()).unwrap();
    }
    assert_eq!(rows(&load_from(&disk, Access::Read).unwrap().index), (0..50).map(rich_row).collect::<Vec<_>>());
}

#[test]
fn k3_reading_alone_repairs_a_crashed_file_and_writes_nothing() {
    let disk = MemoryDisk::default();
    let mut index = create(&disk);
    index.flush(&upserts(0..100), &index_meta()).unwrap();
    let crashed = disk.file(path()).unwrap().bytes();
    let other = MemoryDisk::default();
    let file = other.put(path(), crashed.clone());
    file.full_after(0);
    assert_eq!(load_from(&other, Access::Read).unwrap().index.len(), 100);
    assert!(file.bytes() == crashed);
}

#[test]
fn k1_a_crash_at_any_write_of_a_flush_leaves_one_flush_or_the_other() {
    let mut finished = false;
    for operations in 0..200 {
        let disk = MemoryDisk::default();
        let mut index = create(&disk);
        index.flush(&upserts(0..50), &index_meta()).unwrap();
        disk.file(path()).unwrap().full_after(operations);
        let second = index.flush(&upserts(50..80), &index_meta());
        drop(index);
        disk.file(path()).unwrap().full_after(u64::MAX);
        let rollouts = load_from(&disk, Access::ReadWrite).unwrap().index.len();
        if let Err(error) = second {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            assert!(rollouts == 50 || rollouts == 80, "{rollouts} rollouts");
        } else {
            assert_eq!(rollouts, 80);
            finished = true;
            break;
        }
    }
    assert!(finished, "the flush was never left alone");
}

#[test]
fn f19_a_half_created_file_is_rejected_or_covers_nothing() {
    let mut finished = false;
    for operations in 0..200 {
        let disk = MemoryDisk::full_after(operations);
        finished = DiskIndex::create(&disk, path(), IDENTITY, &FileOptions::default()).is_ok();
        disk.file(path()).unwrap().full_after(u64::MAX);
        let loaded = load_from(&disk, Access::ReadWrite);
        assert!(!finished || loaded.is_ok());
        if let Ok(loaded) = loaded {
            assert_eq!((loaded.index.len(), loaded.meta.applied_lsn), (0, Lsn::NONE));
            assert_eq!(loaded.meta.covered, []);
        }
        if finished {
            break;
        }
    }
    assert!(finished, "the creation was never left alone");
}

#[test]
fn a_failed_flush_closes_the_file_and_a_new_one_takes_every_row() {
    let disk = MemoryDisk::default();
    let mut index = create(&disk);
    disk.file(path()).unwrap().full_after(1);
    assert_eq!(index.flush(&upserts(0..10), &index_meta()).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(index.flush(&upserts(0..10), &index_meta()).unwrap_err().kind(), ErrorKind::Io);
    let mut again = create(&disk);
    again.flush(&upserts(0..10), &index_meta()).unwrap();
    again.close().unwrap();
    assert_eq!(load_from(&disk, Access::Read).unwrap().index.len(), 10);
}

#[test]
fn f19_a_flipped_byte_is_rejected_or_changes_no_answer_and_panics_nowhere() {
    let (bytes, expected) = sample();
    let mut random = StdRng::seed_from_u64(19);
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let header = 0..384;
    let in_pages = (0..400).map(|_| used[random.random_range(0..used.len())]).collect::<Vec<_>>();
    let anywhere = (0..50).map(|_| random.random_range(0..bytes.len())).collect::<Vec<_>>();
    let mut rejected = 0;
    for at in header.chain(in_pages).chain(anywhere) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << random.random_range(0..8);
        for access in [Access::Read, Access::ReadWrite] {
            match load_bytes(flipped.clone(), access) {
                Ok(loaded) => assert!(is_flush(&loaded, &expected), "byte {at} gave wrong answers"),
                Err(rejection) => {
                    let reason = rejection.to_string();
                    assert!(!reason.contains("panic"), "byte {at}: {reason}");
                    rejected += 1;
                }
            }
        }
    }
    assert!(rejected > 300, "{rejected} rejected: the flips must reach what matters");
}

/// Whether an index is the sample as flushed last, or as it was after one of the flushes before: a damaged commit slot
/// leads redb back to the one before, which says itself how much of the log it covers.
fn is_flush(loaded: &Loaded, last: &[Row]) -> bool {
    let found = rows(&loaded.index);
    let before = (1..401).map(rich_row).collect::<Vec<_>>();
    let covers_nothing = loaded.meta.applied_lsn == Lsn::NONE && loaded.meta.covered.is_empty();
    found == last || found == before || (found.is_empty() && covers_nothing)
}

/// A pointer that led a page back to itself could have redb descend without end, which no guard would stop.
#[test]
fn f19_a_branch_page_whose_pointers_lead_anywhere_is_rejected() {
    const PAGE_BYTES: usize = 4096;
    const BRANCH: u8 = 2;
    let (bytes, expected) = sample();
    let mut rejected = 0;
    for page in (PAGE_BYTES..bytes.len()).step_by(PAGE_BYTES).filter(|page| bytes[*page] == BRANCH) {
        // The type, the number of keys at byte 2, a checksum for each child from byte 8 on, then the children.
        let children = usize::from(u16::from_le_bytes([bytes[page + 2], bytes[page + 3]])) + 1;
        let pointers = page + 8 + 16 * children..page + 8 + 24 * children;
        for target in 0..(bytes.len() / PAGE_BYTES) as u64 {
            let mut led_astray = bytes.clone();
            let Some(pointers) = led_astray.get_mut(pointers.clone()) else { continue };
            pointers.chunks_exact_mut(8).for_each(|pointer| pointer.copy_from_slice(&target.to_le_bytes()));
            for access in [Access::Read, Access::ReadWrite] {
                match load_bytes(led_astray.clone(), access) {
                    Ok(loaded) => assert!(is_flush(&loaded, &expected), "page {page} led to {target}"),
                    Err(rejection) => {
                        assert!(!rejection.to_string().contains("panic"), "page {page} led to {target}: {rejection}");
                        rejected += 1;
                    }
                }
            }
        }
    }
    assert!(rejected > 10, "{rejected} rejected: the branch pages must be found");
}

#[test]
fn f19_a_truncated_file_is_rejected() {
    let (bytes, expected) = sample();
    let mut random = StdRng::seed_from_u64(20);
    for access in [Access::Read, Access::ReadWrite] {
        for len in (0..40).map(|_| random.random_range(0..bytes.len())).chain([0, 1, 64, 4096, bytes.len() - 1]) {
            if let Ok(loaded) = load_bytes(bytes[..len].to_vec(), access) {
                assert!(is_flush(&loaded, &expected), "{len} bytes");
            }
        }
        assert!(load_bytes(bytes[..bytes.len() / 2].to_vec(), access).is_err());
        assert!(load_bytes(vec![0xa5; 100_000], access).is_err());
    }
}

#[test]
fn f18_f19_an_index_of_another_state_is_rejected_with_the_reason() {
    let (bytes, _) = sample();
    let disk = MemoryDisk::default();
    assert!(reason(load_from(&disk, Access::Read)).starts_with("will not open"));
    disk.put(path(), Vec::new());
    assert_eq!(reason(load_from(&disk, Access::ReadWrite)), "empty");
    disk.put(path(), bytes);
    let all = segments();
    let expected = Expected { identity: IDENTITY, log_end: APPLIED, segments: &all };
    let with = |expected: Expected<'_>| {
        let stored = open(&disk, path(), Access::Read, &FileOptions::default());
        reason(stored.and_then(|stored| stored.load(&expected)))
    };
    let store = Identity { store: [0; 16], ..IDENTITY };
    assert_eq!(with(Expected { identity: store, ..expected }), "belongs to another store");
    let epoch = Identity { epoch: 5, ..IDENTITY };
    assert_eq!(with(Expected { identity: epoch, ..expected }), "is of epoch 4, the store is at 5");
    let log_end = Lsn::new(1000);
    assert_eq!(with(Expected { log_end, ..expected }), "covers LSN 1048576, the log ends at 1000");
    let fewer = [SegmentId(1)].into();
    assert_eq!(with(Expected { segments: &fewer, ..expected }), "covers segment 00000002, which is not listed");
}

/// Loads a file that was flushed by `write`, which is given what no flush would give.
fn load_written(write_wrong: impl FnOnce(&Database)) -> Result<Loaded, Rejected> {
    let disk = MemoryDisk::default();
    let mut index = create(&disk);
    index.flush(&upserts(0..10), &index_meta()).unwrap();
    write_wrong(index.db.as_ref().unwrap());
    index.close().unwrap();
    load_from(&disk, Access::ReadWrite)
}

#[test]
fn k4_rows_that_do_not_add_up_are_rejected() {
    let lost = load_written(|db| {
        let transaction = db.begin_write().unwrap();
        transaction.open_table(ROLLOUTS).unwrap().remove(3).unwrap();
        transaction.commit().unwrap();
    });
    assert!(reason(lost).starts_with("9 rows with digest"));
    let replaced = load_written(|db| {
        let mut bytes = Vec::new();
        let mut older = rich_row(3);
        older.entry.born_step = 0;
        older.encode(&mut bytes);
        let transaction = db.begin_write().unwrap();
        transaction.open_table(ROLLOUTS).unwrap().insert(3, bytes.as_slice()).unwrap();
        transaction.commit().unwrap();
    });
    assert!(reason(replaced).starts_with("10 rows with digest"));
    let moved = load_written(|db| {
        let mut bytes = Vec::new();
        rich_row(3).encode(&mut bytes);
        let transaction = db.begin_write().unwrap();
        transaction.open_table(ROLLOUTS).unwrap().insert(77, bytes.as_slice()).unwrap();
        transaction.commit().unwrap();
    });
    assert_eq!(reason(moved), "row 77 is of rollout 3");
}

#[test]
fn k4_rows_beyond_what_the_meta_record_covers_are_rejected() {
    let flushed = |row: Row, meta: &IndexMeta| {
        let disk = MemoryDisk::default();
        let mut index = create(&disk);
        index.flush(&Changes { upserts: vec![row], removed: Vec::new() }, meta).unwrap();
        index.close().unwrap();
        load_from(&disk, Access::Read)
    };
    let early = IndexMeta { applied_lsn: Lsn::new(14), ..index_meta() };
    assert_eq!(reason(flushed(rich_row(1), &early)), "rollout 1 has LSN 15, beyond the applied 14");
    let mut elsewhere = rich_row(1);
    elsewhere.entry.old.segment = SegmentId(9);
    let segment_missing = "rollout 1 lies in segment 00000009, which is not listed";
    assert_eq!(reason(flushed(elsewhere, &index_meta())), segment_missing);
}
