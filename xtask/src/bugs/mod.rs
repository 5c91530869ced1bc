//! The check of the checker: each planted bug must make its test fail, and without one each test must pass.
//!
//! The tests are built once, with bugs that the environment chooses from; the build lies in a directory of its own beside
//! the ordinary one.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{cargo_program, root};
use table::{Row, SHUTTLE, TABLE, UNITS};

/// Chooses the bug; read in `src/planted.rs`.
const BUG: &str = "ROLLSTORE_PLANTED_BUG";

/// A test that takes longer hangs, and a bug that makes it hang is not caught.
const PATIENCE: Duration = Duration::from_mins(2);

/// Checks the bugs that the ordinary suites must find.
pub(crate) fn run() -> Result<(), String> {
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.file != SHUTTLE).collect();
    check(&rows, &build("planted", "--cfg rollstore_planted_bugs", &files(&rows))?)
}

/// Runs the suite of many orders, then checks the bugs that it must find.
pub(crate) fn run_shuttle() -> Result<(), String> {
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.file == SHUTTLE).collect();
    let built = build("shuttle", "--cfg shuttle --cfg rollstore_planted_bugs", &files(&rows))?;
    crate::run(Command::new(&built.programs[SHUTTLE]).env_remove(BUG).current_dir(root()))?;
    check(&rows, &built)
}

fn files(rows: &[&Row]) -> BTreeSet<&'static str> {
    rows.iter().map(|row| row.file).collect()
}

/// Test programs by the file that they were built from.
struct Built {
    programs: BTreeMap<&'static str, PathBuf>,
    /// Where they lie, and where a failed test's output is put.
    dir: PathBuf,
}

fn build(name: &str, flags: &str, files: &BTreeSet<&'static str>) -> Result<Built, String> {
    // The caller may have moved the build directory.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let dir = target.join(name);
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
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", &dir).env("CARGO_PROFILE_DEV_DEBUG", "0");
    eprintln!("+ RUSTFLAGS={flags:?} {command:?}");
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
        let output = std::fs::File::create(&log).map_err(failed)?;
        let mut command = Command::new(&self.programs[row.file]);
        command.args(["--exact", row.test, "--test-threads=1"]).current_dir(root()).env_remove(BUG);
        command.stderr(output.try_clone().map_err(failed)?).stdout(output);
        if let Some(bug) = bug {
            command.env(BUG, bug);
        }
        let status = wait(&mut command).map_err(|error| format!("{command:?}: {error}"))?;
        let output = std::fs::read(&log).map_err(failed)?;
        Ok(ended(status, &String::from_utf8_lossy(&output)))
    }
}

/// Waits for the end; `None` where it was not patient enough.
fn wait(command: &mut Command) -> std::io::Result<Option<ExitStatus>> {
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
