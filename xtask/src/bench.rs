//! The benchmarks of `benches/`, each beside its raw baseline, against the committed result.
//!
//! May touch cargo and the build directory. Times are criterion's own estimates.
//!
//! Always true:
//! - B1. Only ratios are compared: of what the store takes and what its raw baseline takes, within one round.
//! - B2. A machine that was too noisy to tell gets no verdict.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::{cargo_program, output, root, run, target};

/// What is run; `commit_latency` compares for itself.
const BENCHES: [&str; 6] = ["advance", "gather", "get", "ingest", "reopen", "scan"];

/// Each benchmark is run so often, the whole set after the other.
const ROUNDS: usize = 3;

/// A function with such a name is the baseline of its group.
const RAW: &str = "raw: ";

/// What the committed result lies in.
const COMMITTED: &str = "docs/benchmarks/criterion.json";

/// A change below is none.
const CHANGE_MIN: f64 = 0.10;

/// A raw baseline that varies more between rounds tells that the machine was too noisy.
const RAW_SPREAD_MAX: f64 = 0.25;

/// A committed result.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Committed {
    date: String,
    machine: String,
    /// The greatest load average before a round.
    load: f64,
    benches: BTreeMap<String, Ratio>,
}

/// Time of the store over time of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Ratio {
    /// The median of the rounds.
    ratio: f64,
    /// Between the rounds: greatest less least, over the median.
    spread: f64,
}

/// What one benchmark took, in each round.
#[derive(Debug, Default, Clone)]
struct Measured {
    store_ns: Vec<f64>,
    raw_ns: Vec<f64>,
}

/// What is said of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    Faster,
    Slower,
    /// Nothing to compare with.
    New,
    TooNoisy,
}

/// Runs the benchmarks and compares; with `--save` the result is the committed one from then on.
pub(crate) fn run_benches(arguments: &[String]) -> Result<(), String> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with('-'));
    let (is_quick, is_saved) = (flags.contains(&"--quick"), flags.contains(&"--save"));
    let unknown_flag = flags.iter().find(|flag| !["--quick", "--save"].contains(*flag));
    let unknown_name = names.iter().find(|name| !BENCHES.contains(*name));
    if let Some(unknown) = unknown_flag.or(unknown_name) {
        return Err(format!("bench takes --quick, --save and some of {}, not {unknown:?}", BENCHES.join(", ")));
    }
    if is_quick && is_saved {
        return Err("a quick run measures nothing that could be saved".to_owned());
    }
    let names = if names.is_empty() { BENCHES.to_vec() } else { names };
    run(&mut bench(&names, &["--no-run"]))?;
    let (measured, load) = measure(&names, is_quick)?;
    let file = root().join(COMMITTED);
    let mut committed = read(&file)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A benchmark keeps one core busy itself.
    let busy = |load: f64| load > f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    let is_busy = busy(load);
    let machine = format!("{}, {cores} cores", processor());
    let slower = report(&measured, &committed, is_busy || is_quick);
    if is_quick {
        eprintln!("a quick run: that they run is all that it shows");
        return Ok(());
    }
    if is_busy {
        eprintln!("the load average was {load:.1} on {cores} cores: this machine is too busy to judge anything");
    }
    if is_saved {
        if names.len() == BENCHES.len() {
            // What is no longer there goes.
            committed.benches.clear();
        }
        return save(&file, committed, &measured, load, machine);
    }
    if !committed.machine.is_empty() && committed.machine != machine {
        eprintln!("committed on {}, this is {machine}: ratios carry over roughly", committed.machine);
    }
    if busy(committed.load) {
        eprintln!("committed at a load average of {}: save it again on a machine of your own", committed.load);
    }
    if slower.is_empty() { Ok(()) } else { Err(format!("slower than committed: {}", slower.join("; "))) }
}

/// Prints a line for each benchmark; the names of those that became slower.
fn report<'a>(measured: &'a BTreeMap<String, Measured>, committed: &Committed, is_noisy: bool) -> Vec<&'a str> {
    let mut slower = Vec::new();
    eprintln!(
        "\n{:<52} {:>13} {:>7} {:>8} {:>9} {:>7}",
        "time of the store / of its raw baseline", "raw", "spread", "ratio", "committed", "change"
    );
    for (name, measured) in measured {
        let (now, before) = (measured.ratio().ratio, committed.benches.get(name).copied());
        let verdict = judge(measured, before, is_noisy);
        let change = before.map(|before| format!("{:+.0}%", (now / before.ratio - 1.0) * 100.0));
        let before = before.map(|before| before.ratio.to_string());
        let [before, change] = [before, change].map(Option::unwrap_or_default);
        let (raw_ns, spread) = (median(&measured.raw_ns), spread(&measured.raw_ns) * 100.0);
        let said = verdict.said();
        eprintln!("{name:<52} {raw_ns:>10.0} ns {spread:>6.0}% {now:>8} {before:>9} {change:>7}  {said}");
        slower.extend((verdict == Verdict::Slower).then_some(name.as_str()));
    }
    slower
}

/// The command that runs some benchmarks.
fn bench(names: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(["bench", "--quiet", "--package", "rollstore"]).current_dir(root());
    names.iter().for_each(|name| _ = command.args(["--bench", name]));
    command.args(arguments);
    command
}

/// Runs the rounds; what each benchmark took by its name, and the greatest load average before a round.
fn measure(names: &[&str], is_quick: bool) -> Result<(BTreeMap<String, Measured>, f64), String> {
    let times = if is_quick { ["0.1", "0.1"] } else { ["1", "2"] };
    let options = ["--", "--noplot", "--quiet", "--warm-up-time", times[0], "--measurement-time", times[1]];
    let (mut measured, mut load) = (BTreeMap::<String, Measured>::new(), 0.0_f64);
    for round in 0..if is_quick { 1 } else { ROUNDS } {
        load = load.max(load_average());
        // Empty, so that everything found there is of this round.
        let home = target().join("criterion-rounds").join(round.to_string());
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(|error| format!("could not create {}: {error}", home.display()))?;
        run(bench(names, &options).env("CRITERION_HOME", &home))?;
        let mut found = Vec::new();
        estimates(&home, &mut found)?;
        for (name, store_ns, raw_ns) in pairs(&found)? {
            let measured = measured.entry(name).or_default();
            measured.store_ns.push(store_ns);
            measured.raw_ns.push(raw_ns);
        }
    }
    Ok((measured, load))
}

/// What criterion writes of a benchmark: its names, and the median of its times.
#[derive(Debug, Deserialize)]
struct Estimate {
    group_id: String,
    function_id: String,
    value_str: Option<String>,
    #[serde(skip)]
    median_ns: f64,
}

/// Finds every estimate below a folder.
fn estimates(folder: &Path, found: &mut Vec<Estimate>) -> Result<(), String> {
    let failed = |error: String| format!("{}: {error}", folder.display());
    let json = |name: &str| fs::read_to_string(folder.join(name)).map_err(|error| failed(error.to_string()));
    if folder.ends_with("new") {
        let mut estimate: Estimate =
            serde_json::from_str(&json("benchmark.json")?).map_err(|error| failed(error.to_string()))?;
        let all: serde_json::Value =
            serde_json::from_str(&json("estimates.json")?).map_err(|error| failed(error.to_string()))?;
        let median = all.pointer("/median/point_estimate").and_then(serde_json::Value::as_f64);
        estimate.median_ns = median.ok_or_else(|| failed("no median".to_owned()))?;
        found.push(estimate);
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(|error| failed(error.to_string()))? {
        let path = entry.map_err(|error| failed(error.to_string()))?.path();
        if path.is_dir() && !path.ends_with("base") {
            estimates(&path, found)?;
        }
    }
    Ok(())
}

/// Each function of the store with its time and that of the baseline of its group.
fn pairs(found: &[Estimate]) -> Result<Vec<(String, f64, f64)>, String> {
    let is_raw = |estimate: &&Estimate| estimate.function_id.starts_with(RAW);
    let of_store = found.iter().filter(|estimate| !is_raw(estimate));
    let pair = |estimate: &Estimate| {
        let raw = found.iter().filter(is_raw).find(|raw| raw.group_id == estimate.group_id);
        let raw = raw.ok_or_else(|| format!("{}: no function begins with {RAW:?}", estimate.group_id))?;
        let which = estimate.function_id.trim_start_matches("rollstore").trim_start_matches(", ");
        let parts = [estimate.group_id.as_str(), which, estimate.value_str.as_deref().unwrap_or_default()];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        Ok((name, estimate.median_ns, raw.median_ns))
    };
    of_store.map(pair).collect()
}

impl Measured {
    fn ratio(&self) -> Ratio {
        let ratios: Vec<f64> = self.store_ns.iter().zip(&self.raw_ns).map(|(store, raw)| store / raw).collect();
        Ratio { ratio: three_digits(median(&ratios)), spread: three_digits(spread(&ratios)) }
    }
}

impl Verdict {
    fn said(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::New => "not committed",
            Self::TooNoisy => "too noisy to judge",
        }
    }
}

fn judge(measured: &Measured, before: Option<Ratio>, is_busy: bool) -> Verdict {
    let now = measured.ratio();
    let Some(before) = before else { return Verdict::New };
    if is_busy || spread(&measured.raw_ns) > RAW_SPREAD_MAX {
        return Verdict::TooNoisy;
    }
    // What varies so much within a run cannot tell less between runs.
    let least = CHANGE_MIN.max(now.spread).max(before.spread);
    match now.ratio / before.ratio {
        change if change > 1.0 + least => Verdict::Slower,
        change if change < 1.0 / (1.0 + least) => Verdict::Faster,
        _ => Verdict::Same,
    }
}

/// Rounded to three digits that say something.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: &[f64]) -> f64 {
    let (least, greatest) = values
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, greatest), value| (least.min(*value), greatest.max(*value)));
    (greatest - least) / median(values)
}

/// The committed result; an empty one where there is none yet.
fn read(file: &Path) -> Result<Committed, String> {
    if !file.exists() {
        return Ok(Committed::default());
    }
    let failed = |error: String| format!("{}: {error}", file.display());
    let json = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&json).map_err(|error| failed(error.to_string()))
}

/// Writes what was measured; what was not run this time stays as it was.
fn save(
    file: &Path,
    committed: Committed,
    measured: &BTreeMap<String, Measured>,
    load: f64,
    machine: String,
) -> Result<(), String> {
    let mut benches = committed.benches;
    for (name, measured) in measured {
        benches.insert(name.clone(), measured.ratio());
    }
    let date = output(Command::new("date").args(["-u", "+%F"]))?.trim().to_owned();
    let json = serde_json::to_string_pretty(&Committed { date, machine, load, benches });
    let json = json.map_err(|error| error.to_string())?;
    fs::write(file, json + "\n").map_err(|error| format!("could not write {}: {error}", file.display()))?;
    eprintln!("saved in {COMMITTED}");
    Ok(())
}

/// Of the last minute; 0 where the system does not tell.
fn load_average() -> f64 {
    let told = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ratio: f64, raw_ns: [f64; 3]) -> Measured {
        Measured { store_ns: raw_ns.map(|raw| raw * ratio).to_vec(), raw_ns: raw_ns.to_vec() }
    }

    const STEADY: [f64; 3] = [100.0, 105.0, 95.0];
    const BEFORE: Option<Ratio> = Some(Ratio { ratio: 2.0, spread: 0.02 });

    #[test]
    fn a_change_beyond_a_tenth_is_told_and_a_smaller_one_is_none() {
        for (ratio, verdict) in
            [(2.3, Verdict::Slower), (2.1, Verdict::Same), (1.9, Verdict::Same), (1.7, Verdict::Faster)]
        {
            assert_eq!(judge(&measured(ratio, STEADY), BEFORE, false), verdict, "{ratio}");
        }
        assert_eq!(judge(&measured(2.0, STEADY), None, false), Verdict::New);
    }

    #[test]
    fn a_noisy_machine_gets_no_verdict() {
        assert_eq!(judge(&measured(9.0, [100.0, 130.0, 95.0]), BEFORE, false), Verdict::TooNoisy);
        assert_eq!(judge(&measured(9.0, STEADY), BEFORE, true), Verdict::TooNoisy);
    }

    #[test]
    fn what_varied_when_it_was_committed_must_change_by_more() {
        let before = Some(Ratio { ratio: 2.0, spread: 0.4 });
        assert_eq!(judge(&measured(2.7, STEADY), before, false), Verdict::Same);
        assert_eq!(judge(&measured(2.9, STEADY), before, false), Verdict::Slower);
    }

    #[test]
    fn a_ratio_is_of_one_round_and_the_median_counts() {
        let slow_round = Measured { store_ns: vec![200.0, 2000.0, 210.0], raw_ns: vec![100.0, 1000.0, 100.0] };
        assert!((slow_round.ratio().ratio - 2.0).abs() < 1e-9, "{slow_round:?}");
    }

    #[test]
    fn each_function_is_held_against_the_baseline_of_its_own_group() {
        let estimate = |group: &str, function: &str, value: Option<&str>, median_ns| Estimate {
            group_id: group.to_owned(),
            function_id: function.to_owned(),
            value_str: value.map(str::to_owned),
            median_ns,
        };
        let found = [
            estimate("get", "rollstore", None, 6.0),
            estimate("get", "raw: a vector", None, 2.0),
            estimate("open", "rollstore, no index", Some("10"), 50.0),
            estimate("open", "raw: read", None, 10.0),
        ];
        let expected = [("get".to_owned(), 6.0, 2.0), ("open, no index, 10".to_owned(), 50.0, 10.0)];
        assert_eq!(pairs(&found).unwrap(), expected);
        assert!(pairs(&found[..1]).is_err(), "a group without a baseline");
    }
}
