//! Goal: the program behaves in pipes, on full disks and with hostile text. Method: each command is run with its output
//! closed, full or no terminal, and with paths and arguments that are hard to print.

mod common;

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Stdio;

use common::{access, event, put, recorded_trace, rollstore, run, stderr, stdout, write_trace};
use tempfile::TempDir;

/// A replayed store, and every command that prints something of it.
fn commands() -> (TempDir, Vec<Vec<OsString>>) {
    let folder = tempfile::tempdir().expect("a directory");
    let store = folder.path().join("store");
    let output = common::replay(&recorded_trace(), &store, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let store = store.into_os_string();
    let id = stdout(&run(["ls".as_ref(), store.as_os_str(), "--limit".as_ref(), "1".as_ref()]));
    let id: OsString = id.lines().last().and_then(|line| line.split_whitespace().next()).expect("a row").into();
    let mut commands: Vec<Vec<OsString>> = vec![
        vec!["stat".into(), store.clone()],
        vec!["ls".into(), store.clone()],
        vec!["get".into(), store.clone(), id.clone()],
        vec!["dump".into(), store.clone()],
        vec!["group".into(), store.clone(), "280".into()],
        vec!["history".into(), store.clone(), id],
        vec!["log".into(), store.clone()],
        vec!["segments".into(), store.clone()],
        vec!["diagnose".into(), store.clone()],
        vec!["report".into(), store.clone(), "-o".into(), folder.path().join("run.html").into()],
        vec!["diff".into(), store.clone(), folder.path().join("store.checkpoint").into()],
        vec!["verify".into(), store.clone()],
        vec!["repair".into(), store.clone()],
        vec!["replay".into(), recorded_trace().into(), "--store".into(), store.clone()],
    ];
    let with_json: Vec<_> = commands.iter().map(|command| [command.as_slice(), &["--json".into()]].concat()).collect();
    commands.extend(with_json);
    // As JSON it prints nothing where there are none.
    commands.push(vec!["sweeps".into(), store]);
    commands.push(vec!["completions".into(), "zsh".into()]);
    commands.push(vec!["--help".into()]);
    (folder, commands)
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let (_folder, commands) = commands();
    for command in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = rollstore().args(&command).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert_eq!(stderr(&output), "", "{command:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let (_folder, commands) = commands();
    let dump = commands.iter().find(|command| command[0] == "dump").unwrap();
    let mut child = rollstore().args(dump).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_of_every_command() {
    let (_folder, commands) = commands();
    for command in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = rollstore().args(&command).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains("could not write to standard output"), "{command:?}: {}", stderr(&output));
    }
}

#[test]
fn no_escape_reaches_what_is_no_terminal() {
    let (_folder, commands) = commands();
    for command in commands {
        for (name, value) in
            [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "1"), ("COLUMNS", "0")]
        {
            let output = rollstore().args(&command).env(name, value).output().unwrap();
            // The checkpoint differs from the store, which went on behind it.
            let expected = i32::from(command[0] == "diff");
            assert_eq!(output.status.code(), Some(expected), "{command:?}");
            assert!(
                !output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b),
                "{command:?} with {name}={value}"
            );
        }
    }
}

#[test]
fn an_error_is_one_line_whatever_the_arguments_hold() {
    let cases: [&[&str]; 7] = [
        &[],
        &["frobnicate"],
        &["replay"],
        &["replay", "trace", "--every", "0"],
        &["replay", "trace", "--window", "-1"],
        &["replay", "trace", "--clock", "\u{1b}[2J\n"],
        &["stat", "/no/such\n\u{1b}]0;store"],
    ];
    for arguments in cases {
        let output = run(arguments);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(told.starts_with("rollstore: ") && told.ends_with('\n'), "{told:?}");
        assert!(told.trim_end().chars().all(|character| !character.is_control()), "{told:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn paths_that_are_hard_to_print_work() {
    let hard: [&[u8]; 4] = [b"with space\nand line", b"\xff\xfe", b"-leading-dash", "日本\u{202e}".as_bytes()];
    for name in hard {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join(PathBuf::from(OsString::from_vec(name.to_vec())));
        let trace = write_trace(folder.path(), &[put(1, 0), access(1, 0), event("save", 0), event("end", 0)]);
        let output = common::replay(&trace, &store, &["--kill", "2"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let shown = stdout(&run(["stat".as_ref(), "--".as_ref(), store.as_os_str()]));
        assert!(shown.contains("1 live"), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\u{1b}']), "{shown}");
    }
}

#[test]
fn a_store_named_by_a_dash_is_found_behind_two() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &[put(1, 0)]);
    let replay = rollstore().current_dir(&folder).args(["replay", "--store=-dash", "--"]).arg(&trace).output().unwrap();
    assert!(replay.status.success(), "{}", stderr(&replay));
    let stat = rollstore().current_dir(&folder).args(["stat", "--", "-dash"]).output().unwrap();
    assert!(stdout(&stat).contains("1 live"));
}

#[test]
fn without_a_store_a_fresh_one_is_made_and_told_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &[put(1, 0)]);
    let output = rollstore().arg("replay").arg(&trace).arg("--json").env("TMPDIR", folder.path()).output().unwrap();
    assert_eq!(common::json(&output)["inserted"], 1);
    let told = stderr(&output);
    let store = told.trim_end().strip_prefix("rollstore: the store is ").unwrap();
    assert!(store.starts_with(folder.path().to_str().unwrap()), "{told}");
    assert!(stdout(&run(["stat", store])).contains("1 live"));
}
