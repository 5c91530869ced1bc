//! The program `rollstore`, as the package carries it.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line; `started_by` is the command that starts it again. Gives the exit code.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn run_cli(py: Python<'_>, started_by: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| rollstore_cli::run_as(&started_by, arguments))
}
