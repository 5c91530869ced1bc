//! A file that somebody else cuts under a live map ends the process (P4): nothing in it can prevent that, and everything
//! else goes on. Copied reads make an error of it.
//!
//! Method: a child of this test opens a store, touches an array, and is told to touch another one after the file was cut.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rollstore::{NewRollout, Options, Reads, RolloutStore};
use rollstore_testkit::child;

/// More than a page, so that the array which is read first shares none with the other.
const TOKENS: usize = 100_000;

fn options(reads: Reads) -> Options {
    RolloutStore::options().window(8).reads(reads)
}

fn logps(view: &rollstore::Rollout) -> rollstore::Result<f32> {
    Ok(view.old_logps()?.iter().sum())
}

/// The other party: reads one rollout, waits, and reads both, which were checked before.
#[test]
fn reader_under_which_a_file_is_cut() {
    let Some((role, dir)) = child::role() else { return };
    let reads = if role == "mapped" { Reads::Mapped } else { Reads::Copied };
    let store = options(reads).read_only(true).open(dir).unwrap();
    let views: Vec<_> = [1, 2].map(|id: u64| store.get(id.into()).unwrap().unwrap()).into();
    // Checked now: a first check would meet the lost pages as an error.
    if role == "mapped" {
        assert!(views.iter().all(|view| logps(view).is_ok()));
    }
    println!("\nREADY");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    match views.iter().try_for_each(|view| logps(view).map(drop)) {
        Ok(()) => println!("\nREAD"),
        Err(error) => println!("\nERROR {:?}", error.kind()),
    }
}

/// Cuts the segment while the child reads it. Returns how the child ended and what it said last.
fn cut_under(role: &str) -> (ExitStatus, String) {
    let root = tempfile::tempdir().unwrap();
    let store = options(Reads::Auto).open(root.path()).unwrap();
    for id in [1, 2] {
        store.insert(NewRollout::new(id, 1).old_logps(vec![-0.5; TOKENS], 0)).unwrap();
    }
    store.close().unwrap();
    let mut command = child::command("reader_under_which_a_file_is_cut", role, root.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line == "READY").expect("the child reads the store");
    cut(&root.path().join("seg-00000001.log"));
    child.stdin.take().unwrap().write_all(b"read\n").unwrap();
    let said = lines.find(|line| line == "READ" || line.starts_with("ERROR ")).unwrap_or_default();
    lines.for_each(drop);
    (child.wait().unwrap(), said)
}

fn cut(segment: &Path) {
    std::fs::OpenOptions::new().write(true).open(segment).unwrap().set_len(0).unwrap();
}

#[test]
fn p04_a_file_cut_under_a_live_map_ends_the_process_by_sigbus() {
    let (status, said) = cut_under("mapped");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}, {said:?}");
}

#[test]
fn p04_copied_reads_make_an_error_of_it() {
    let (status, said) = cut_under("copied");
    assert!(status.success(), "{status}");
    assert_eq!(said, "ERROR Io");
}
