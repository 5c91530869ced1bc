//! The store's errors as exceptions of the package. The classes are Python's; here they are only found and filled.

use std::error::Error as _;
use std::io;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rollstore::{Error, ErrorKind};

/// The name of a kind, as `rollstore.errors` knows it.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Locked => "locked",
        ErrorKind::Full => "full",
        ErrorKind::Damaged => "damaged",
        ErrorKind::Poisoned => "poisoned",
        ErrorKind::Fenced => "fenced",
        ErrorKind::TooNew => "too_new",
        ErrorKind::Compute => "compute",
        _ => "io",
    }
}

/// The exception of an error of the store. A closure's own exception comes back as it was, with its traceback.
pub(crate) fn exception(py: Python<'_>, error: &Error, row: Option<usize>) -> PyErr {
    if error.kind() == ErrorKind::Compute
        && let Some(own) = error.source().and_then(|source| source.downcast_ref::<PyErr>())
    {
        return own.clone_ref(py);
    }
    fill(py, error, row).unwrap_or_else(|failed| failed)
}

/// The exception of an error of shards.
pub(crate) fn shards_exception(py: Python<'_>, error: &rollstore_shards::Error) -> PyErr {
    match error {
        rollstore_shards::Error::Store(error) => exception(py, error, None),
        _ => make(py, kind_name(error.kind()), &error.to_string(), None).unwrap_or_else(|failed| failed),
    }
}

/// An exception of this package's own that `call` refuses with.
pub(crate) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    exception(py, &Error::invalid(message), None)
}

/// What a panic says, as an exception. It is a mistake of the store's own, whatever the caller did.
pub(crate) fn panicked(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let message = format!("the store failed in a way that it should not: {message}; please report it");
    make(py, "internal", &message, None).unwrap_or_else(|failed| failed)
}

fn fill(py: Python<'_>, error: &Error, row: Option<usize>) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    details.set_item(intern!(py, "path"), error.path())?;
    details.set_item(intern!(py, "id"), error.rollout().map(rollstore::RolloutId::get))?;
    details.set_item(intern!(py, "row"), row)?;
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    details.set_item(intern!(py, "errno"), io.and_then(io::Error::raw_os_error))?;
    if let Some(damage) = error.damage() {
        details.set_item(intern!(py, "path"), &damage.file)?;
        details.set_item(intern!(py, "offset"), damage.offset)?;
    }
    make(py, kind_name(error.kind()), &error.to_string(), Some(&details))
}

fn make(py: Python<'_>, kind: &str, message: &str, details: Option<&Bound<'_, PyDict>>) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "rollstore.errors", "_from_native")?;
    Ok(PyErr::from_value(make.call((kind, message), details)?))
}
