//! Everything as plain text, for a terminal.

use super::results::Results;
use super::tables::{self, CASES, Table};

pub(crate) fn text(results: &Results) -> String {
    let mut out = Vec::new();
    for (case, title) in CASES {
        if let Some(table) = tables::of_case(results, case) {
            out.push(format!("{title}\n{}", columns(&table)));
        }
    }
    for (case, peers) in &results.summary {
        if CASES.iter().all(|(known, _)| known != case) {
            for figures in peers.values() {
                let lines = figures.iter().map(|(name, found)| format!("  {name:38} {}", tables::number(found.median)));
                out.push(format!("{case}\n{}", lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    out.push(format!("Bars\n{}", columns(&tables::of_bars(results))));
    out.join("\n\n")
}

/// The table in columns of equal width; the best of a row is starred.
fn columns(table: &Table) -> String {
    let star = |text: &str, is_best: bool| if is_best { format!("{text}*") } else { text.to_owned() };
    let rows = table.rows.iter().map(|row| row.iter().map(|cell| star(&cell.text, cell.is_best)).collect::<Vec<_>>());
    let rows: Vec<Vec<String>> = std::iter::once(table.head.clone()).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
