//! Checkpoints in object storage.

use std::path::PathBuf;

use pyo3::prelude::*;
use rollstore_objects::Options;

use crate::call::interruptible;
use crate::store::Store;

#[pymethods]
impl Store {
    /// Bytes that were sent, and why older checkpoints were not ended, where they should have been.
    fn checkpoint_to(&self, py: Python<'_>, url: String, keep: Option<u64>) -> PyResult<(u64, Option<String>)> {
        let store = self.store().clone();
        let sent = interruptible(py, move || rollstore_objects::checkpoint(&store, &url, keep, &Options::default()))?;
        let failed = sent.retention.and_then(Result::err).map(|error| error.to_string());
        Ok((sent.sent_bytes, failed))
    }
}

/// Sends a checkpoint that lies in a directory: its number, and the bytes that were sent.
#[pyfunction]
pub(crate) fn send_checkpoint(py: Python<'_>, dir: PathBuf, url: String, annotation: String) -> PyResult<(u64, u64)> {
    let options = Options::default().annotation(annotation);
    let sent = interruptible(py, move || rollstore_objects::send(dir, &url, None, &options))?;
    Ok((sent.number, sent.sent_bytes))
}

/// The number and annotation of the newest checkpoint, or of the one of a number.
#[pyfunction]
pub(crate) fn find_checkpoint(py: Python<'_>, url: String, number: Option<u64>) -> PyResult<(u64, String)> {
    interruptible(py, move || rollstore_objects::find(&url, number, &Options::default()))
}

/// Numbers and annotations of all checkpoints, oldest first.
#[pyfunction]
pub(crate) fn list_checkpoints(py: Python<'_>, url: String) -> PyResult<Vec<(u64, String)>> {
    let listed = interruptible(py, move || rollstore_objects::list(&url, &Options::default()))?;
    Ok(listed.into_iter().map(|checkpoint| (checkpoint.number, checkpoint.annotation)).collect())
}

/// Ends all checkpoints but those of these numbers.
#[pyfunction]
pub(crate) fn retain_only(py: Python<'_>, url: String, numbers: Vec<u64>) -> PyResult<()> {
    interruptible(py, move || rollstore_objects::retain_only(&url, &numbers, &Options::default()).map(drop))
}

/// Brings a checkpoint from object storage into a directory.
#[pyfunction]
pub(crate) fn restore_from(py: Python<'_>, url: String, dir: PathBuf, number: Option<u64>) -> PyResult<()> {
    interruptible(py, move || rollstore_objects::restore(&url, dir, number, &Options::default()).map(drop))
}
