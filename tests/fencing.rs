//! Where no file can be locked, an owner that was taken over from acknowledges nothing more and harms nobody (D10).
//!
//! Method: two machines are two handles on one disk without locks. The second one takes over before each operation of the
//! first one in turn, does its work, and only then is the first one let go on. Power cuts fall on each operation of a
//! take-over.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, OpKind, SimDisk};
use rollstore::{ErrorKind, LockKind, Options, Reason, RolloutStore, TakeOver};
use rollstore_testkit::child;
use rollstore_testkit::crash::changing;
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::scratch::assert_says;
use rollstore_testkit::store::{DIR, check_content, options, rollout, rollout_of};

/// So long that no beat falls into a test that counts operations.
const NEVER_BEATS: Duration = Duration::from_hours(1);

fn heartbeat(disk: &Arc<dyn Disk>, take_over: TakeOver) -> Options {
    options(Arc::clone(disk)).lock(LockKind::Heartbeat { every: NEVER_BEATS, take_over })
}

fn unlockable() -> Arc<dyn Disk> {
    Arc::new(SimDisk::new().with_locks(false))
}

fn numbers(store: &RolloutStore) -> Vec<u64> {
    for id in store.ids() {
        check_content(&store.get(id).unwrap().unwrap());
    }
    store.ids().iter().map(|id| id.get()).collect()
}

fn bytes_of(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, rollstore::disk::Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// This process, as an error names it.
fn us(term: u64) -> (String, String) {
    (format!("pid {} on {} since ", std::process::id(), rollstore::disk::os::host_name()), format!("(term {term})"))
}

#[test]
fn d10_a_file_system_without_locks_is_refused_by_an_error_that_names_the_way_out() {
    let disk = unlockable();
    let error = options(Arc::clone(&disk)).open(DIR).unwrap_err();
    assert_says(&error, ErrorKind::Io, &["no working flock", "LockKind::heartbeat", "LOCK"]);
    assert!(disk.list(DIR.as_ref()).unwrap().is_empty(), "nothing is left behind");
}

fn first_is_fenced(disk: &Arc<dyn Disk>, dir: &Path) {
    let first = heartbeat(disk, TakeOver::Never).open(dir).unwrap();
    first.insert(rollout(1, 0, 0)).unwrap();
    let (who, term) = us(1);
    assert_says(&heartbeat(disk, TakeOver::Never).open(dir).unwrap_err(), ErrorKind::Locked, &[&who, &term]);

    let second = heartbeat(disk, TakeOver::Now).open(dir).unwrap();
    assert_eq!(numbers(&second), [1]);
    for _ in 0..2 {
        let error = first.insert(rollout(2, 0, 0)).unwrap_err();
        assert_says(&error, ErrorKind::Fenced, &[&who, "(term 1)", "(term 2)", "taken over"]);
    }
    assert_eq!(first.checkpoint(dir.with_extension("saved")).unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(numbers(&first), [1], "reads go on");
    second.insert(rollout(3, 0, 0)).unwrap();
    assert_eq!(first.close().unwrap_err().kind(), ErrorKind::Fenced);
    second.insert(rollout(4, 0, 0)).unwrap();
    second.close().unwrap();
    let third = heartbeat(disk, TakeOver::Never).open(dir).expect("the second one closed the store");
    assert_eq!(numbers(&third), [1, 3, 4]);
}

#[test]
fn d10_who_is_taken_over_from_is_fenced() {
    first_is_fenced(&unlockable(), DIR.as_ref());
}

#[test]
fn d10_who_is_taken_over_from_is_fenced_on_real_files_too() {
    let root = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    first_is_fenced(&disk, &root.path().join("rollouts"));
}

/// The highest number in the names of a store's files that begin so.
fn highest(disk: &SimDisk, prefix: &str, radix: u32) -> u64 {
    let names = disk.list(DIR.as_ref()).unwrap();
    let number = |name: &str| u64::from_str_radix(name.strip_prefix(prefix)?.trim_end_matches(".log"), radix).ok();
    names.iter().filter_map(|name| number(name.to_str()?)).max().unwrap()
}

#[test]
fn d10_what_an_owner_can_still_write_lies_below_what_the_next_one_writes() {
    const APART: u64 = 256;
    let disk = SimDisk::new().with_locks(false);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let numbers = || (highest(&disk, "MANIFEST-", 16), highest(&disk, "seg-", 10));
    let removes_index =
        || disk.trace().iter().any(|op| op.kind == OpKind::RemoveFile && op.path.ends_with("index.redb"));
    let first = heartbeat(&shared, TakeOver::Never).open(DIR).unwrap();
    first.insert(rollout(1, 0, 0)).unwrap();
    let before = numbers();
    disk.clear_trace();
    let second = heartbeat(&shared, TakeOver::Now).open(DIR).unwrap();
    second.insert(rollout(2, 0, 0)).unwrap();
    let after = numbers();
    assert!(after.0 > before.0 + APART && after.1 >= before.1 + APART, "{before:?}, then {after:?}");
    assert!(removes_index(), "the first owner may still write into the index that it has open");
    second.close().unwrap();
    disk.clear_trace();
    heartbeat(&shared, TakeOver::Never).open(DIR).unwrap();
    assert!(!removes_index(), "who closed the store writes no more");
}

/// A trainer's steps that roll segments, retire, checkpoint and close. `acknowledged` counts the batches.
fn work(store: RolloutStore, from: u64, acknowledged: &AtomicU64) -> rollstore::Result<()> {
    for batch in from..from + 4 {
        store.insert(rollout_of(batch, 0, 0, 4_000))?;
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    store.retire(&[(from + 1).into()], Reason::Trained)?;
    store.checkpoint("/saved")?;
    store.insert(rollout_of(from + 4, 0, 0, 10))?;
    acknowledged.fetch_add(1, Ordering::SeqCst);
    store.close()
}

/// The second owner's store, and the rollouts that it found.
type Second = (RolloutStore, Vec<u64>);

/// The second owner takes over before operation `at` of the first. Whether that operation came.
fn taken_over_before(at: u64, when: &str) -> bool {
    let disk = unlockable();
    let begun = heartbeat(&disk, TakeOver::Never).open(DIR).unwrap();
    begun.insert(rollout(0, 0, 0)).unwrap();
    begun.abandon();

    let acknowledged = Arc::new(AtomicU64::new(0));
    let second: Arc<Mutex<Option<Second>>> = Arc::default();
    let (inner, count, taken, heard) =
        (Arc::clone(&disk), AtomicU64::new(0), Arc::clone(&second), Arc::clone(&acknowledged));
    let named = AtomicBool::new(false);
    let hooked: Arc<dyn Disk> = Arc::new(Hooked::new(Arc::clone(&disk), move |kind, path| {
        // From the rename on that makes it the owner: before, it could only be the one who takes over.
        let names_owner = kind == OpKind::Rename && path.to_string_lossy().contains("LOCK-");
        if (names_owner || named.load(Ordering::SeqCst)) && count.fetch_add(1, Ordering::SeqCst) == at {
            let store = heartbeat(&inner, TakeOver::Now).open(DIR).unwrap_or_else(|error| panic!("{error}"));
            let found = numbers(&store);
            let promised = heard.load(Ordering::SeqCst);
            assert!((1..=promised).all(|id| id == 2 || found.contains(&id)), "{promised} promised, {found:?} found");
            // Its own work, while the first one stands still.
            for id in 100..104 {
                store.insert(rollout_of(id, 0, 0, 4_000)).unwrap();
            }
            *taken.lock().unwrap() = Some((store, found));
        }
        named.fetch_or(names_owner, Ordering::SeqCst);
        Ok(())
    }));
    let opened = heartbeat(&hooked, TakeOver::Now).open(DIR);
    let ended = opened.and_then(|store| work(store, 1, &acknowledged));
    let Some((second, found)) = second.lock().unwrap().take() else {
        ended.unwrap_or_else(|error| panic!("{when}: nobody took over: {error}"));
        return false;
    };
    let promised = acknowledged.load(Ordering::SeqCst);
    for id in (1..=promised).filter(|id| *id != 2) {
        assert!(found.contains(&id), "{when}: {id} was acknowledged, the second owner found {found:?}");
    }
    let mut expected = [found, (100..104).collect()].concat();
    expected.sort_unstable();
    second.insert(rollout_of(104, 0, 0, 10)).unwrap_or_else(|error| panic!("{when}: the second owner: {error}"));
    expected.push(104);
    let sorted = |store: &RolloutStore| {
        let mut numbers = numbers(store);
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(sorted(&second), expected, "{when}");
    second.abandon();
    // Whoever comes next finds the second owner's store, with an index and without.
    for round in 0..2 {
        let third = heartbeat(&disk, TakeOver::Now).open(DIR).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(sorted(&third), expected, "{when}, round {round}");
        assert!(third.verify().unwrap().findings.is_empty(), "{when}");
        third.close().unwrap();
    }
    true
}

#[test]
fn d10_a_take_over_before_any_operation_of_the_first_owner_loses_nothing_and_lets_nothing_in() {
    let mut at = 0;
    while taken_over_before(at, &format!("before operation {at}")) {
        at += 1;
    }
    assert!(at > 150, "{at} operations");
}

#[test]
fn d10_a_take_over_that_loses_power_at_any_operation_loses_nothing() {
    // The owner before acknowledged a batch and vanished.
    let begin = || {
        let disk = SimDisk::new().with_locks(false);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let first = heartbeat(&shared, TakeOver::Never).open(DIR).unwrap();
        first.insert(rollout(1, 0, 0)).unwrap();
        first.abandon();
        disk.clear_trace();
        (disk, shared)
    };
    let (disk, shared) = begin();
    let second = heartbeat(&shared, TakeOver::Now).open(DIR).unwrap();
    second.insert(rollout(2, 0, 0)).unwrap();
    second.abandon();
    let mut points = 0;
    for op in changing(&disk.trace()) {
        points += 1;
        let images = ImageStyle::ALL.iter().map(|style| Some(CrashImage { seed: op.number, style: *style }));
        for image in images.chain([None]) {
            let (disk, shared) = begin();
            disk.fail_at(op.number, Fault::PowerCut);
            let second = heartbeat(&shared, TakeOver::Now).open(DIR);
            let acknowledged = second.as_ref().is_ok_and(|second| second.insert(rollout(2, 0, 0)).is_ok());
            let _ = second.map(RolloutStore::abandon);
            let when = format!("{op:?}, {image:?}");
            let disk = image.map_or_else(|| disk.kill(), |image| disk.crash(image));
            let shared: Arc<dyn Disk> = Arc::new(disk);
            let third = heartbeat(&shared, TakeOver::Now).open(DIR).unwrap_or_else(|error| panic!("{when}: {error}"));
            let found = numbers(&third);
            assert!(found == [1, 2] || (found == [1] && !acknowledged), "{when}: {found:?}");
            third.insert(rollout(3, 0, 0)).unwrap();
            third.close().unwrap();
            let fourth =
                heartbeat(&shared, TakeOver::Never).open(DIR).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_eq!(fourth.len(), found.len() + 1, "{when}");
        }
    }
    assert!(points > 10, "{points} points");
}

#[test]
fn d10_a_take_over_that_fails_at_any_operation_leaves_the_owner_or_fences_it() {
    let run = |failing: Option<u64>| {
        let shared = unlockable();
        let first = heartbeat(&shared, TakeOver::Never).open(DIR).unwrap();
        first.insert(rollout(1, 0, 0)).unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&count);
        let failing_disk: Arc<dyn Disk> = Arc::new(Hooked::new(Arc::clone(&shared), move |_, _| {
            let number = counting.fetch_add(1, Ordering::SeqCst);
            if Some(number) == failing { Err(std::io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }));
        if let Ok(second) = heartbeat(&failing_disk, TakeOver::Now).open(DIR) {
            second.abandon();
        }
        let acknowledged = first.insert(rollout(2, 0, 0));
        first.abandon();
        let third = heartbeat(&shared, TakeOver::Now).open(DIR).unwrap_or_else(|error| panic!("{failing:?}: {error}"));
        match acknowledged {
            Ok(_) => assert_eq!(numbers(&third), [1, 2], "{failing:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Fenced, "{failing:?}: {error}");
                assert_eq!(numbers(&third), [1], "{failing:?}");
            }
        }
        count.load(Ordering::SeqCst)
    };
    for number in 0..run(None) {
        run(Some(number));
    }
}

#[test]
fn d10_of_many_that_race_for_a_store_without_an_owner_one_wins() {
    for round in 0..20 {
        let disk = unlockable();
        let start = std::sync::Barrier::new(8);
        let open = |_| {
            start.wait();
            heartbeat(&disk, TakeOver::Never).open(DIR)
        };
        let opened: Vec<_> = thread::scope(|scope| {
            let racing: Vec<_> = (0..8).map(|at| scope.spawn(move || open(at))).collect();
            racing.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|one| one.is_ok()).count(), 1, "round {round}: {opened:?}");
        for error in opened.iter().filter_map(|one| one.as_ref().err()) {
            assert_eq!(error.kind(), ErrorKind::Locked, "round {round}: {error}");
        }
    }
}

#[test]
fn d10_an_owner_that_beats_keeps_its_store_and_a_silent_one_loses_it() {
    let root = tempfile::tempdir().unwrap();
    let options = |every: u64, silence: u64| {
        let take_over = TakeOver::AfterSilence(Duration::from_millis(silence));
        let lock = LockKind::Heartbeat { every: Duration::from_millis(every), take_over };
        RolloutStore::options().window(8).lock(lock)
    };
    let first = options(2, 0).open(root.path()).unwrap();
    first.insert(rollout(1, 0, 0)).unwrap();
    let error = options(2, 3_600_000).open(root.path()).unwrap_err();
    assert_says(&error, ErrorKind::Locked, &[&us(1).0, "its heart beats"]);
    first.insert(rollout(2, 0, 0)).unwrap();
    first.abandon();
    let second = options(2, 0).open(root.path()).unwrap();
    assert_eq!(numbers(&second), [1, 2]);
    // Who goes away while another one listens leaves the store at once.
    let listener = thread::scope(|scope| {
        let listening = scope.spawn(|| {
            loop {
                match options(2, 3_600_000).open(root.path()) {
                    Err(error) if error.kind() == ErrorKind::Locked => {}
                    other => return other,
                }
            }
        });
        second.close().unwrap();
        listening.join().unwrap()
    });
    assert_eq!(numbers(&listener.unwrap()), [1, 2]);
}

/// What is left of a claim that came too late, or of a take-over that failed: its maker says that it is over, and is gone before
/// it removed the file.
#[test]
fn d10_a_claim_that_was_withdrawn_frees_no_store_that_another_one_owns() {
    for term in [2, 3] {
        let disk = unlockable();
        heartbeat(&disk, TakeOver::Never).open(DIR).unwrap().close().unwrap();
        let lock = Path::new(DIR).join("LOCK");
        let released = bytes_of(&*disk, &lock);
        let owner = heartbeat(&disk, TakeOver::Never).open(DIR).unwrap();
        owner.insert(rollout(1, 0, 0)).unwrap();
        let claim = disk.create(&Path::new(DIR).join(format!("LOCK-{term:016x}"))).unwrap();
        claim.write_all_vectored_at(&mut [std::io::IoSlice::new(&released)], 0).unwrap();
        let refused = heartbeat(&disk, TakeOver::Never).open(DIR).unwrap_err();
        assert_says(&refused, ErrorKind::Locked, &[&us(2).0, &us(2).1]);
        owner.insert(rollout(2, 0, 0)).unwrap();
        owner.close().unwrap();
        assert_eq!(
            numbers(&heartbeat(&disk, TakeOver::Never).open(DIR).unwrap()),
            [1, 2],
            "the claim is in nobody's way"
        );
    }
}

#[test]
fn d10_an_owner_that_beats_is_heard_beside_the_claim_of_a_take_over_that_was_broken_off() {
    let root = tempfile::tempdir().unwrap();
    let options = |silence: u64| {
        let take_over = TakeOver::AfterSilence(Duration::from_millis(silence));
        RolloutStore::options().window(8).lock(LockKind::Heartbeat { every: Duration::from_millis(2), take_over })
    };
    let owner = options(0).open(root.path()).unwrap();
    owner.insert(rollout(1, 0, 0)).unwrap();
    std::fs::copy(root.path().join("LOCK"), root.path().join(format!("LOCK-{:016x}", 2))).unwrap();
    let refused = options(3_600_000).open(root.path()).unwrap_err();
    assert_says(&refused, ErrorKind::Locked, &[&us(1).0, "its heart beats"]);
    owner.insert(rollout(2, 0, 0)).unwrap();
    owner.abandon();
    assert_eq!(numbers(&options(0).open(root.path()).unwrap()), [1, 2], "both are silent");
}

#[test]
fn d10_a_writer_with_flock_does_not_push_an_owner_by_heartbeat_aside() {
    let root = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let first = heartbeat(&disk, TakeOver::Never).open(root.path()).unwrap();
    first.insert(rollout(1, 0, 0)).unwrap();
    first.checkpoint(root.path().with_extension("saved")).unwrap();
    let by_flock = || options(Arc::clone(&disk)).open(root.path());
    assert_says(&by_flock().unwrap_err(), ErrorKind::Locked, &[&us(1).0, "LockKind::heartbeat"]);
    let restored = RolloutStore::restore(root.path().with_extension("saved"), root.path());
    assert_eq!(restored.unwrap_err().kind(), ErrorKind::Locked);
    first.insert(rollout(2, 0, 0)).unwrap();
    first.close().unwrap();

    let second = by_flock().expect("the first one closed the store");
    // A holder by flock does not beat: its silence means nothing.
    for take_over in [TakeOver::Never, TakeOver::AfterSilence(Duration::ZERO)] {
        let error = heartbeat(&disk, take_over).open(root.path()).unwrap_err();
        assert_says(&error, ErrorKind::Locked, &[&us(1).0]);
    }
    second.insert(rollout(3, 0, 0)).unwrap();
    let third = heartbeat(&disk, TakeOver::Now).open(root.path()).unwrap();
    assert_eq!(second.insert(rollout(4, 0, 0)).unwrap_err().kind(), ErrorKind::Poisoned);
    drop(second);
    assert_eq!(numbers(&third), [1, 2, 3]);
    third.close().unwrap();
    std::fs::remove_dir_all(root.path().with_extension("saved")).unwrap();
}

#[test]
fn d10_a_restore_without_locks_fences_the_store_that_it_replaces() {
    let disk = unlockable();
    let first = heartbeat(&disk, TakeOver::Never).open(DIR).unwrap();
    first.insert(rollout(1, 0, 0)).unwrap();
    first.checkpoint("/saved").unwrap();
    first.insert(rollout(2, 0, 0)).unwrap();
    let never = heartbeat(&disk, TakeOver::Never).restore("/saved", DIR);
    assert_eq!(never.unwrap_err().kind(), ErrorKind::Locked);
    first.insert(rollout(3, 0, 0)).unwrap();
    heartbeat(&disk, TakeOver::Now).restore("/saved", DIR).unwrap();
    assert_eq!(first.insert(rollout(4, 0, 0)).unwrap_err().kind(), ErrorKind::Fenced);
    drop(first);
    assert_eq!(numbers(&heartbeat(&disk, TakeOver::Never).open(DIR).unwrap()), [1]);
}

/// The other party of the next test: opens the store and ends as if it was killed.
#[test]
fn other_machine() {
    let Some((_, dir)) = child::role() else { return };
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let store = heartbeat(&disk, TakeOver::Never).open(dir).unwrap();
    store.insert(rollout(1, 0, 0)).unwrap();
    std::process::abort();
}

#[test]
fn d10_the_owner_that_a_killed_process_was_is_named_and_taken_over_from_on_request_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut child = child::command("other_machine", "owner", root.path()).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let error = heartbeat(&disk, TakeOver::Never).open(root.path()).unwrap_err();
    assert_says(&error, ErrorKind::Locked, &[&format!("pid {pid} on "), "take over"]);
    assert_eq!(numbers(&heartbeat(&disk, TakeOver::Now).open(root.path()).unwrap()), [1]);
}
