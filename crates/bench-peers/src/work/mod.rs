//! What is measured. Each piece of work runs in a process of its own, so that memory, syncs and a kill are its own too.
//!
//! May touch peers and directories of its own. Knows nothing of repeats, ratios and bars.

mod advance;
mod beside;
mod cold;
mod day;
mod figures;
mod records;
mod reopen;
mod saved;
mod shape;

pub(crate) use day::DayShape;
pub(crate) use figures::Figures;
pub(crate) use saved::{POLICIES, Policy};
pub(crate) use shape::{Lengths, Shape};

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::peers;

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Ingest, reads, scans, recomputes, deletes, reclaim.
    Records(Shape),
    /// Random reads of a store whose files are not in memory.
    Cold(Shape),
    /// Ingest, then `kill -9` of itself.
    Fill(Shape),
    /// Opens what a fill left.
    Reopen(Shape, OpenFrom),
    /// An advance of the ref version beside so many rollouts.
    Advance(Shape),
    /// Ingest and readers, alone and beside each other.
    Beside(Shape),
    /// A trainer's day.
    Day(DayShape),
    /// What policies of recompute cost on a recorded run or a simulated one.
    Saved(Policy),
}

/// What an open finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OpenFrom {
    /// Everything that the kill left.
    AllFiles,
    /// Nothing derived: neither index nor footers, so that the log is scanned.
    LogAlone,
}

impl Work {
    /// Does it with this peer in this directory.
    pub(crate) fn run(&self, peer: &str, dir: &Path) -> Outcome<Figures> {
        let peer = peers::named(peer)?;
        match self {
            Self::Records(shape) => records::run(peer, shape, dir),
            Self::Cold(shape) => cold::run(peer, shape, dir),
            Self::Fill(shape) => reopen::fill_and_die(peer, shape, dir),
            Self::Reopen(shape, from) => reopen::run(peer, shape, *from, dir),
            Self::Advance(shape) => advance::run(shape, dir),
            Self::Beside(shape) => beside::run(shape, dir),
            Self::Day(shape) => day::run(shape, dir),
            Self::Saved(policy) => saved::run(*policy, dir),
        }
    }
}
