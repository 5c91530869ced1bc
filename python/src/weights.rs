//! A weight update under way, between two calls of Python.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::call::detached;
use crate::errors::invalid;

/// A weight update that is under way until it is finished. Dropped it advances all the same.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
pub(crate) struct WeightUpdate {
    update: Mutex<Option<rollstore::WeightUpdate>>,
}

impl From<rollstore::WeightUpdate> for WeightUpdate {
    fn from(update: rollstore::WeightUpdate) -> Self {
        Self { update: Mutex::new(Some(update)) }
    }
}

#[pymethods]
impl WeightUpdate {
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let update = self.update.lock().unwrap_or_else(PoisonError::into_inner).take();
        let update = update.ok_or_else(|| invalid(py, "the weight update has ended already"))?;
        detached(py, || update.finish())
    }
}
