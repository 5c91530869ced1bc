//! Plans, as Python holds them.

use numpy::PyArray1;
use pyo3::prelude::*;
use rollstore::Column;

use crate::arrays::{counts, id_array};
use crate::call::asked;
use crate::view::Rollout;

/// Rollouts whose log-probs must be computed.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
pub(crate) struct Plan {
    plan: rollstore::Plan,
}

impl From<rollstore::Plan> for Plan {
    fn from(plan: rollstore::Plan) -> Self {
        Self { plan }
    }
}

impl Plan {
    pub(crate) fn plan(&self) -> &rollstore::Plan {
        &self.plan
    }
}

#[pymethods]
impl Plan {
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        id_array(py, self.plan.ids())
    }

    #[getter]
    fn positions<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        counts(py, self.plan.positions().iter().copied())
    }

    #[getter]
    fn step(&self) -> u64 {
        self.plan.step()
    }

    #[getter]
    fn ref_version(&self) -> u64 {
        self.plan.ref_version()
    }

    #[getter]
    fn token_count(&self) -> u64 {
        self.plan.token_count()
    }

    #[getter]
    fn damaged<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        id_array(py, self.plan.damaged().iter().copied())
    }

    /// The number of values that each result must have; -1 where nothing tells it.
    fn lens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let lens: Vec<i64> = asked(py, || self.plan.rollouts().map(len).collect())?;
        Ok(PyArray1::from_vec(py, lens))
    }

    fn rollouts(&self) -> Vec<Rollout> {
        self.plan.shared_rollouts().map(Rollout::from).collect()
    }

    fn __len__(&self) -> usize {
        self.plan.len()
    }

    fn part(&self, start: usize, end: usize) -> Self {
        self.plan.part(start..end).into()
    }

    fn made_with(&self, version: u64) -> Self {
        self.plan.clone().made_with(version).into()
    }
}

fn len(rollout: &rollstore::Rollout) -> i64 {
    let per_token = [Column::CompletionIds, Column::SamplerLogps, Column::OldLogps];
    let info = rollout.columns().into_iter().find(|info| per_token.contains(&info.column));
    info.map_or(-1, |info| i64::try_from(info.len).unwrap_or(-1))
}
