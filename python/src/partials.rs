//! Partial rollouts on their way out; on their way in they are operations of a batch.

use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{Ids, rollout_ids};
use crate::call::{about, asked, detached};
use crate::store::Store;

/// Id, created step, tokens, version spans, whether no piece is lost.
type Open = (u64, u64, u64, Vec<(u64, u32)>, bool);

/// Id, created step, group, key, prompt, completion so far, its log-probs, version spans.
type Read<'py> = (
    u64,
    u64,
    Option<u64>,
    Option<String>,
    Option<Bound<'py, PyArray1<u32>>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<f32>>,
    Vec<(u64, u32)>,
);

#[pymethods]
impl Store {
    fn partials(&self, py: Python<'_>) -> PyResult<Vec<Open>> {
        let open = asked(py, || self.store().partials())?;
        let open = open.into_iter().map(|open| {
            let rollstore::OpenPartial { id, created_step, tokens, version_spans, is_whole, .. } = open;
            (id.get(), created_step, tokens, version_spans, is_whole)
        });
        Ok(open.collect())
    }

    /// What there is of each, in order; `None` where an id is of none.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn read_partials<'py>(&self, py: Python<'py>, ids: Ids<'py>) -> PyResult<Vec<Option<Read<'py>>>> {
        let ids = rollout_ids(&ids)?;
        let store = self.store();
        let found: Vec<Option<rollstore::Partial>> =
            about(py, &ids, || ids.iter().map(|id| store.partial(*id)).collect())?;
        let read = |partial: rollstore::Partial| {
            let prompt = partial.prompt_ids.map(|prompt| PyArray1::from_vec(py, prompt));
            let completion = PyArray1::from_vec(py, partial.completion_ids);
            let logps = PyArray1::from_vec(py, partial.sampler_logps);
            let (id, spans) = (partial.id.get(), partial.version_spans);
            (id, partial.created_step, partial.group, partial.key, prompt, completion, logps, spans)
        };
        Ok(found.into_iter().map(|partial| partial.map(read)).collect())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn abandon_partials(&self, py: Python<'_>, ids: Ids<'_>) -> PyResult<u64> {
        let ids = rollout_ids(&ids)?;
        detached(py, || self.store().abandon_partials(&ids))
    }
}
