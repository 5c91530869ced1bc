//! The machine that figures are of.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Where and when it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) compiler: String,
    /// The load of a minute when the run began: above the number of cores, others were at work too.
    pub(crate) load: String,
}

impl Machine {
    /// This machine, for files in `dir`.
    pub(crate) fn of(dir: &Path) -> Outcome<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let memory = after(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let memory_kib: u64 = memory.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or_default();
        let told = |command: &mut Command| {
            let output = command.output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let found = told(Command::new("stat").args(["--file-system", "--format=%T"]).arg(dir));
        Ok(Self {
            date: date(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400),
            cpu: after(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: found.unwrap_or_else(unknown),
            compiler: told(Command::new("rustc").arg("--version")).unwrap_or_else(unknown),
            load: read("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned(),
        })
    }
}

/// The calendar day so many days after 1970-01-01, counted in eras of 400 years that begin in March.
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_become_dates_across_leap_years() {
        for (days, expected) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_786, "2026-11-29")]
        {
            assert_eq!(date(days), expected);
        }
    }
}
