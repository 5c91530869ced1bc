//! A forked child cannot write (P3), takes nothing away from its parent, holds nothing for one that is gone, and may own
//! stores of its own.
//!
//! Method: real forks. A child of this process is asked everything that writes. For the orphan this binary runs itself as
//! a parent that forks and is killed.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rollstore::{Durability, Error, ErrorKind, NewRollout, Options, Rewind, RolloutStore};
use rollstore_testkit::child;
use rollstore_testkit::scratch::is_written_behind;

fn options() -> Options {
    // Many stores beside each other, on a small file system too.
    RolloutStore::options().window(8).reserve_bytes(0)
}

fn store_in(dir: &Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    store.insert(NewRollout::new(1, 1)).unwrap();
    store
}

/// The bytes of each file but those that the parent writes behind.
fn contents(dir: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| !is_written_behind(&entry.file_name()));
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

/// More than any child here takes.
const SECONDS_MAX: u32 = 120;

/// Forks; `act` runs in the child, which leaves with its result. Returns the child's pid.
#[expect(unsafe_code, reason = "there is no fork without it")]
fn fork(act: impl FnOnce() -> u8) -> i32 {
    // SAFETY: the child has this thread alone. It runs `act`, which takes no lock that another thread of this process
    // can hold but the allocator's, which the C library keeps usable over a fork, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: sets a timer, whose signal ends a child that waits for what never comes.
        unsafe { libc::alarm(SECONDS_MAX) };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(u8::MAX);
        // SAFETY: `_exit` ends the process at once: no destructor and no exit handler of the parent's runs.
        unsafe { libc::_exit(i32::from(result)) }
    }
    pid
}

/// The exit code of a forked child.
#[expect(unsafe_code, reason = "a fork without std is waited for without std")]
fn exit_code(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `pid` is a child of this process that nobody else waits for, and `status` outlives the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    assert!(libc::WIFEXITED(status), "the child ended by a signal: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Whether a write was refused because this is a child of `parent`.
fn refused(result: Result<(), Error>, parent: u32) -> bool {
    let message = result.as_ref().map_err(ToString::to_string).err().unwrap_or_default();
    result.is_err_and(|error| error.kind() == ErrorKind::Invalid) && message.contains(&parent.to_string())
}

#[test]
fn p03_a_forked_child_cannot_write_and_takes_nothing_away() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("rollouts");
    let store = store_in(&dir);
    let before = contents(&dir);
    let parent = std::process::id();
    let child_handle = store.clone();
    let passed = exit_code(fork(|| {
        let checks = [
            refused(child_handle.insert(NewRollout::new(2, 1)).map(drop), parent),
            refused(child_handle.advance_ref_version(1, None).map(drop), parent),
            refused(child_handle.retire(&[1.into()], rollstore::Reason::Other).map(drop), parent),
            refused(child_handle.checkpoint(root.path().join("saved")).map(drop), parent),
            refused(child_handle.allocate_ids(1).map(drop), parent),
            refused(child_handle.weight_update(1, || Ok::<_, Error>(())), parent),
            refused(child_handle.rewind(0, Rewind::Keep).map(drop), parent),
            child_handle.get(1.into()).is_ok_and(|view| view.is_some()),
            child_handle.close().is_ok(),
        ];
        u8::try_from(checks.iter().filter(|passed| **passed).count()).unwrap_or(u8::MAX)
    }));
    assert_eq!(passed, 9, "checks that passed in the child");
    assert_eq!(contents(&dir), before, "the child changed files");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "the child made files");
    let error = options().open(&dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains(&format!("pid {parent} ")), "{error}");
    store.insert(NewRollout::new(2, 1)).unwrap();
    store.close().unwrap();
    assert_eq!(options().open(&dir).unwrap().len(), 2);
}

/// Opens stores of its own that each have threads asleep, wakes them, and closes the stores. Returns how many kept what was
/// inserted.
fn stores_at_work(root: &Path, count: u64) -> u64 {
    let buffered = || options().durability(Durability::Buffered { max_delay: Duration::from_millis(1) });
    let stores: Vec<_> = (0..count).map(|number| buffered().open(root.join(number.to_string())).unwrap()).collect();
    let works = |store: &&RolloutStore| {
        let inserted = (1..=20).all(|id| store.insert(NewRollout::new(id, 1)).is_ok()) && store.sync().is_ok();
        inserted && store.len() == 20 && (*store).clone().close().is_ok()
    };
    stores.iter().filter(works).count() as u64
}

/// The threads of the parent's stores sleep while it forks, and none of them is in the child: whatever a lock keeps of who
/// waits for it must not lead there.
#[test]
fn a_child_that_is_forked_beside_sleeping_threads_may_own_stores() {
    const STORES: u64 = 24;
    let root = tempfile::tempdir().unwrap();
    let open = |number: u64| options().open(root.path().join(format!("parent-{number}"))).unwrap();
    let inherited: Vec<_> = (0..STORES).map(open).collect();
    for round in 0..4 {
        let child = fork(|| u8::try_from(stores_at_work(&root.path().join(format!("child-{round}")), STORES)).unwrap());
        assert_eq!(exit_code(child), 24, "stores of the child that worked, in round {round}");
    }
    for store in &inherited {
        store.insert(NewRollout::new(1, 1)).unwrap();
    }
}

/// The parent to be killed: forks a child that tries to write once told to.
#[test]
fn parent_of_an_orphan() {
    let Some((role, dir)) = child::role() else { return };
    assert_eq!(role, "parent");
    let store = store_in(&dir);
    let parent = std::process::id();
    let orphan_handle = store.clone();
    fork(|| {
        // Said by the orphan, not by its parent: here the fork is over, and what it lets go is gone.
        let here = std::io::stdout().write_all(format!("\nforked {}\n", std::process::id()).as_bytes());
        let here = here.and_then(|()| std::io::stdout().flush());
        // Ends with the test's end of the pipe, whatever becomes of the test.
        let told = std::io::stdin().lock().read_line(&mut String::new());
        let passed = told.is_ok() && refused(orphan_handle.insert(NewRollout::new(2, 1)).map(drop), parent);
        let said = if passed { "\norphan refused\n" } else { "\norphan wrote\n" };
        let told = std::io::stdout().write_all(said.as_bytes()).and_then(|()| std::io::stdout().flush());
        u8::from(passed && here.is_ok() && told.is_ok())
    });
    loop {
        std::thread::park();
    }
}

#[test]
fn p03_an_orphan_of_a_killed_writer_holds_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut command = child::command("parent_of_an_orphan", "parent", root.path());
    let mut parent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let orphan = lines.find_map(|line| line.strip_prefix("forked ").map(str::to_owned)).unwrap();
    let error = options().open(root.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "as long as the parent lives: {error}");

    parent.kill().unwrap();
    let mut input = parent.stdin.take().unwrap();
    parent.wait().unwrap();
    let store = options().open(root.path()).expect("the lock went with the parent");
    assert_eq!(store.len(), 1);
    assert!(Path::new(&format!("/proc/{orphan}")).exists() || cfg!(not(target_os = "linux")), "the orphan lives");
    input.write_all(b"write\n").unwrap();
    assert_eq!(lines.find(|line| line.starts_with("orphan ")).unwrap(), "orphan refused");
    store.insert(NewRollout::new(3, 1)).unwrap();
    store.close().unwrap();
    assert_eq!(options().open(root.path()).unwrap().ids(), [1.into(), 3.into()]);
}
