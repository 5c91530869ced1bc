//! How many lines of the rooms that a crash leads through the suites run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Stdio};

use crate::{cargo_program, root, run, runs};

/// Rooms whose figures `docs/durability.md` states.
const ROOMS: &[&str] = &["format", "log", "recovery"];

/// Runs the suites of the library with counters in the code and prints the lines of each room that were run, and those
/// that were not. Installs what it needs.
pub(crate) fn coverage() -> Result<(), String> {
    if !runs(Command::new(cargo_program()).args(["llvm-cov", "--version"])) {
        run(Command::new(cargo_program()).args(["install", "cargo-llvm-cov", "--locked"]))?;
    }
    run(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    // Counts of earlier runs do not count.
    run(Command::new(cargo_program()).args(["llvm-cov", "clean", "--profraw-only"]).current_dir(root()))?;
    // Whether the suites pass is asked elsewhere.
    let suites = ["--package", "rollstore", "--tests", "--examples", "--ignore-run-fail"];
    run(Command::new(cargo_program()).args(["llvm-cov", "--no-report"]).args(suites).current_dir(root()))?;
    let mut report = Command::new(cargo_program());
    report.args(["llvm-cov", "report", "--show-missing-lines"]).current_dir(root()).stderr(Stdio::inherit());
    let output = report.output().map_err(|error| format!("could not start {report:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{report:?}: {}", output.status));
    }
    eprintln!("{}", of_rooms(&String::from_utf8_lossy(&output.stdout)));
    Ok(())
}

/// The rooms' part of a report, with a sum for each.
fn of_rooms(report: &str) -> String {
    let mut shown = String::new();
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in report.lines() {
        let path = line.split([' ', ':']).next().unwrap_or_default();
        let in_room = |room: &&&str| path.starts_with(&format!("{room}/")) || path.contains(&format!("/src/{room}/"));
        let Some(room) = ROOMS.iter().find(in_room) else { continue };
        shown.push_str(line);
        shown.push('\n');
        // File, then total, missed and share of regions, of functions, of lines, of branches.
        let numbers: Vec<&str> = line.split_whitespace().skip(1).collect();
        if let [_, _, _, _, _, _, lines, missed, ..] = numbers[..]
            && let (Ok(lines), Ok(missed)) = (lines.parse::<u64>(), missed.parse::<u64>())
        {
            let sum = sums.entry(room).or_default();
            *sum = (sum.0 + lines, sum.1 + missed);
        }
    }
    for (room, (lines, missed)) in sums {
        let tenths = lines.saturating_sub(missed) * 1000 / lines.max(1);
        let run = lines - missed;
        let _ = writeln!(shown, "{room}: {run} of {lines} lines, {}.{} %", tenths / 10, tenths % 10);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_summed_by_room() {
        let report = "\
Filename          Regions  Missed Regions  Cover  Functions  Missed Functions  Executed  Lines  Missed Lines  Cover
log/scan.rs            97               5  94.85%         6                 0   100.00%     68             2  97.06%
log/seal.rs            97               5  94.85%         6                 0   100.00%     32             0  100.00%
store/mod.rs           97               5  94.85%         6                 0   100.00%     83             6  92.77%
TOTAL                  97               5  94.85%         6                 0   100.00%     83             6  92.77%
Uncovered Lines:
/project/src/log/scan.rs: 113, 118
";
        let shown = of_rooms(report);
        assert!(shown.ends_with("log: 98 of 100 lines, 98.0 %\n"), "{shown}");
        assert!(shown.contains("scan.rs: 113, 118") && !shown.contains("store"), "{shown}");
    }
}
