//! Which peers do which work, in what order, in which process.

mod cases;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use cases::{Case, Part};
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::outcome::Outcome;
use crate::peers::{self, Kind};
use crate::report::{Machine, Results, Run};
use crate::work::{Figures, Work};

/// One piece of work for a child.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    work: Work,
    peer: String,
    dir: PathBuf,
}

/// Does one piece of work in this process and prints its figures.
pub(crate) fn child(task: &str) -> Outcome {
    let task: Task = serde_json::from_str(task)?;
    let figures = task.work.run(&task.peer, &task.dir)?;
    crate::report::print(&serde_json::to_string(&figures)?)
}

/// The names that `--only` may hold.
pub(crate) fn list(args: &Args) -> String {
    let cases = cases::all(args.quick).into_iter().map(|case| format!("{:32}{}", case.name, case.title));
    let peers = peers::ALL.iter().map(|peer| format!("{:32}{}", peer.name, peer.settings));
    [vec!["cases:".to_owned()], cases.collect(), vec![String::new(), "peers:".to_owned()], peers.collect()]
        .concat()
        .join("\n")
}

/// Measures what was asked for.
pub(crate) fn measure(args: &Args) -> Outcome<Results> {
    let (cases, peers) = chosen(args)?;
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::current_exe()?.parent().map(Path::to_owned).unwrap_or_default(),
    };
    let rounds = if args.quick { 1 } else { args.repeats };
    let mut results = Results::new(Machine::of(&dir)?, peers.iter().copied());
    for round in 0..rounds {
        for case in cases.iter().filter(|case| round < case.rounds_max) {
            for peer in peers.iter().filter(|peer| case.is_for(**peer)) {
                let began = Instant::now();
                let figures =
                    run(case, *peer, &dir).map_err(|error| format!("{}, {}: {error}", case.name, peer.name))?;
                let seconds = began.elapsed().as_secs_f64();
                eprintln!("round {} of {rounds}: {}, {}: {seconds:.1} s", round + 1, case.name, peer.name);
                results.runs.push(Run { case: case.name.clone(), peer: peer.name.to_owned(), round, figures });
            }
        }
    }
    results.conclude();
    Ok(results)
}

/// Names of `--only` choose among cases and among peers; where none of a kind is named, all are meant. The ones that
/// others are held against are always measured.
fn chosen(args: &Args) -> Outcome<(Vec<Case>, Vec<Kind>)> {
    let all_cases = cases::all(args.quick);
    for name in &args.only {
        let is_known =
            all_cases.iter().any(|case| case.name == *name) || peers::ALL.iter().any(|peer| peer.name == *name);
        if !is_known {
            return Err(format!("there is no case and no peer {name:?}: see --list").into());
        }
    }
    let named = |name: &str| args.only.iter().any(|only| only == name);
    let any_case = all_cases.iter().any(|case| named(&case.name));
    let any_peer = peers::ALL.iter().any(|peer| named(peer.name));
    let cases = all_cases.into_iter().filter(|case| !any_case || named(&case.name)).collect();
    let baseline = |name: &str| name == "rollstore" || name == "raw";
    let peers =
        peers::ALL.iter().copied().filter(|peer| !any_peer || named(peer.name) || baseline(peer.name)).collect();
    Ok((cases, peers))
}

/// All parts of a case, one after the other in one directory.
fn run(case: &Case, peer: Kind, dir: &Path) -> Outcome<Figures> {
    let dir = tempfile::Builder::new().prefix("bench-peers-").tempdir_in(dir)?;
    let mut all = Figures::default();
    for part in case.parts.iter().filter(|part| !part.only_rollstore || peer.name == "rollstore") {
        let task = Task { work: part.work.clone(), peer: peer.name.to_owned(), dir: dir.path().to_owned() };
        let found = in_a_child(&task, part)?;
        all.figures.extend(found.figures.into_iter().map(|(name, figure)| (format!("{}{name}", part.prefix), figure)));
        all.series.extend(found.series);
    }
    Ok(all)
}

fn in_a_child(task: &Task, part: &Part) -> Outcome<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--child").arg(serde_json::to_string(task)?).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output()?;
    if matches!(part.work, Work::Fill(_)) && killed(output.status) {
        return Ok(Figures::default());
    }
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, told.trim()).into());
    }
    // Peers may print too: the figures are the last line.
    let told = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(told.lines().last().unwrap_or_default())?)
}

fn killed(status: std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL)
}
