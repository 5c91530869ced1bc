//! A report of a whole store: what lives in it, what became of the rest, and how far trainer and sampler are apart.
//!
//! Always true:
//! - R1. Memory is bounded by the index: histograms and the worst few are kept, not values.
//! - R2. Damage hides what it damaged and nothing else.

mod buffer;
mod drift;
mod histogram;
mod json;
mod past;

use std::path::Path;

pub use buffer::{Buffer, BufferCounters, Count, States};
pub use drift::{Drift, WORST_ROLLOUTS, WORST_TOKENS, WorstRollout};
pub use histogram::{Bin, Histogram};
pub use past::{Past, Schedule, StepCounts};

use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::{Error, Result};
use crate::inspect::content;
use crate::inspect::log::Log;
use crate::inspect::segments::{Segments, segments_on};
use crate::inspect::verify::Finding;
use crate::recovery::manifests;

/// What a report of a store says.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What lives in the store; `None` where it does not open.
    pub buffer: Option<Buffer>,
    /// How far the trainer's log-probs are from the sampler's; `None` where the store does not open.
    pub drift: Option<Drift>,
    /// What the log still tells.
    pub past: Past,
    /// The segments, read after all else: a trainer at work may have written more by then.
    pub segments: Segments,
    /// What could not be read, each place once.
    pub damage: Vec<Finding>,
}

/// A report of the store or checkpoint in `dir`. Takes no lock: a trainer may be writing to it. Reads the log, and the
/// log-probs of every live rollout.
///
/// # How does my run look?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 0).sampler_logps(&[-0.75][..]).old_logps(&[-0.5][..], 0))?;
/// let report = inspect::report(dir.path().join("rollouts"))?;
/// assert_eq!(report.buffer.unwrap().fresh, 1);
/// assert_eq!(report.drift.unwrap().worst[0].difference, 0.25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` where there is no store, `Damaged` where no manifest can be read, `TooNew`, `Io`. Other damage is part of the
/// report.
pub fn report(dir: impl AsRef<Path>) -> Result<Report> {
    report_on(&OsDisk, dir.as_ref())
}

fn report_on(disk: &dyn Disk, dir: &Path) -> Result<Report> {
    let mut damage = Vec::new();
    let store = match content::read(disk, dir) {
        Ok(store) => Some(store),
        Err(error) => {
            damage.push(Finding::of(error)?);
            None
        }
    };
    let options = if let Some(store) = &store {
        store.manifest.options
    } else {
        let none = || Error::not_found(format!("{} holds no store", dir.display())).at(dir);
        manifests::newest(disk, dir)?.ok_or_else(none)?.options
    };
    let buffer = store.as_ref().map(Buffer::of);
    let drift = store.as_ref().map(|store| Drift::of(store, &mut damage)).transpose()?;
    let every = options.window.min(options.max_version_lag).saturating_add(1);
    let counters = buffer.as_ref().map(|buffer| &buffer.counters);
    let past = past::read(Log::open(disk, dir)?, every, counters, &mut damage)?;
    let segments = segments_on(disk, dir)?;
    damage.extend(segments.damage.iter().cloned());
    let mut told: Vec<Finding> = Vec::new();
    for finding in damage {
        // Who reads an array and who reads the log tell of one place in words of their own.
        let place = |finding: &Finding| (finding.damage.file.clone(), finding.damage.offset);
        if told.iter().all(|other| place(other) != place(&finding)) {
            told.push(finding);
        }
    }
    Ok(Report { buffer, drift, past, segments, damage: told })
}
