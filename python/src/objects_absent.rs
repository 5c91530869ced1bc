//! In place of object storage, in a package that was built without it.
#![expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::errors::invalid;
use crate::store::Store;

#[pymethods]
impl Store {
    fn checkpoint_to(&self, py: Python<'_>, url: String, keep: Option<u64>) -> PyResult<(u64, Option<String>)> {
        let _ = (url, keep);
        Err(absent(py))
    }
}

#[pyfunction]
pub(crate) fn send_checkpoint(py: Python<'_>, dir: PathBuf, url: String, annotation: String) -> PyResult<(u64, u64)> {
    let _ = (dir, url, annotation);
    Err(absent(py))
}

#[pyfunction]
pub(crate) fn find_checkpoint(py: Python<'_>, url: String, number: Option<u64>) -> PyResult<(u64, String)> {
    let _ = (url, number);
    Err(absent(py))
}

#[pyfunction]
pub(crate) fn list_checkpoints(py: Python<'_>, url: String) -> PyResult<Vec<(u64, String)>> {
    let _ = url;
    Err(absent(py))
}

#[pyfunction]
pub(crate) fn retain_only(py: Python<'_>, url: String, numbers: Vec<u64>) -> PyResult<()> {
    let _ = (url, numbers);
    Err(absent(py))
}

#[pyfunction]
pub(crate) fn restore_from(py: Python<'_>, url: String, dir: PathBuf, number: Option<u64>) -> PyResult<()> {
    let _ = (url, dir, number);
    Err(absent(py))
}

fn absent(py: Python<'_>) -> PyErr {
    invalid(py, "this package was built without object storage; build it with the feature \"object-store\"")
}
