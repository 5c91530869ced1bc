//! Other processes: a test binary runs itself again, as the other party of a test.
//!
//! The other party is a test function like any other, which returns at once unless it was given a role.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const ROLE: &str = "ROLLSTORE_TEST_ROLE";
const DIR: &str = "ROLLSTORE_TEST_DIR";

/// A command that runs one test function of the running binary, alone, in a role and with a directory to work on.
///
/// # Panics
/// Where the running binary has no path.
#[must_use]
pub fn command(test: &str, role: &str, dir: impl Into<PathBuf>) -> Command {
    let mut command = Command::new(env::current_exe().expect("a running test has a path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(DIR, dir.into());
    command
}

/// The role and the directory that this process was given; `None` in the test run itself.
#[must_use]
pub fn role() -> Option<(String, PathBuf)> {
    Some((env::var(ROLE).ok()?, env::var_os(DIR)?.into()))
}
