//! The page of `rollstore report`, looked at in a real browser: Debian's chromium, headless, driven by selenium.
//!
//! May touch cargo, the build directory, Python, its package installer and, where chromium is missing, the system's.
//!
//! Always true: what cannot be installed is a failure, never a skipped test.

use std::process::Command;

use crate::python::Environment;
use crate::{TESTED, cargo_program, install_packages, output, root, run, target};

/// What the test needs beside a browser and its driver.
const PACKAGES: [&str; 2] = ["selenium>=4.27,<5", "pytest>=8"];

/// Builds the program and runs the test of its pages. `arguments` go to pytest.
pub(crate) fn test(arguments: &[String]) -> Result<(), String> {
    browser()?;
    let root = root();
    // The program as a test has it: the suites built it before.
    let program = ["test", "--no-run", "--test", "report_page"];
    run(Command::new(cargo_program()).args(program).args(TESTED).current_dir(&root))?;
    let environment = Environment::prepare(&target().join("report-tests"), &PACKAGES)?;
    let mut tests = environment.command("python");
    tests.args(["-m", "pytest", "-p", "no:cacheprovider", "crates/cli/tests_page"]).args(arguments);
    run(tests.env("ROLLSTORE_PROGRAM", target().join("debug/rollstore")).current_dir(&root))
}

/// The browser and its driver, installed where they are missing.
fn browser() -> Result<(), String> {
    let is_there =
        || ["chromium", "chromedriver"].iter().all(|name| output(Command::new(name).arg("--version")).is_ok());
    if !is_there() {
        install_packages(&["chromium", "chromium-driver"]);
    }
    if is_there() {
        return Ok(());
    }
    Err("chromium and chromedriver are not here and could not be installed; install both".to_owned())
}
