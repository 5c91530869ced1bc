//! The check of the checker: each planted bug must make its test fail, and without one each test must pass.
//!
//! The tests are built once, with bugs that the environment chooses from, beside those of the ordinary build.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{cargo_program, root, target};
use table::{Row, SHUTTLE, TABLE, UNITS};

/// Chooses the bug; read in `src/planted.rs`.
const BUG: &str = "ROLLSTORE_PLANTED_BUG";

/// A test that takes longer hangs, and a bug that makes it hang is not caught.
const PATIENCE: Duration = Duration::from_mins(2);

/// Checks the bugs that the ordinary suites must find.
pub(crate) fn run() -> Result<(), String> {
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.file != SHUTTLE).collect();
    let dir = target().join("planted");
    let wrapper = wrapper(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    // Each test runs for a moment: to optimise it takes longer than that.
    let settings = [("RUSTC_WORKSPACE_WRAPPER", wrapper.as_os_str()), ("CARGO_PROFILE_DEV_OPT_LEVEL", OsStr::new("0"))];
    check(&rows, &build(dir, &settings, &files(&rows))?)
}

/// Runs the suite of many orders, then checks the bugs that it must find.
pub(crate) fn run_shuttle() -> Result<(), String> {
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.file == SHUTTLE).collect();
    let dir = target().join("shuttle");
    // The scheduler is a library that only this flag asks for: Cargo must see it, and then everything is built with it.
    let flags = OsStr::new("--cfg shuttle --cfg rollstore_planted_bugs");
    let built = build(dir.clone(), &[("RUSTFLAGS", flags), ("CARGO_TARGET_DIR", dir.as_os_str())], &files(&rows))?;
    crate::run(Command::new(&built.programs[SHUTTLE]).env_remove(BUG).current_dir(root()))?;
    check(&rows, &built)
}

/// A compiler for the workspace's own packages alone, so that the libraries below them are those of the ordinary build.
fn wrapper(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join("rustc-with-bugs");
    fs::create_dir_all(dir)?;
    fs::write(&path, "#!/bin/sh\nexec \"$@\" --cfg rollstore_planted_bugs\n")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn files(rows: &[&Row]) -> BTreeSet<&'static str> {
    rows.iter().map(|row| row.file).collect()
}

/// Test programs by the file that they were built from.
struct Built {
    programs: BTreeMap<&'static str, PathBuf>,
    /// Where a failed test's output is put.
    dir: PathBuf,
}

fn build(dir: PathBuf, settings: &[(&str, &OsStr)], files: &BTreeSet<&'static str>) -> Result<Built, String> {
    let mut command = Command::new(cargo_program());
    command.args(["test", "--no-run", "--package", "rollstore", "--color", "never"]).current_dir(root());
    for file in files {
        if *file == UNITS {
            command.arg("--lib")
        } else {
            command.args(["--test", file])
        };
    }
    // Nobody debugs these; without that information they are built sooner.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").envs(settings.iter().copied());
    eprintln!("+ {command:?}");
    let output = command.stdout(Stdio::null()).output().map_err(|error| format!("could not start cargo: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{told}\ncargo: {}", output.status));
    }
    let program = |file: &'static str| {
        let source = if file == UNITS { "unittests src/lib.rs".to_owned() } else { format!("tests/{file}.rs") };
        let line = told.lines().find_map(|line| line.trim().strip_prefix(&format!("Executable {source} (")));
        let path = line.and_then(|line| line.strip_suffix(')'));
        let path = path.ok_or_else(|| format!("cargo did not tell where the tests of {file} are:\n{told}"))?;
        Ok((file, root().join(path)))
    };
    Ok(Built { programs: files.iter().map(|file| program(file)).collect::<Result<_, String>>()?, dir })
}

/// What became of a test.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    /// It was not there, hung or died.
    Otherwise(String),
}

impl Built {
    /// Runs one test, with a bug or without.
    #[expect(clippy::disallowed_types, reason = "output for the developer, no file of a store")]
    fn run(&self, row: &Row, bug: Option<&str>) -> Result<Ended, String> {
        let log = self.dir.join("output.txt");
        let failed = |error| format!("{}: {error}", log.display());
        let output = fs::File::create(&log).map_err(failed)?;
        let mut command = Command::new(&self.programs[row.file]);
        command.args(["--exact", row.test, "--test-threads=1"]).current_dir(root()).env_remove(BUG);
        command.stderr(output.try_clone().map_err(failed)?).stdout(output);
        if let Some(bug) = bug {
            command.env(BUG, bug);
        }
        let status = wait(&mut command).map_err(|error| format!("{command:?}: {error}"))?;
        let output = fs::read(&log).map_err(failed)?;
        Ok(ended(status, &String::from_utf8_lossy(&output)))
    }
}

/// Waits for the end; `None` where it was not patient enough.
fn wait(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn ended(status: Option<ExitStatus>, output: &str) -> Ended {
    match status {
        None => Ended::Otherwise(format!("no end within {} s", PATIENCE.as_secs())),
        Some(status) if status.success() && output.contains("ok. 1 passed; 0 failed") => Ended::Passed,
        Some(status) if status.code().is_some() && output.contains("FAILED. 0 passed; 1 failed") => Ended::Failed,
        Some(status) => Ended::Otherwise(format!("{status}, and not one test was run")),
    }
}

fn check(rows: &[&Row], built: &Built) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut sound = BTreeSet::new();
    for row in rows.iter().filter(|row| sound.insert((row.file, row.test))) {
        match built.run(row, None)? {
            Ended::Passed => {}
            ended => wrong.push(format!("{}::{} without a bug: {ended:?}", row.file, row.test)),
        }
    }
    for row in rows {
        let began = Instant::now();
        let ended = built.run(row, Some(row.bug))?;
        let (verdict, time) = (if ended == Ended::Failed { "caught" } else { "MISSED" }, began.elapsed());
        eprintln!("{verdict} {:26} {:4} {}::{} ({time:.1?})", row.bug, row.promise, row.file, row.test);
        if ended != Ended::Failed {
            wrong.push(format!("{} is not caught by {}::{}: {ended:?}", row.bug, row.file, row.test));
        }
    }
    if wrong.is_empty() {
        eprintln!("{} planted bugs, {} tests", rows.len(), sound.len());
        return Ok(());
    }
    Err(wrong.join("\n"))
}

#[cfg(test)]
mod tests;
