//! Where dumps and stores appear: whole under their name, or not at all; and what is refused before anything is read.
//!
//! Method: writes are made to fail or are killed, names are taken, rollouts are live already.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::rich::fill;
use common::{contents, flip, marked_store, marker, rollstore, run, stderr, stdout};
use rollstore::{NewRollout, Reason, RolloutStore};

const FORMATS: [&str; 3] = ["jsonl", "parquet", "safetensors"];

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_write_that_fails_leaves_the_file_that_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    for format in FORMATS {
        let file = out.join(format!("all.{format}"));
        fs::write(&file, "what was there").unwrap();
        // A file may have 512 bytes: the signal that would kill the program is ignored, so that its writes fail.
        let command = format!(
            "trap '' XFSZ; ulimit -f 1; exec {} dump {} -o {}",
            env!("CARGO_BIN_EXE_rollstore"),
            store.display(),
            file.display()
        );
        let output = Command::new("bash").arg("-c").arg(command).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{format}: {}", stderr(&output));
        assert_eq!(fs::read(&file).unwrap(), b"what was there", "{format}");
    }
    assert_eq!(names(&out), FORMATS.map(|format| format!("all.{format}")), "nothing else was left");
}

#[test]
fn a_dump_that_is_killed_leaves_nothing_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    for format in FORMATS {
        let file = dir.path().join(format!("all.{format}"));
        // The signal of a file too large is not ignored here: it kills in the middle of a write.
        let command = format!(
            "ulimit -c 0; ulimit -f 1; exec {} dump {} -o {}",
            env!("CARGO_BIN_EXE_rollstore"),
            store.display(),
            file.display()
        );
        let status = Command::new("bash").arg("-c").arg(command).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success(), "{format}");
        assert!(!file.exists(), "{format}");
    }
}

#[test]
fn a_file_is_made_for_others_to_read_as_other_programs_make_theirs() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("all.parquet"));
    fill(&store);
    stdout(&rollstore().arg("dump").arg(&store).arg("-o").arg(&file).output().unwrap());
    fs::write(dir.path().join("usual"), "").unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("all.parquet"), mode("usual"));
}

#[test]
fn a_format_comes_from_the_option_else_from_the_ending_and_a_binary_one_needs_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fill(&store);
    let dump = |arguments: &[&str]| {
        rollstore().current_dir(dir.path()).args(["dump", "store"]).args(arguments).output().unwrap()
    };
    for (arguments, start) in [
        (&["-o", "a.parquet"][..], &b"PAR1"[..]),
        (&["-o", "a.parquet", "--format", "jsonl"], b"{\"id\":"),
        (&["-o", "a.jsonl"], b"{\"id\":"),
        (&["-o", "a", "--format", "parquet", "--compression", "snappy"], b"PAR1"),
    ] {
        stdout(&dump(arguments));
        assert!(fs::read(dir.path().join(arguments[1])).unwrap().starts_with(start), "{arguments:?}");
    }
    for (arguments, told) in [
        (&["--format", "parquet"][..], "name a file with -o FILE"),
        (&["--format", "safetensors"], "name a file with -o FILE"),
        (&["-o", "a.txt"], "a.txt has no ending that tells a format"),
        (&["-o", "store", "--format", "jsonl"], "store is a directory; name a file"),
        (&["-o", "no/such/folder.jsonl"], "could not create a file beside no/such/folder.jsonl"),
    ] {
        let output = dump(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_damaged_is_told_and_left_out_and_load_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    marked_store(&store);
    flip(&store, &marker(2));
    for format in FORMATS {
        let (file, copy) = (dir.path().join(format!("all.{format}")), dir.path().join(format!("from-{format}")));
        let output = rollstore().arg("dump").arg(&store).arg("-o").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(stderr(&output).contains("rollout 2"), "{format}: {}", stderr(&output));
        let output = rollstore().arg("load").arg(&file).arg("-o").arg(&copy).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}: {}", stderr(&output));
        assert!(stderr(&output).contains("1 rollout could not be read when it was dumped"), "{}", stderr(&output));
        let store = RolloutStore::options().read_only(true).open(&copy).unwrap();
        assert_eq!((store.len(), store.get(2.into()).unwrap().is_none()), (4, true), "{format}");
    }
}

#[test]
fn a_store_that_exists_takes_what_it_does_not_have_and_nothing_where_an_id_is_live() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("all.safetensors"));
    marked_store(&store);
    stdout(&rollstore().arg("dump").arg(&store).arg("-o").arg(&file).output().unwrap());
    let load = || run(["load".as_ref(), file.as_os_str(), "-o".as_ref(), store.as_os_str()]);
    let open = || RolloutStore::options().open(&store).unwrap();

    let before = contents(&store);
    let refused = load();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("rollout 0 is live in"), "{}", stderr(&refused));
    let logs = |mut files: std::collections::BTreeMap<_, _>| {
        files.retain(|path: &std::path::PathBuf, _| path.extension().is_some_and(|extension| extension == "log"));
        files
    };
    assert_eq!(logs(before), logs(contents(&store)));

    let trainer = open();
    let ids: Vec<_> = (0..5).map(Into::into).collect();
    trainer.retire(&ids, Reason::Evicted).unwrap();
    trainer.advance_ref_version(3, None).unwrap();
    trainer.close().unwrap();
    assert!(stdout(&load()).contains("5 rollouts live, 5 of them stale, at step 3"));

    // The same numbers of another run mean something else.
    let trainer = open();
    trainer.retire(&ids, Reason::Evicted).unwrap();
    trainer.rewind(2, rollstore::Rewind::Keep).unwrap();
    trainer.close().unwrap();
    let refused = load();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("versions do not mean the same in both"), "{}", stderr(&refused));
}

#[test]
fn load_makes_no_store_where_something_else_lies_or_a_trainer_is_at_work() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("all.jsonl"));
    marked_store(&store);
    stdout(&rollstore().arg("dump").arg(&store).arg("-o").arg(&file).output().unwrap());
    let load = |to: &Path| run(["load".as_ref(), file.as_os_str(), "-o".as_ref(), to.as_os_str()]);

    let strange = dir.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("notes.txt"), "mine").unwrap();
    assert_eq!(load(&strange).status.code(), Some(2));
    assert_eq!(names(&strange), ["notes.txt"]);

    let busy = RolloutStore::options().open(&store).unwrap();
    busy.insert(NewRollout::new(99, 0)).unwrap();
    let refused = load(&store);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("pid"), "{}", stderr(&refused));

    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(stdout(&load(&empty)).contains("5 rollouts from 1 file"));
}
