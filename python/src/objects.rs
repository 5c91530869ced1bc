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

/// Brings a checkpoint from object storage into a directory.
#[pyfunction]
pub(crate) fn restore_from(py: Python<'_>, url: String, dir: PathBuf, number: Option<u64>) -> PyResult<()> {
    interruptible(py, move || rollstore_objects::restore(&url, dir, number, &Options::default()).map(drop))
}
