//! The `rollstore` command line: replays a recorded trainer run against a store, shows what is in one, checks and repairs.
//!
//! May touch the public interfaces of `rollstore` and `rollstore-objects`, trace files, and what a replay keeps beside its store.
//! Knows nothing of segments, frames or the index.
//!
//! Always true:
//! - C1. Standard output carries data alone; notes, progress and errors go to standard error.
//! - C2. Text that came from a store, a trace or a path never reaches a terminal with its control characters.
//! - C3. The exit code is 0 (sound), 1 (damage or a difference was found) or 2 (could not look, or bad input).
//! - C4. The inspector opens stores read-only: it writes nothing. What changes a store is a command of `upkeep`.

pub mod args;
mod commands;
mod exit;
mod findings;
mod formats;
#[cfg_attr(not(feature = "object-store"), path = "objects_absent.rs")]
mod objects;
mod output;
mod page;
mod program;
mod replay;
mod text;
pub mod trace;
mod upkeep;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Command;
use exit::{Outcome, Verdict};
use output::Output;

/// Runs the program with these arguments (the first is the program's name) and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run_as(&[], arguments))
}

/// [`run`], for a program that is not the executable of this process: `started_by` is the command line that starts it, to
/// which arguments are added. Gives the exit code as a number.
pub fn run_as(started_by: &[OsString], arguments: impl IntoIterator<Item = OsString>) -> u8 {
    program::set(started_by);
    let mut out = Output::stdout();
    let outcome = match args::parse(arguments) {
        Ok(command) => dispatch(&command, &mut out),
        Err(answer) => answer.print(&mut out),
    };
    exit::finish(outcome.and_then(|verdict| out.flush().map(|()| verdict)))
}

fn dispatch(command: &Command, out: &mut Output) -> Outcome<Verdict> {
    match command {
        Command::Replay(args) => replay::run(args, out),
        Command::Stat(args) => commands::stat::run(args, out),
        Command::Ls(args) => commands::ls::run(args, out),
        Command::Get(args) => commands::get::run(args, out),
        Command::Dump(args) => commands::dump::run(args, out),
        Command::Load(args) => upkeep::load::run(args, out),
        Command::Merge(args) => upkeep::shards::merge(args, out),
        Command::Reshard(args) => upkeep::shards::reshard(args, out),
        Command::Group(args) => commands::group::run(args, out),
        Command::History(args) => commands::history::run(args, out),
        Command::Log(args) => commands::log::run(args, out),
        Command::Segments(args) => commands::segments::run(args, out),
        Command::Diff(args) => commands::diff::run(args, out),
        Command::Diagnose(args) => commands::diagnose::run(args, out),
        Command::Report(args) => commands::report::run(args, out),
        Command::Sweeps(args) => commands::sweeps::run(args, out),
        Command::Verify(args) => commands::verify::run(args, out),
        Command::Repair(args) => upkeep::repair::run(args, out),
        Command::Checkpoint(args) => upkeep::checkpoint::run(args, out),
        Command::Restore(args) => upkeep::restore::run(args, out),
        Command::Checkpoints(args) => objects::list(args, out),
        Command::Rewind(args) => upkeep::rewind::run(args, out),
        Command::Compact(args) => upkeep::compact::run(args, out),
        Command::Completions(args) => completions(args, out),
    }
}

fn completions(args: &args::CompletionsArgs, out: &mut Output) -> Outcome<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::parser(), "rollstore", &mut script);
    out.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Verdict::Sound)
}
