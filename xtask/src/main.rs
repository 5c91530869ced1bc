//! The project's chores, one word each: `cargo xtask test`.
//!
//! May touch cargo. Needs nothing but a Rust toolchain.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask test [ARGUMENTS OF CARGO TEST]

Runs every test: units, suites, documentation examples, and the programs in examples/.
ROLLSTORE_TEST_SCALE=N makes the long suites N times as long (default 1).";

/// The variable that the long suites read.
const SCALE: &str = "ROLLSTORE_TEST_SCALE";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let result = match arguments.next().as_deref() {
        Some("test") => test(&arguments.collect::<Vec<_>>()),
        Some("help" | "--help" | "-h") => {
            eprintln!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The default members are tested: the others need more than a Rust toolchain. The `dev` profile is optimised.
fn test(extra: &[String]) -> Result<(), String> {
    let scale = env::var(SCALE).unwrap_or_else(|_| "1".to_owned());
    if scale.parse::<u32>().map_or(true, |scale| scale == 0) {
        return Err(format!("{SCALE} is {scale:?}, expected a whole number above 0"));
    }
    let root = root();
    let mut arguments = vec!["test"];
    arguments.extend(extra.iter().map(String::as_str));
    cargo(&root, &scale, &arguments)?;
    if !extra.is_empty() {
        // The caller asked for some of the tests, so the examples were not meant.
        return Ok(());
    }
    for example in examples(&root)? {
        cargo(&root, &scale, &["run", "--quiet", "--example", &example])?;
    }
    Ok(())
}

/// The names of the programs in `examples/`, in order.
fn examples(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("examples");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let failed = |error| format!("could not list {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

fn cargo(root: &Path, scale: &str, arguments: &[&str]) -> Result<(), String> {
    let line = format!("cargo {}", arguments.join(" "));
    eprintln!("+ {SCALE}={scale} {line}");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).env(SCALE, scale).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("could not start {line}: {error}")),
    }
}

/// The workspace's root: the folder above this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}
