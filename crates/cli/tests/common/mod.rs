//! What the tests of the program share: running it, small traces, and small stores to damage.

#![allow(dead_code, reason = "each test file is a program of its own and uses a part")]

pub(crate) mod rich;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rollstore::{NewRollout, RolloutStore};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

/// The program, ready for its arguments. Colour and size come from the test, not from who runs it.
pub(crate) fn rollstore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollstore"));
    command.env_remove("NO_COLOR").env_remove("COLUMNS").env_remove("CLICOLOR_FORCE");
    command
}

/// Runs the program with these arguments.
pub(crate) fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    rollstore().args(arguments).output().expect("the program starts")
}

/// Replays a trace in a store of this name.
pub(crate) fn replay(trace: &Path, store: &Path, options: &[&str]) -> Output {
    let mut command = rollstore();
    command.arg("replay").arg(trace).arg("--store").arg(store).args(options);
    command.output().expect("the program starts")
}

/// The program's standard output, which must be sound.
pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// The one JSON object that the program printed.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("one JSON value")
}

/// One JSON object a line.
pub(crate) fn json_lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a JSON value")).collect()
}

/// The rollouts of a list or a dump: one JSON object a line, without the mark of a dump.
pub(crate) fn rollout_lines(output: &Output) -> Vec<Value> {
    json_lines(output).into_iter().filter(|line| line.get("id").is_some()).collect()
}

/// The recorded run in the repository.
pub(crate) fn recorded_trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/grpo_tiny.jsonl.gz")
}

/// A terminal: our end of it, and the program's.
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
    let name = ptsname(&ours, Vec::new()).expect("a terminal").into_string().expect("ASCII");
    let theirs = OpenOptions::new().read(true).write(true).open(name).expect("a terminal").into();
    (ours, theirs)
}

/// Log-probs as a trace holds them.
pub(crate) fn hex(values: &[f32]) -> String {
    values.iter().map(|value| format!("{:08x}", value.to_bits().swap_bytes())).collect::<Vec<_>>().concat()
}

/// A put of two tokens.
pub(crate) fn put(id: u64, v: u64) -> String {
    let (old, sampler) = (hex(&[-0.5, -1.5]), hex(&[-0.25, f32::NAN]));
    format!(
        r#"{{"e":"put","micro":{v},"v":{v},"id":{id},"group":{id},"prompt":[7],"completion":[1,2],"reward":0.5,"old_lp":"{old}","sampler_lp":"{sampler}"}}"#
    )
}

/// An access to one rollout of two tokens, whose log-probs at this moment depend on the version alone.
pub(crate) fn access(id: u64, v: u16) -> String {
    let lp = hex(&[-0.125, -1.0 - f32::from(v)]);
    format!(r#"{{"e":"access","micro":{v},"v":{v},"ids":[{id}],"lp":["{lp}"]}}"#)
}

/// Any other event.
pub(crate) fn event(name: &str, v: u64) -> String {
    format!(r#"{{"e":"{name}","micro":{v},"v":{v}}}"#)
}

/// Writes lines as a trace.
pub(crate) fn write_trace(folder: &Path, lines: &[String]) -> PathBuf {
    let path = folder.join("trace.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").expect("the trace is written");
    path
}

/// Every file of a store with its bytes, those in folders of it too.
pub(crate) fn contents(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in store.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.append(&mut contents(&path));
        } else {
            files.insert(path.clone(), std::fs::read(path).expect("a file"));
        }
    }
    files
}

/// The files of a store whose names begin so, in order.
pub(crate) fn files(store: &Path, prefix: &str) -> Vec<PathBuf> {
    let is_wanted =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
    contents(store).into_keys().filter(is_wanted).collect()
}

/// A closed store whose rollouts 0 to 4 each have a marker in a column, and whose cursor is `the cursor`.
pub(crate) fn marked_store(store: &Path) {
    let fill = || -> rollstore::Result<()> {
        let store = RolloutStore::options().window(8).open(store)?;
        for id in 0..5 {
            let rollout = NewRollout::new(id, 0).completion_ids(vec![1, 2]).old_logps(vec![-0.5, -0.25], 0);
            store.insert(rollout.column("marker", marker(id)))?;
        }
        store.set_cursor(b"the cursor")?;
        store.close()
    };
    fill().expect("the store is filled");
}

/// The bytes that rollout `id` of [`marked_store`] is known by.
pub(crate) fn marker(id: u64) -> Vec<u8> {
    format!("rollout number {id:04}").into_bytes()
}

/// Flips one bit of the first of these bytes in a store's segments; gives the file and the offset.
pub(crate) fn flip(store: &Path, bytes: &[u8]) -> (PathBuf, usize) {
    for path in files(store, "seg-") {
        let mut content = std::fs::read(&path).expect("a file");
        if let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) {
            content[at] ^= 1;
            std::fs::write(&path, content).expect("the file is written");
            return (path, at);
        }
    }
    panic!("no segment holds {:?}", String::from_utf8_lossy(bytes));
}

/// Makes a store's newest manifest one of a newer format, as docs/format.md places version and checksum.
pub(crate) fn make_newer(store: &Path) {
    let manifest = files(store, "MANIFEST-").pop().expect("a manifest");
    let mut bytes = std::fs::read(&manifest).expect("a file");
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let end = bytes.len() - 4;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&manifest, bytes).expect("the file is written");
}
