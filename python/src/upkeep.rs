//! What is done to directories, open or not.

use std::path::PathBuf;

use pyo3::prelude::*;
use rollstore::RolloutStore;
use rollstore::inspect::{self, Verification};

use crate::call::interruptible;

/// Sound, checkpoint, segments, frames, bytes, findings (file, offset, expected, found, ids).
pub(crate) type Verified = (bool, bool, u64, u64, u64, Vec<Finding>);

type Finding = (PathBuf, u64, String, String, Vec<u64>);

/// Brings a checkpoint back into a directory.
#[pyfunction]
pub(crate) fn restore(py: Python<'_>, checkpoint: PathBuf, dir: PathBuf) -> PyResult<()> {
    interruptible(py, move || RolloutStore::restore(checkpoint, dir))
}

/// Checks every byte of a store or checkpoint.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, dir: PathBuf) -> PyResult<Verified> {
    interruptible(py, move || inspect::verify(dir)).map(verified)
}

/// A verification, as Python takes it.
pub(crate) fn verified(seen: Verification) -> Verified {
    let sound = seen.is_sound();
    let finding = |finding: inspect::Finding| {
        let ids = finding.rollouts.iter().map(|id| id.get()).collect();
        let damage = finding.damage;
        (damage.file, damage.offset, damage.expected, damage.found, ids)
    };
    let findings = seen.findings.into_iter().map(finding).collect();
    (sound, seen.is_checkpoint, seen.segments, seen.frames, seen.bytes, findings)
}
