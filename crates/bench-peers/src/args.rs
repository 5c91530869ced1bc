//! What the program is asked to do.

use std::path::PathBuf;

use clap::Parser;

/// rollstore beside other stores: the same work, the same guarantee, in one run.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(name = "bench-peers", version, about)]
pub(crate) struct Args {
    /// Print one JSON object with everything that was measured
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with tables and plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write docs/benchmarks.md and its plots from results that were committed; measures nothing
    #[arg(long, conflicts_with_all = ["json", "only", "quick"])]
    pub(crate) docs: bool,
    /// Take results from this file of --json instead of measuring; given more than once, the rounds are put together
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Vec<PathBuf>,
    /// Measure only cases and peers whose name holds this; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// A small run that shows that everything works; its figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; in each, every peer does every piece of work once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) repeats: u64,
    /// Where the files go: a real disk, not memory [default: beside the build's files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// List cases and peers, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// One piece of work, for a child of this program
    #[arg(long, value_name = "JSON", hide = true)]
    pub(crate) child: Option<String>,
}
