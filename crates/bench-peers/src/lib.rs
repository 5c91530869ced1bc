//! rollstore beside other stores under one guarantee: every commit is on the device when it returns.
//!
//! ```text
//! cargo run --release -p bench-peers                       # tables
//! cargo run --release -p bench-peers -- --json             # one JSON object
//! cargo run --release -p bench-peers -- --html page.html   # a page with plots
//! cargo run --release -p bench-peers -- --only lmdb --only w
//! cargo run -p bench-peers -- --docs                       # docs/benchmarks.md from docs/benchmarks/results.json
//! ```
//!
//! Each piece of work runs in a process of its own. Rounds are interleaved: in each, every peer does every piece once, so
//! that a slow minute of the machine is a slow minute for all. Ratios are taken within a round, and their median counts.
//! What is read is checked in every run.
//!
//! ```text
//!   args, lib ── what is asked for
//!      │
//!   plan ─────── cases, rounds, children          report ── medians, bars, tables, plots
//!      │
//!   work ─────── one piece of work in one process
//!      │
//!   peers ────── one file each, one trait         content, meter, syncs
//! ```

mod args;
mod content;
mod meter;
mod outcome;
mod peers;
mod plan;
mod report;
mod syncs;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Args;
use clap::Parser;

/// Runs the program with these arguments (the first is the program's name) and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = Args::parse_from(arguments);
    match answer(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn answer(args: &Args) -> outcome::Outcome {
    if let Some(task) = &args.child {
        return plan::child(task);
    }
    if args.list {
        return report::print(&plan::list(args));
    }
    if args.docs {
        return report::docs(&args.from);
    }
    let results = if args.from.is_empty() { plan::measure(args)? } else { report::Results::read(&args.from)? };
    if let Some(page) = &args.html {
        std::fs::write(page, report::html(&results))?;
    }
    report::print(&if args.json { results.to_json()? } else { report::text(&results) })
}
