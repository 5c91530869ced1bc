//! Instructions of the hot paths, counted by callgrind, beside the committed counts.
//!
//! May touch cargo, valgrind and, where that is missing, the system's package installer.
//!
//! Always true: what cannot be counted is a failure, never a pass, unless the environment says that this is meant.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::{cargo_program, install_packages, output, root};

/// The variable that says that nothing can be counted here, and that this is right.
const NO_COUNTS: &str = "ROLLSTORE_NO_COUNTS";

/// What the committed counts lie in.
const COMMITTED: &str = "docs/benchmarks/counts.json";

/// How far a count may be from the committed one, unless the file says otherwise for its path.
const TOLERANCE_PERCENT: f64 = 3.0;

/// The same where another compiler or valgrind counted.
const OTHER_TOOLS_PERCENT: f64 = 10.0;

/// Counts, and what they hold for.
#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    arch: String,
    /// Compiler and valgrind.
    taken_with: String,
    paths: BTreeMap<String, Count>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Count {
    /// Instructions of one operation.
    instructions: f64,
    tolerance_percent: f64,
}

/// Counts and compares; with `--save` the counts are committed ones from then on.
pub(crate) fn run_counts(arguments: &[String]) -> Result<(), String> {
    let is_saved = match arguments {
        [] => false,
        [save] if save == "--save" => true,
        _ => return Err(format!("counts takes --save or nothing, not {arguments:?}")),
    };
    if env::var_os(NO_COUNTS).is_some_and(|set| set == "1") {
        eprintln!("{NO_COUNTS} is 1: instructions are not counted");
        return Ok(());
    }
    let valgrind = valgrind()?;
    let program = build()?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let mut now = Counts {
        arch: env::consts::ARCH.to_owned(),
        taken_with: format!("{}, {}", rustc.trim(), valgrind.trim()),
        paths: BTreeMap::new(),
    };
    for path in output(Command::new(&program).arg("--list"))?.lines() {
        let instructions = count(&program, path)?;
        now.paths.insert(path.to_owned(), Count { instructions, tolerance_percent: TOLERANCE_PERCENT });
    }
    let file = root().join(COMMITTED);
    let committed = read(&file);
    if is_saved {
        keep_tolerances(&mut now, committed.ok().as_ref());
        let json = serde_json::to_string_pretty(&now).map_err(|error| error.to_string())?;
        fs::write(&file, json + "\n").map_err(|error| format!("could not write {}: {error}", file.display()))?;
        eprintln!("{} counts saved in {COMMITTED}", now.paths.len());
        return Ok(());
    }
    let (report, is_sound) = compare(&now, &committed?);
    eprintln!("{report}");
    if is_sound {
        return Ok(());
    }
    Err(format!(
        "instruction counts are not the committed ones; where the change is meant, \"cargo xtask counts --save\" makes \
         them so, and the commit says why; \"valgrind --tool=callgrind {} PATH\" shows where they come from",
        program.display()
    ))
}

fn read(file: &Path) -> Result<Counts, String> {
    let failed = |error: String| format!("{}: {error}; \"cargo xtask counts --save\" makes it", file.display());
    let json = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&json).map_err(|error| failed(error.to_string()))
}

/// A tolerance that someone set for a path stays.
fn keep_tolerances(now: &mut Counts, committed: Option<&Counts>) {
    for (path, count) in &mut now.paths {
        if let Some(before) = committed.and_then(|committed| committed.paths.get(path)) {
            count.tolerance_percent = before.tolerance_percent;
        }
    }
}

/// A table, and whether every path is there and within its tolerance, or better.
fn compare(now: &Counts, committed: &Counts) -> (String, bool) {
    if now.arch != committed.arch {
        let why =
            format!("{COMMITTED} holds for {}, and this is {}; save counts of this one", committed.arch, now.arch);
        return (why, false);
    }
    let mut lines = vec![format!("{:<34} {:>12} {:>12} {:>8}", "instructions", "now", "committed", "change")];
    let (mut is_sound, mut is_better) = (true, false);
    let is_same = now.taken_with == committed.taken_with;
    for (path, count) in &now.paths {
        let Some(before) = committed.paths.get(path) else {
            is_sound = false;
            lines.push(format!("{path:<34} {:>12.3} {:>12} {:>8}  NOT COMMITTED", count.instructions, "", ""));
            continue;
        };
        let tolerance = before.tolerance_percent.max(if is_same { 0.0 } else { OTHER_TOOLS_PERCENT });
        let percent = (count.instructions / before.instructions - 1.0) * 100.0;
        let verdict = if percent > tolerance {
            "MORE"
        } else if percent < -tolerance {
            "fewer"
        } else {
            ""
        };
        is_sound &= percent <= tolerance;
        is_better |= percent < -tolerance;
        let (now, before) = (count.instructions, before.instructions);
        lines.push(format!("{path:<34} {now:>12.3} {before:>12.3} {percent:>+7.1}%  {verdict}"));
    }
    for path in committed.paths.keys().filter(|path| !now.paths.contains_key(*path)) {
        is_sound = false;
        lines.push(format!("{path:<34} is committed and was not counted: GONE"));
    }
    if !is_same {
        let (before, now) = (&committed.taken_with, &now.taken_with);
        lines.push(format!("committed with {before}, counted with {now}: {OTHER_TOOLS_PERCENT} % are allowed"));
    }
    if is_better {
        lines.push("fewer than before: \"cargo xtask counts --save\" keeps it so".to_owned());
    }
    (lines.join("\n"), is_sound)
}

/// Makes sure that valgrind is there, and tells its version.
fn valgrind() -> Result<String, String> {
    let version = || output(Command::new("valgrind").arg("--version"));
    if let Ok(version) = version() {
        return Ok(version);
    }
    install_packages(&["valgrind"]);
    version().map_err(|_| {
        format!("valgrind is not here and could not be installed; install it, or set {NO_COUNTS}=1 to count nothing")
    })
}

/// Builds the program that runs the paths, as it is measured, and tells where it is.
fn build() -> Result<PathBuf, String> {
    let mut command = Command::new(cargo_program());
    command.args(["bench", "--package", "rollstore", "--bench", "counts", "--no-run", "--color", "never"]);
    // Instructions for this processor alone would make other counts, and valgrind may not know them.
    command.env_remove("RUSTFLAGS");
    eprintln!("+ {command:?}");
    let output = command.current_dir(root()).output().map_err(|error| format!("could not start cargo: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let line = told.lines().find_map(|line| line.trim().strip_prefix("Executable benches/counts.rs ("));
    match line.and_then(|line| line.strip_suffix(')')) {
        Some(path) if output.status.success() => Ok(root().join(path)),
        _ => Err(format!("{told}\ncargo: {}", output.status)),
    }
}

/// Instructions of one operation of a path.
fn count(program: &Path, path: &str) -> Result<f64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg("--toggle-collect=counts::counted*").arg(program).arg(path);
    let output = command.output().map_err(|error| format!("could not start {command:?}: {error}"))?;
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let operations = printed.trim().parse::<f64>().ok();
    let collected = told.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, instructions)| instructions.trim().parse::<f64>().ok());
    match (operations, collected) {
        (Some(operations), Some(instructions)) if output.status.success() && operations * instructions > 0.0 => {
            Ok((instructions / operations * 1000.0).round() / 1000.0)
        }
        _ => Err(format!("{command:?}: {}\n{printed}\n{told}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(taken_with: &str, paths: &[(&str, f64)]) -> Counts {
        let count = |instructions| Count { instructions, tolerance_percent: TOLERANCE_PERCENT };
        let paths = paths.iter().map(|(path, instructions)| ((*path).to_owned(), count(*instructions))).collect();
        Counts { arch: "x86_64".to_owned(), taken_with: taken_with.to_owned(), paths }
    }

    #[test]
    fn more_than_the_tolerance_is_refused_and_fewer_is_a_hint() {
        let committed = counts("rustc 1", &[("get", 1000.0)]);
        for (instructions, is_sound, said) in
            [(1031.0, false, "MORE"), (1029.0, true, "+2.9%"), (900.0, true, "--save")]
        {
            let (report, found) = compare(&counts("rustc 1", &[("get", instructions)]), &committed);
            assert_eq!(found, is_sound, "{report}");
            assert!(report.contains(said), "{report}");
        }
    }

    #[test]
    fn another_compiler_may_differ_more_and_is_named() {
        let committed = counts("rustc 1", &[("get", 1000.0)]);
        let (report, is_sound) = compare(&counts("rustc 2", &[("get", 1090.0)]), &committed);
        assert!(is_sound && report.contains("committed with rustc 1, counted with rustc 2"), "{report}");
        assert!(!compare(&counts("rustc 2", &[("get", 1101.0)]), &committed).1);
    }

    #[test]
    fn a_path_on_one_side_alone_and_another_machine_are_refused() {
        let committed = counts("rustc 1", &[("get", 1000.0)]);
        assert!(!compare(&counts("rustc 1", &[]), &committed).1);
        assert!(!compare(&counts("rustc 1", &[("get", 1000.0), ("put", 1.0)]), &committed).1);
        let elsewhere = Counts { arch: "aarch64".to_owned(), ..counts("rustc 1", &[("get", 1000.0)]) };
        assert!(!compare(&elsewhere, &committed).1);
    }

    #[test]
    fn a_tolerance_that_was_set_outlives_a_save() {
        let mut committed = counts("rustc 1", &[("get", 1000.0)]);
        committed.paths.get_mut("get").unwrap().tolerance_percent = 1.0;
        let mut now = counts("rustc 1", &[("get", 900.0), ("put", 1.0)]);
        keep_tolerances(&mut now, Some(&committed));
        assert_eq!((now.paths["get"].tolerance_percent, now.paths["put"].tolerance_percent), (1.0, TOLERANCE_PERCENT));
    }
}
