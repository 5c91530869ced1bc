//! What the tests of the program share: running it, and small traces.

#![allow(dead_code, reason = "each test file is a program of its own and uses a part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// The recorded run in the repository.
pub(crate) fn recorded_trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/grpo_tiny.jsonl.gz")
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
