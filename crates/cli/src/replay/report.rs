//! What a replay did: one JSON object, or a table that is read at a glance.
//!
//! May touch the output. Knows nothing of how the counts came about.

use std::path::Path;

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use serde::Serialize;

use super::progress::{End, Totals};
use super::settings::Settings;
use crate::args::Mode;
use crate::exit::Outcome;
use crate::output::Output;
use crate::text;

/// The result of a replay. Its fields are the interface of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    trace: String,
    #[serde(flatten)]
    settings: Settings,
    inserted: u64,
    access_rows: u64,
    served_rows: u64,
    recomputed_rows: u64,
    recomputed_tokens: u64,
    peak_rows_per_step: u64,
    static_modulo_rows: u64,
    static_modulo_tokens: u64,
    static_modulo_peak_rows: u64,
    retired: u64,
    advances: u64,
    checkpoints: u64,
    crashes: u64,
    restores: u64,
    kills: u32,
    live: u64,
    values_crc32: String,
}

impl Report {
    pub(super) fn new(trace: &Path, settings: &Settings, end: &End, kills: u32) -> Self {
        let End { totals, live } = *end;
        let Totals { inserted, access_rows, served_rows, recomputed_rows, recomputed_tokens, .. } = totals;
        let Totals { static_modulo_rows, static_modulo_tokens, static_modulo_peak_rows, .. } = totals;
        let Totals { peak_rows_per_step, retired, advances, checkpoints, crashes, restores, .. } = totals;
        Self {
            trace: trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned(),
            settings: *settings,
            inserted,
            access_rows,
            served_rows,
            recomputed_rows,
            recomputed_tokens,
            peak_rows_per_step,
            static_modulo_rows,
            static_modulo_tokens,
            static_modulo_peak_rows,
            retired,
            advances,
            checkpoints,
            crashes,
            restores,
            kills,
            live,
            values_crc32: format!("{:08x}", totals.values_crc32),
        }
    }

    /// Prints the table.
    pub(super) fn print(&self, out: &mut Output) -> Outcome {
        out.line(self.title(out))?;
        out.line(self.bound())?;
        out.line("")?;
        out.line(self.comparison().trim_fmt())?;
        out.line("")?;
        for (name, told) in [("served", self.served()), ("buffer", self.buffer()), ("survived", self.survived())] {
            out.line(format_args!(" {name:<9} {told}"))?;
        }
        Ok(())
    }

    fn title(&self, out: &Output) -> String {
        let Settings { window, lag, .. } = self.settings;
        let trace = out.bold(&text::escape(&self.trace));
        let unit = self.settings.clock_name();
        let mode = if self.settings.mode == Mode::Snapshot { ", snapshot" } else { "" };
        format!(" {trace}   window {window}, lag {lag}, clock {unit}{mode}")
    }

    /// What the two columns have in common, said in full where it is no comparison of equals.
    fn bound(&self) -> String {
        let every = self.settings.every;
        if self.settings.is_same_bound() {
            let oldest = text::counted(every - 1, "version");
            return format!(" both at the same bound: no served log-prob is more than {oldest} old");
        }
        match self.settings.mode {
            Mode::Refresh => {
                format!(" the static schedule bounds ages by {} of v alone: not the same bound", every - 1)
            }
            Mode::Snapshot => {
                " snapshot: log-probs are served as they were inserted, with no bound on their age".into()
            }
        }
    }

    fn comparison(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
        let every = self.settings.every;
        table.set_header(["", &format!("static, every {every}"), "rollstore", "saved"]);
        let rows = [
            ("logps computed, rollouts", self.static_modulo_rows, self.recomputed_rows),
            ("logps computed, tokens", self.static_modulo_tokens, self.recomputed_tokens),
            ("worst step, rollouts", self.static_modulo_peak_rows, self.peak_rows_per_step),
        ];
        for (name, fixed, ours) in rows {
            table.add_row([name, &text::count(fixed), &text::count(ours), &saved(fixed, ours)]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn served(&self) -> String {
        let rows = text::counted(self.access_rows, "row");
        let (stored, computed) = (text::count(self.served_rows), text::count(self.recomputed_rows));
        format!("{rows}: {stored} as stored, {computed} computed first; values crc32 {}", self.values_crc32)
    }

    fn buffer(&self) -> String {
        let (inserted, retired) = (text::count(self.inserted), text::count(self.retired));
        let advances = text::counted(self.advances, "advance");
        format!("{inserted} inserted, {retired} retired, {} live; {advances}", text::count(self.live))
    }

    fn survived(&self) -> String {
        let plural = |number, one, many| {
            if number == 1 { format!("1 {one}") } else { format!("{} {many}", text::count(number)) }
        };
        let crashes = plural(self.crashes, "crash", "crashes");
        let kills = plural(self.kills.into(), "kill", "kills");
        let ends = match (self.crashes, self.kills) {
            (0, 0) => "no crash came".to_owned(),
            (_, 0) => format!("{crashes}, nothing lost"),
            (0, _) => format!("{kills}, nothing lost"),
            (_, _) => format!("{crashes} and {kills}, nothing lost"),
        };
        let checkpoints = text::counted(self.checkpoints, "checkpoint");
        format!("{ends}; {checkpoints}, {}", text::counted(self.restores, "restore"))
    }
}

/// The share of the static schedule's work that was not done: `92 %`.
fn saved(fixed: u64, ours: u64) -> String {
    if fixed == 0 {
        return "-".into();
    }
    let (fixed, ours) = (i128::from(fixed), i128::from(ours));
    format!("{} %", (fixed - ours) * 100 / fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_saved_is_of_the_static_schedule() {
        assert_eq!(saved(1056, 88), "91 %");
        assert_eq!(saved(100, 150), "-50 %");
        assert_eq!(saved(0, 0), "-");
        assert_eq!(saved(u64::MAX, 0), "100 %");
    }
}
