//! One writer at a time, whatever name the store is reached by, and a writer that lost its place notices before it
//! acknowledges anything more.
//!
//! Method: second openers in this process and in others (this binary runs itself), and hands that meddle with the files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;

use rollstore::{Error, ErrorKind, NewRollout, Options, RolloutStore};
use rollstore_testkit::child;
use rollstore_testkit::scratch::is_written_behind;

fn options() -> Options {
    RolloutStore::options().window(8)
}

fn store_in(dir: &Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    store.insert(NewRollout::new(1, 1)).unwrap();
    store
}

#[track_caller]
fn assert_locked_by(error: &Error, pid: u32) {
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains(&format!("pid {pid} ")), "the holder is {pid}: {error}");
}

fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

fn digest(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read(path).unwrap().hash(&mut hasher);
    hasher.finish()
}

/// A digest of each file but those that a store writes behind, and the hidden ones, under which a network file system keeps
/// what was removed and is still open.
fn contents(dir: &Path) -> BTreeMap<OsString, u64> {
    let names = names(dir).into_iter();
    let names = names.filter(|name| !is_written_behind(name) && !name.to_string_lossy().starts_with('.'));
    names.map(|name| (name.clone(), digest(&dir.join(name)))).collect()
}

/// The same directory by a path that starts at the working directory.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    up.join(path.strip_prefix("/").unwrap())
}

#[test]
fn d10_a_second_writer_is_locked_out_by_every_name() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("rollouts");
    let store = store_in(&dir);
    let link = root.path().join("link");
    // Relative: some network file systems do not follow another one.
    std::os::unix::fs::symlink("rollouts", &link).unwrap();
    for path in [dir.clone(), link, relative(&dir), dir.join("../rollouts/.")] {
        let error = options().open(&path).unwrap_err();
        assert_locked_by(&error, std::process::id());
    }
    store.insert(NewRollout::new(2, 1)).unwrap();
    store.close().unwrap();
    let store = options().open(relative(&dir)).unwrap();
    assert_eq!(store.len(), 2);
    assert_locked_by(&options().open(&dir).unwrap_err(), std::process::id());
}

#[test]
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_types, reason = "a descriptor of the directory itself is what this is about")]
fn d10_a_second_writer_is_locked_out_by_a_descriptor_path() {
    use std::os::fd::AsRawFd;
    let root = tempfile::tempdir().unwrap();
    let store = store_in(root.path());
    let handle = std::fs::File::open(root.path()).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    assert_locked_by(&options().open(&path).unwrap_err(), std::process::id());
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(store.len(), 1);
    assert_locked_by(&options().open(root.path()).unwrap_err(), std::process::id());
}

#[test]
fn d10_readers_and_a_restore_are_told_apart_from_writers() {
    let root = tempfile::tempdir().unwrap();
    let (dir, saved) = (root.path().join("rollouts"), root.path().join("saved"));
    let store = store_in(&dir);
    store.checkpoint(&saved).unwrap();
    assert_eq!(options().read_only(true).open(&dir).unwrap().len(), 1);
    assert_locked_by(&RolloutStore::restore(&saved, &dir).unwrap_err(), std::process::id());
    store.insert(NewRollout::new(2, 1)).unwrap();
}

/// The other party: opens the directory once told to, says how it went, and holds the store until told to end.
#[test]
fn other_writer() {
    let Some((role, dir)) = child::role() else { return };
    assert_eq!(role, "writer");
    let mut lines = std::io::stdin().lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    match options().open(&dir) {
        Ok(store) => {
            store.insert(NewRollout::new(u64::from(std::process::id()), 1)).unwrap();
            println!("\nOPENED");
            assert!(lines.next().is_none(), "the end of the input ends the store");
            store.close().unwrap();
        }
        Err(error) => println!("\n{:?} {error}", error.kind()),
    }
}

/// A process that is ready to open `dir`.
fn writer(dir: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = child::command("other_writer", "writer", dir);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn tell_to_open(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"open\n").unwrap();
}

/// The same process, to which `dir` is mounted at another path that nobody else sees; `None` where that is not allowed.
#[cfg(target_os = "linux")]
fn writer_through_a_mount(dir: &Path, at: &Path) -> Option<(Child, BufReader<std::process::ChildStdout>)> {
    let mount = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let wrapped = |program: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", mount, "sh"]).args([dir, at]).arg(program);
        command
    };
    if !wrapped("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let inner = child::command("other_writer", "writer", at);
    let mut command = wrapped(inner.get_program().to_str().unwrap());
    command.args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Some((child, output))
}

#[test]
#[cfg(target_os = "linux")]
fn d10_a_second_writer_is_locked_out_through_a_bind_mount() {
    let root = tempfile::tempdir().unwrap();
    let (dir, at) = (root.path().join("rollouts"), root.path().join("elsewhere"));
    std::fs::create_dir(&at).unwrap();
    let store = store_in(&dir);
    let Some((mut other, mut output)) = writer_through_a_mount(&dir, &at) else {
        eprintln!("skipped: this machine allows no mounts");
        return;
    };
    tell_to_open(&mut other);
    let said = outcome(&mut output);
    assert!(said.starts_with("Locked ") && said.contains(&format!("pid {} ", std::process::id())), "{said}");
    end(other, output);
    store.close().unwrap();
    let (mut other, mut output) = writer_through_a_mount(&dir, &at).unwrap();
    tell_to_open(&mut other);
    assert_eq!(outcome(&mut output), "OPENED");
    assert_locked_by(&options().open(&dir).unwrap_err(), other.id());
    end(other, output);
}

/// How the opening went.
fn outcome(output: &mut BufReader<std::process::ChildStdout>) -> String {
    let line = output.lines().map(Result::unwrap).find(|line| line == "OPENED" || line.contains(' ') && is_error(line));
    line.expect("the other process says how it went")
}

fn is_error(line: &str) -> bool {
    ["Locked ", "Invalid ", "NotFound ", "Damaged ", "Io "].iter().any(|kind| line.starts_with(kind))
}

fn end(mut child: Child, mut output: BufReader<std::process::ChildStdout>) {
    drop(child.stdin.take());
    output.read_to_string(&mut String::new()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn p02_another_process_is_locked_out_and_told_who_holds_it() {
    let root = tempfile::tempdir().unwrap();
    let store = store_in(root.path());
    let (mut other, mut output) = writer(root.path());
    tell_to_open(&mut other);
    let said = outcome(&mut output);
    assert!(said.starts_with("Locked "), "{said}");
    let holder = format!("pid {} on {} since ", std::process::id(), rollstore::disk::os::host_name());
    assert!(said.contains(&holder), "{said}");
    end(other, output);

    store.close().unwrap();
    let (mut other, mut output) = writer(root.path());
    tell_to_open(&mut other);
    assert_eq!(outcome(&mut output), "OPENED");
    assert_locked_by(&options().open(root.path()).unwrap_err(), other.id());
    end(other, output);
    assert_eq!(options().open(root.path()).unwrap().len(), 2);
}

#[test]
fn d10_of_eight_processes_that_race_to_create_one_wins_and_the_others_leave_nothing() {
    const ROUNDS: u32 = 3;
    for round in 0..ROUNDS {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("rollouts");
        let mut writers: Vec<_> = (0..8).map(|_| writer(&dir)).collect();
        for (child, _) in &mut writers {
            tell_to_open(child);
        }
        let said: Vec<String> = writers.iter_mut().map(|(_, output)| outcome(output)).collect();
        let winners: Vec<usize> = (0..8).filter(|at| said[*at] == "OPENED").collect();
        assert_eq!(winners.len(), 1, "round {round}: {said:?}");
        let winner = writers[winners[0]].0.id();
        for said in said.iter().filter(|said| *said != "OPENED") {
            assert!(said.starts_with("Locked ") && said.contains(&format!("pid {winner} ")), "{winner} won: {said}");
        }
        for (child, output) in writers {
            end(child, output);
        }

        let store = options().open(&dir).unwrap();
        assert_eq!(store.ids(), [u64::from(winner).into()], "round {round}");
        store.close().unwrap();
        assert_eq!(names(root.path()), ["rollouts"]);
        let kinds = ["LOCK", "MANIFEST-", "RESERVE", "index.redb", "seg-"];
        for name in names(&dir) {
            let name = name.to_str().unwrap().to_owned();
            assert!(kinds.iter().any(|kind| name.starts_with(kind)) && !name.contains(".tmp"), "{name} is left");
        }
    }
}

#[test]
fn d10_a_deleted_lock_file_stops_the_writer_before_its_next_acknowledgement() {
    let root = tempfile::tempdir().unwrap();
    let store = store_in(root.path());
    std::fs::remove_file(root.path().join("LOCK")).unwrap();
    let second = options().open(root.path()).unwrap();
    assert_eq!(second.len(), 1, "nothing acknowledged is lost");

    for error in [
        store.insert(NewRollout::new(2, 1)).unwrap_err(),
        store.advance_ref_version(1, None).unwrap_err(),
        store.checkpoint(root.path().join("saved")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert!(error.to_string().contains("lock file"), "{error}");
    }
    assert!(store.get(1.into()).unwrap().is_some(), "reads go on");
    second.insert(NewRollout::new(3, 1)).unwrap();
    let _ = store.close();
    second.insert(NewRollout::new(4, 1)).unwrap();
    second.close().unwrap();
    let store = options().open(root.path()).unwrap();
    assert_eq!(store.ids(), [1.into(), 3.into(), 4.into()]);
}

#[test]
fn d10_closing_a_writer_that_lost_its_lock_touches_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = store_in(root.path());
    // Counts that wait for a frame of their own: closing would write one.
    drop(store.plan_for(&[1.into()], 1).unwrap());
    std::fs::remove_file(root.path().join("LOCK")).unwrap();
    let second = options().open(root.path()).unwrap();
    second.insert(NewRollout::new(3, 1)).unwrap();
    let before = contents(root.path());
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(contents(root.path()), before);
    second.close().unwrap();
    assert_eq!(options().open(root.path()).unwrap().len(), 2);
}

#[test]
fn d10_a_close_that_another_handle_began_is_waited_for() {
    for _ in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let store = store_in(dir.path());
        let other = store.clone();
        thread::scope(|scope| {
            scope.spawn(|| store.close().unwrap());
            while other.get(1.into()).is_ok() {
                thread::yield_now();
            }
            other.close().unwrap();
            options().open(dir.path()).expect("the lock is free once a close returned");
        });
    }
}

#[test]
fn d10_a_renamed_directory_is_noticed_before_the_next_acknowledgement() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let store = store_in(&old);
    std::fs::rename(&old, &new).unwrap();
    let error = store.insert(NewRollout::new(2, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    drop(store);
    assert_eq!(options().open(&new).unwrap().ids(), [1.into()]);
    assert!(!old.exists(), "nothing was made under the old name");
}

#[test]
fn d10_a_store_made_under_the_old_name_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let store = store_in(&old);
    std::fs::rename(&old, &new).unwrap();
    let other = options().open(&old).unwrap();
    other.insert(NewRollout::new(9, 1)).unwrap();
    let before = contents(&old);
    store.close().unwrap_err();
    assert_eq!(contents(&old), before, "the first store wrote into the second one's directory");
    other.close().unwrap();
    assert_eq!(options().open(&old).unwrap().ids(), [9.into()]);
    assert_eq!(options().open(&new).unwrap().ids(), [1.into()]);
}
