//! Tables: one a case, a row a figure, a column a peer.

use super::metrics::{Better, METRICS, Metric};
use super::results::{Middle, Results};

/// Spread above this part of the median is told.
const SPREAD_TOLD: f64 = 0.15;

/// A table of text.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) is_best: bool,
}

impl Cell {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_best: false }
    }
}

/// A row in which another store is ahead.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    pub(super) case: String,
    pub(super) metric: Metric,
    pub(super) peer: String,
    pub(super) theirs: f64,
    pub(super) ours: f64,
}

/// A figure with three digits, or none after the point where it is large.
pub(super) fn number(figure: f64) -> String {
    let digits = match figure.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{figure:.digits$}")
}

/// The table of a case, where anything of it was measured.
pub(super) fn of_case(results: &Results, case: &str) -> Option<Table> {
    let measured = results.summary.get(case)?;
    let peers: Vec<&str> = results.peers().into_iter().filter(|peer| measured.contains_key(*peer)).collect();
    let head = std::iter::once(String::new()).chain(peers.iter().map(|peer| (*peer).to_owned())).collect();
    let mut rows = Vec::new();
    for metric in METRICS {
        let found: Vec<_> = peers.iter().map(|peer| results.middle(case, peer, metric.name)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        // The raw file is a limit, not a store: it wins nothing.
        let stores = peers.iter().zip(&found).filter(|(peer, _)| **peer != "raw").filter_map(|(_, found)| *found);
        let best = best(metric.better, stores.map(|found| found.median));
        let unit = if metric.unit.is_empty() { String::new() } else { format!(", {}", metric.unit) };
        let name = Cell::plain(format!("{}{unit}", metric.title));
        let cell = |(peer, found): (&&str, &Option<Middle>)| {
            found.map_or(Cell::plain("·"), |found| Cell {
                text: told(found),
                is_best: *peer != "raw" && best == Some(found.median),
            })
        };
        rows.push(std::iter::once(name).chain(peers.iter().zip(&found).map(cell)).collect());
    }
    (!rows.is_empty()).then_some(Table { head, rows })
}

fn told(found: Middle) -> String {
    let spread = (found.max - found.min) / found.median.abs() / 2.0;
    let told = number(found.median);
    if spread > SPREAD_TOLD { format!("{told} ±{:.0} %", spread * 100.0) } else { told }
}

fn best(better: Better, figures: impl Iterator<Item = f64>) -> Option<f64> {
    match better {
        Better::More => figures.reduce(f64::max),
        Better::Less => figures.reduce(f64::min),
        Better::Neither => None,
    }
}

/// Every row in which another store is ahead of rollstore by more than a twentieth; the raw file is no store.
pub(super) fn losses(results: &Results) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (case, peers) in &results.summary {
        for metric in METRICS {
            let Some(ours) = results.middle(case, "rollstore", metric.name).map(|found| found.median) else { continue };
            let others = peers.keys().filter(|peer| !["rollstore", "raw"].contains(&peer.as_str()));
            let ahead = others.filter_map(|peer| Some((peer, results.middle(case, peer, metric.name)?.median)));
            let ahead = ahead.filter(|(_, theirs)| match metric.better {
                Better::More => *theirs > ours * 1.05,
                Better::Less => *theirs < ours * 0.95,
                Better::Neither => false,
            });
            let sign = if metric.better == Better::More { -1.0 } else { 1.0 };
            let first = ahead.min_by(|(_, one), (_, other)| (one * sign).total_cmp(&(other * sign)));
            if let Some((peer, theirs)) = first {
                losses.push(Loss { case: case.clone(), metric: *metric, peer: peer.clone(), theirs, ours });
            }
        }
    }
    losses
}

/// The bars as a table.
pub(super) fn of_bars(results: &Results) -> Table {
    let head = ["bar", "must", "aim", "found", "from … to", "verdict"].map(str::to_owned).to_vec();
    let rows = results.bars.iter().map(|bar| {
        let sign = if bar.is_least { "≥" } else { "≤" };
        let spread = bar.min.zip(bar.max).filter(|(min, max)| min < max);
        [
            bar.what.clone(),
            format!("{sign} {} {}", short(bar.must), bar.unit),
            bar.aim.map_or(String::new(), |aim| format!("{sign} {} {}", short(aim), bar.unit)),
            bar.found.map_or("·".to_owned(), |found| format!("{} {}", number(found), bar.unit)),
            spread.map_or(String::new(), |(min, max)| format!("{} … {}", number(min), number(max))),
            bar.verdict.told().to_owned(),
        ]
        .map(Cell::plain)
        .to_vec()
    });
    Table { head, rows: rows.collect() }
}

/// A bar's height as it was set.
fn short(height: f64) -> String {
    format!("{height}")
}

/// The cases that have a table of peers, with their titles.
pub(super) const CASES: [(&str, &str); 12] = [
    ("w", "Workload W: 4 KiB records, ids in order"),
    ("w-random", "The same with random ids"),
    ("12k", "Records of 12 KiB"),
    ("96k", "Records of 96 KiB"),
    ("768k", "Records of 768 KiB"),
    ("log-normal", "Lengths from 128 to 32 K tokens, log-normal"),
    ("cold", "Reads of a store that memory does not hold"),
    ("open-100k", "Open after kill -9: 100,000 records of 4 KiB"),
    ("open-1m", "Open after kill -9: 1,000,000 records of 256 B"),
    ("10k", "10,000 records of 256 B"),
    ("100k", "100,000 records of 256 B"),
    ("1m", "1,000,000 records of 256 B"),
];
