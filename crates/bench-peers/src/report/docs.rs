//! `docs/benchmarks.md` and its plots, made from committed results: every figure in it comes from the JSON beside it.

use std::fs;
use std::path::{Path, PathBuf};

use super::plots::{self, Plot};
use super::results::Results;
use super::tables::{self, CASES, Cell, Table, number};
use crate::outcome::Outcome;
use crate::work::POLICIES;

const METHOD: &str = include_str!("method.md");
const PROFILE: &str = include_str!("profile.md");

/// The project's folder of documents.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Writes the document from these files of results, or from the committed one.
pub(crate) fn docs(from: &[PathBuf]) -> Outcome {
    let (folder, plots_folder) = (folder(), folder().join("benchmarks"));
    let committed = plots_folder.join("results.json");
    let results = Results::read(if from.is_empty() { std::slice::from_ref(&committed) } else { from })?;
    fs::create_dir_all(&plots_folder)?;
    // The document and the results that it was made from belong together.
    fs::write(&committed, results.to_json()? + "\n")?;
    for entry in fs::read_dir(&plots_folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "svg") {
            fs::remove_file(path)?;
        }
    }
    let plots = plots::all(&results);
    for plot in &plots {
        fs::write(plots_folder.join(&plot.name).with_extension("svg"), &plot.svg)?;
    }
    fs::write(folder.join("benchmarks.md"), document(&results, &plots))?;
    Ok(())
}

/// The whole document.
pub(super) fn document(results: &Results, plots: &[Plot]) -> String {
    let mut parts = vec![METHOD.trim_end().to_owned(), machine(results), settings(results), bars(results)];
    parts.push(PROFILE.trim_end().to_owned());
    parts.push(ahead(results));
    parts.push(day(results));
    parts.push(saved(results, plots));
    parts.push(
        "## Tables\n\nMedians; bold is the best store of a row (the raw file is a limit, not a store); ± is half of \
                the spread where it is above 15 %; · is not measured or not possible."
            .to_owned(),
    );
    for (case, title) in CASES {
        if let Some(table) = tables::of_case(results, case) {
            let images =
                plots.iter().filter(|plot| plot.name.starts_with(&format!("{case}-")) && !is_longer_case(case, plot));
            let images: Vec<String> = images.map(image).collect();
            parts
                .push([format!("### {title}"), markdown(&table), images.join("\n")].join("\n\n").trim_end().to_owned());
        }
    }
    let over_size: Vec<String> = plots.iter().filter(|plot| plot.name.starts_with("size-")).map(image).collect();
    if !over_size.is_empty() {
        parts.push(format!("### From 10 K to 1 M records\n\n{}", over_size.join("\n")));
    }
    parts.join("\n\n") + "\n"
}

/// `w-random-…` is no plot of `w`.
fn is_longer_case(case: &str, plot: &Plot) -> bool {
    CASES.iter().any(|(other, _)| other.len() > case.len() && plot.name.starts_with(&format!("{other}-")))
}

fn image(plot: &Plot) -> String {
    format!("![{}](benchmarks/{}.svg)", plot.title, plot.name)
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let is_busy = machine.load.parse::<f64>().is_ok_and(|load| load > 1.5);
    let provisional = if is_busy || results.rounds() < 3 {
        "**Provisional**: fewer than three rounds, or a machine that others were using too. Neither figures nor verdicts of \
         this run are to be relied on; they show what is measured and how.\n\n"
    } else {
        ""
    };
    format!(
        "## Machine and date\n\n{provisional}{}: {}, {} cores, {} GiB of memory, {}, Linux {}, {}. {} round{}; the load was {} when they \
         began. Figures are of this machine on this day; ratios carry over, absolute figures do not.",
        machine.date,
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.file_system,
        machine.kernel,
        machine.compiler,
        results.rounds(),
        if results.rounds() == 1 { "" } else { "s" },
        machine.load,
    )
}

fn settings(results: &Results) -> String {
    let told = |peer: &str| format!("- **{peer}**: {}", results.settings.get(peer).map_or("", String::as_str));
    let mut lines: Vec<String> = results.peers().into_iter().map(told).collect();
    if !results.settings.contains_key("rocksdb") {
        lines.push("- **rocksdb** was not measured in this run: it is behind the feature `rocksdb`.".to_owned());
    }
    format!("## Settings\n\n{}", lines.join("\n"))
}

fn bars(results: &Results) -> String {
    let notes = results.bars.iter().filter(|bar| !bar.note.is_empty());
    let notes: Vec<String> = notes.map(|bar| format!("- {}: {}", bar.what, bar.note)).collect();
    let table = markdown(&tables::of_bars(results));
    format!("## Bars\n\nWhat rollstore must reach, and what it aims at.\n\n{table}\n\n{}", notes.join("\n"))
}

/// Every row in which another store is ahead.
fn ahead(results: &Results) -> String {
    let losses = tables::losses(results);
    if losses.is_empty() {
        return "## Where another store is ahead\n\nNowhere in this run.".to_owned();
    }
    let head = ["case", "figure", "ahead", "its figure", "rollstore's", "why"].map(str::to_owned).to_vec();
    let rows = losses.iter().map(|loss| {
        let unit = loss.metric.unit;
        let cells = [
            loss.case.clone(),
            loss.metric.title.to_owned(),
            loss.peer.clone(),
            format!("{} {unit}", number(loss.theirs)),
            format!("{} {unit}", number(loss.ours)),
            loss.metric.why.to_owned(),
        ];
        cells.map(Cell::plain).to_vec()
    });
    let table = markdown(&Table { head, rows: rows.collect() });
    format!("## Where another store is ahead\n\nEvery row with the best other store more than 5 % ahead.\n\n{table}")
}

fn day(results: &Results) -> String {
    let figure = |name: &str| results.middle("day", "rollstore", name).map(|found| found.median);
    let Some(share) = figure("store_share_percent") else { return "## The trainer's day\n\nNot measured.".to_owned() };
    let told = |name: &str| figure(name).map_or("·".to_owned(), number);
    let phases = ["generate", "advance", "get_or_compute", "gather", "recompute", "retire", "checkpoint"];
    let rows =
        phases.map(|phase| vec![Cell::plain(phase.replace('_', " ")), Cell::plain(told(&format!("{phase}_ms_step")))]);
    let head = ["phase", "ms a step"].map(str::to_owned).to_vec();
    format!(
        "## The trainer's day\n\n{} steps of 1,024 rollouts x 4,096 tokens with prompt, completion, sampler and old logps: \
         {} MB appended, {} MB copied by compaction meanwhile. The store takes {} ms a step: **{share:.2} % of a step of \
         30 s** (the worst step: {} %). {} commits: p50 {} ms, p99 {} ms, p99.9 {} ms, the slowest {} ms, with compaction, \
         index flushes and checkpoints running.\n\n{}",
        told("steps"),
        told("appended_mb"),
        told("compacted_mb"),
        told("store_ms_step"),
        told("store_share_worst_step_percent"),
        told("commits"),
        told("commit_p50_ms"),
        told("commit_p99_ms"),
        told("commit_p999_ms"),
        told("commit_max_ms"),
        markdown(&Table { head, rows: rows.to_vec() }),
    )
}

fn saved(results: &Results, plots: &[Plot]) -> String {
    let head = ["run and rule", "forwards", "tokens", "largest spike, forwards", "largest spike, tokens"];
    let names = ["forwards", "tokens", "largest_spike_forwards", "largest_spike_tokens"];
    let mut rows = Vec::new();
    for policy in POLICIES {
        let case = policy.case();
        let found = names.map(|name| results.middle(&case, "rollstore", name));
        if let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() {
            let name = Cell::plain(case.trim_start_matches("saved-").replacen('-', ": ", 1));
            rows.push(std::iter::once(name).chain(found.iter().map(|one| Cell::plain(number(one.median)))).collect());
        }
    }
    let table = markdown(&Table { head: head.map(str::to_owned).to_vec(), rows });
    let images: Vec<String> = plots.iter().filter(|plot| plot.name.starts_with("saved-")).map(image).collect();
    format!(
        "## What per-rollout windows save\n\nThe same run under four rules, through a real store, each with the promise that \
         what is used is at most N - 1 advances old (N is 3 on the recorded run, 4 on the simulated one). A static modulo \
         computes all live rollouts at every N-th advance; a window computes each when its own time is up; stale-lazy only \
         what is used after that; a budget computes what is due a few a step ahead of use, the rest when it is used. A spike \
         is what one step computes.\n\n{table}\n\n{}",
        images.join("\n")
    )
}

fn markdown(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let head = line(table.head.clone());
    let rule = format!("|{}|", vec!["---"; table.head.len()].join("|"));
    let cell = |cell: &Cell| {
        let text = cell.text.replace('|', "\\|");
        if cell.is_best { format!("**{text}**") } else { text }
    };
    let rows = table.rows.iter().map(|row| line(row.iter().map(cell).collect()));
    [head, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// What the tables can show has a meaning, and each peer that is known a place in them.
#[cfg(test)]
mod tests {
    use super::super::metrics::METRICS;
    use super::*;
    use crate::peers;
    use crate::report::{Machine, Run};
    use crate::work::Figures;

    fn results() -> Results {
        let machine = Machine::of(Path::new(".")).unwrap();
        let mut results = Results::new(machine, peers::ALL.iter().copied());
        for (peer, rate, get) in [("rollstore", 200.0, 3.0), ("raw", 250.0, 1.0), ("files", 10.0, 2.0)] {
            for round in 0..3_u8 {
                let mut figures = Figures::default();
                figures.set("ingest_mb_s", rate + f64::from(round));
                figures.set("get_sum_us", get);
                let round = u64::from(round);
                results.runs.push(Run { case: "w".to_owned(), peer: peer.to_owned(), round, figures });
            }
        }
        results.conclude();
        results
    }

    #[test]
    fn a_row_that_another_store_wins_is_named_and_the_raw_limit_is_no_store() {
        let results = results();
        let losses = tables::losses(&results);
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].peer.as_str(), losses[0].metric.name), ("files", "get_sum_us"));
        let document = document(&results, &plots::all(&results));
        assert!(document.contains("| w | get, whole array | files |"), "{document}");
    }

    #[test]
    fn the_median_of_ratios_within_rounds_is_held_against_the_bar() {
        let results = results();
        let bar = results.bars.iter().find(|bar| bar.what.contains("raw append")).unwrap();
        assert_eq!(bar.found, Some(201.0 / 251.0));
        assert_eq!(bar.verdict.told(), "aim reached");
        let missing = results.bars.iter().find(|bar| bar.what.contains("against rocksdb")).unwrap();
        assert_eq!(missing.verdict.told(), "not measured");
    }

    #[test]
    fn results_survive_their_json_and_several_files_are_further_rounds() {
        let (results, dir) = (results(), tempfile::tempdir().unwrap());
        let file = dir.path().join("results.json");
        fs::write(&file, results.to_json().unwrap()).unwrap();
        assert_eq!(Results::read(std::slice::from_ref(&file)).unwrap(), results);
        let both = Results::read(&[file.clone(), file]).unwrap();
        assert_eq!((both.rounds(), both.runs.len()), (6, 2 * results.runs.len()));
        assert_eq!(both.middle("w", "raw", "ingest_mb_s"), results.middle("w", "raw", "ingest_mb_s"));
    }

    #[test]
    fn every_figure_has_a_reason_for_when_another_is_ahead() {
        for metric in METRICS {
            assert_eq!(
                metric.why.is_empty(),
                metric.better == super::super::metrics::Better::Neither,
                "{}",
                metric.name
            );
        }
    }
}
