//! Advancing the ref version marks everything stale by one record: what it costs beside many rollouts.

use std::path::Path;
use std::time::Instant;

use super::figures::{Figures, count};
use super::shape::Shape;
use crate::content::STEPS;
use crate::meter::median;
use crate::outcome::{Outcome, expect};
use crate::peers;
use rollstore::RolloutStore;

/// Advances whose median is the figure.
const ADVANCES: u64 = 300;

pub(super) fn run(shape: &Shape, dir: &Path) -> Outcome<Figures> {
    let mut peer = peers::named("rollstore")?.open(dir)?;
    shape.insert(&shape.content(), &mut *peer, &mut |_| {})?;
    peer.close()?;
    let store = RolloutStore::options().open(dir.join("store"))?;
    let mut figures = Figures::default();
    figures.set("index_bytes_record", count(store.stats()?.index_bytes) / count(store.len()));
    let mut times = Vec::new();
    for _ in 0..ADVANCES {
        let began = Instant::now();
        store.advance_ref_version(0, None)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    // Far more advances than the lag: everything is stale.
    const { assert!(ADVANCES > 2 * STEPS) };
    expect("stale rollouts", &store.count_stale(), &shape.count)?;
    figures.set("advance_us", median(&times));
    Ok(figures)
}
