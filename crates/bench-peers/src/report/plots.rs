//! The plots, by the name of their file.

use super::metrics::{METRICS, Metric};
use super::results::Results;
use super::svg::{Line, Row, bars, lines};
use super::tables::CASES;
use crate::work::POLICIES;

/// A plot and what it shows.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// Figures of workload W that have a plot.
const OF_W: [&str; 7] = [
    "ingest_mb_s",
    "get_sum_us",
    "get_first_us",
    "stale_10_recomputed_us",
    "recompute_mb_s",
    "delete_oldest_us_record",
    "reclaim_ms",
];

/// Figures that are plotted from 10 K to 1 M records.
const OVER_SIZE: [&str; 3] = ["ingest_us_record", "get_sum_us", "stale_10_fresh_ns_match"];

/// Every plot for which there are figures.
pub(super) fn all(results: &Results) -> Vec<Plot> {
    let of_w = OF_W.iter().filter_map(|name| of_case(results, "w", name));
    let others =
        [("w-random", "ingest_mb_s"), ("cold", "cold_get_p50_us"), ("open-100k", "open_ms"), ("open-1m", "open_ms")];
    let others = others.iter().filter_map(|(case, name)| of_case(results, case, name));
    let over_size = OVER_SIZE.iter().filter_map(|name| over_size(results, name));
    let saved = ["trace", "simulated"].iter().filter_map(|source| saved(results, source));
    of_w.chain(others).chain(over_size).chain(saved).collect()
}

fn of_case(results: &Results, case: &str, name: &str) -> Option<Plot> {
    let metric: &Metric = METRICS.iter().find(|metric| metric.name == name)?;
    let rows = results.peers().into_iter().filter_map(|peer| {
        let value = results.middle(case, peer, name)?.median;
        Some(Row { label: peer.to_owned(), value })
    });
    let rows: Vec<Row> = rows.collect();
    let case_title = CASES.iter().find(|(known, _)| *known == case)?.1;
    let title = format!("{}, {} ({case_title})", metric.title, metric.unit);
    let name = format!("{case}-{}", name.replace('_', "-"));
    (rows.len() > 1).then(|| Plot { svg: bars(&title, &rows), name, title })
}

fn over_size(results: &Results, name: &str) -> Option<Plot> {
    let cases = ["10k", "100k", "1m"];
    let of = |peer: &&str| {
        let values = cases.iter().map(|case| Some(results.middle(case, peer, name)?.median));
        Some(Line { label: (*peer).to_owned(), values: values.collect::<Option<_>>()? })
    };
    let peers = ["rollstore", "lmdb", "rocksdb", "fjall", "redb", "sqlite"];
    let all: Vec<Line> = peers.iter().filter_map(of).collect();
    let title = format!("{} from 10 K to 1 M records of 256 B", name.replace('_', " "));
    let name = format!("size-{}", name.replace('_', "-"));
    (!all.is_empty()).then(|| Plot { svg: lines(&title, &["10 K", "100 K", "1 M"], &all), name, title })
}

/// Forwards that each rule has computed by each step.
fn saved(results: &Results, source: &str) -> Option<Plot> {
    let of = |policy: &crate::work::Policy| {
        let run = results.runs.iter().find(|run| run.case == policy.case())?;
        let computed = run.figures.series.get("forwards")?;
        let grown = computed.iter().scan(0.0, |total, one| {
            *total += one;
            Some(*total)
        });
        Some(Line { label: policy.rule.name().to_owned(), values: grown.collect() })
    };
    let of_source = POLICIES.iter().filter(|policy| policy.case().contains(source));
    let all: Vec<Line> = of_source.filter_map(of).collect();
    let title = format!("rollouts recomputed so far, by step ({source} run)");
    (!all.is_empty()).then(|| Plot {
        svg: lines(&title, &["first", "last"], &all),
        name: format!("saved-{source}"),
        title,
    })
}
