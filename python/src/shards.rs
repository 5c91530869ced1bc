//! Shards: where rollouts belong, and how the number of shards is changed.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::PyArray1;
use pyo3::prelude::*;
use rollstore_shards::{Census, Made, OnConflict, Router, Shards, TakeCursor};

use crate::arrays::{Ids, rollout_ids};
use crate::call::{asked, interruptible};
use crate::errors::{invalid, shards_exception};

/// Rollouts, tokens, bytes of arrays, partial rollouts, their tokens, and rollouts by version: live, stale, missing.
type Counted = (u64, u64, u64, u64, u64, Vec<(u64, u64, u64, u64)>);

/// Stores with their rollouts, counts before and after, what was left out of both kinds, sweeps that begin anew by shard.
type MadeTuple = (Vec<(PathBuf, u64)>, Counted, Counted, (u64, u64), Vec<(PathBuf, Vec<String>)>);

/// The shard of each id.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn shards_of<'py>(py: Python<'py>, ids: Ids<'py>, shards: u32) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let router = Router::new(some(py, shards)?);
    let ids = rollout_ids(&ids)?;
    let routed = asked(py, || ids.iter().map(|id| router.route(*id)).collect::<Vec<_>>())?;
    Ok(PyArray1::from_vec(py, routed))
}

/// Makes one store of shards, or, where a count is given, so many shards.
#[pyfunction]
pub(crate) fn make_shards(
    py: Python<'_>,
    shards: Vec<PathBuf>,
    count: Option<u32>,
    path: PathBuf,
    newest: bool,
    cursor: (bool, Option<usize>),
) -> PyResult<MadeTuple> {
    let count = count.map(|count| some(py, count)).transpose()?;
    let on_conflict = if newest { OnConflict::Newest } else { OnConflict::Error };
    let cursor = match cursor {
        (true, Some(shard)) => TakeCursor::Of(shard),
        (true, None) => TakeCursor::Same,
        (false, _) => TakeCursor::No,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let made = interruptible(py, move || {
        let watch =
            |_| if stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let shards = Shards::of(shards).on_conflict(on_conflict).cursor(cursor).watch(watch);
        Ok(match count {
            Some(count) => shards.reshard(count, path),
            None => shards.merge(path),
        })
    });
    // A Ctrl-C ends the work with the batch that is under way; the same call again goes on.
    stop.store(true, Ordering::Relaxed);
    made?.map(tuple).map_err(|error| shards_exception(py, &error))
}

fn some(py: Python<'_>, shards: u32) -> PyResult<NonZeroU32> {
    NonZeroU32::new(shards).ok_or_else(|| invalid(py, "shards must be 1 or more"))
}

fn tuple(made: Made) -> MadeTuple {
    let left_out = (made.superseded, made.superseded_partials);
    (made.stores, counted(&made.before), counted(&made.after), left_out, made.sweeps)
}

fn counted(census: &Census) -> Counted {
    let versions = census.versions.iter();
    let versions = versions.map(|(version, count)| (*version, count.live, count.stale, count.missing)).collect();
    (census.rollouts, census.tokens, census.array_bytes, census.partials, census.partial_tokens, versions)
}
