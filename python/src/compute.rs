//! Results on their way in, and the calls that ask a Python function for them.

use std::time::Duration;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use rollstore::{Budget, DType, Order, Plan, Query, Results, ServedFrom};

use crate::arrays::{Ids, Rows, counts, rollout_ids};
use crate::buffers::Grown;
use crate::call::{about, detached};
use crate::errors::{exception, invalid};
use crate::store::Store;

/// Results in the order of a plan: values behind each other, offsets, which rows have any, and why others failed.
#[derive(FromPyObject)]
pub(crate) struct Computed<'py>(
    PyReadonlyArray1<'py, f32>,
    PyReadonlyArray1<'py, i64>,
    Option<PyReadonlyArray1<'py, bool>>,
    Vec<(usize, String)>,
);

impl Computed<'_> {
    /// The results of `plan`.
    pub(crate) fn results(&self, py: Python<'_>, plan: &Plan) -> PyResult<Results> {
        let Self(values, offsets, present, failed) = self;
        let rows = Rows {
            dtype: DType::F32,
            bytes: bytemuck::cast_slice(values.as_slice()?),
            offsets: offsets.as_slice()?,
            present: present.as_ref().map(PyReadonlyArray1::as_slice).transpose()?,
        };
        let mut results = Results::new();
        for (row, id) in plan.ids().enumerate() {
            if let Some(logps) = rows.row_as::<f32>(row).map_err(|error| exception(py, &error, Some(row)))? {
                results.push(id, logps.into_owned());
            }
        }
        for (row, why) in failed {
            let id = plan.ids().nth(*row).ok_or_else(|| invalid(py, &format!("row {row} is not of the plan")))?;
            results.fail(id, why);
        }
        Ok(results)
    }
}

/// Calls a Python function with a plan and takes its results.
fn call(function: &Py<PyAny>, plan: &Plan) -> PyResult<Results> {
    Python::attach(|py| {
        let values = function.bind(py).call1((crate::plan::Plan::from(plan.clone()),))?;
        values.extract::<Computed<'_>>()?.results(py, plan)
    })
}

/// Values as `[rows, row_len]` one row after the other, lengths, where each row comes from (0 stored, 1 computed, 2 declined, 3
/// late).
type ServedArrays<'py> = (Bound<'py, PyArray1<f32>>, usize, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

#[pymethods]
impl Store {
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn get_or_compute<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        step: u64,
        function: Py<PyAny>,
        pad: f32,
        left: bool,
    ) -> PyResult<ServedArrays<'py>> {
        let ids = rollout_ids(&ids)?;
        let (grown, sources) = about(py, &ids, || {
            let served = self.store().get_or_compute(&ids, step, |plan| call(&function, plan))?;
            let sources: Vec<u8> = served.iter().map(|served| source(served.source())).collect();
            let rows = served.iter().map(|served| served.old_logps().unwrap_or_default());
            Ok((Grown::of(rows, pad, left), sources))
        })?;
        let lens = counts(py, grown.lens.iter().copied());
        Ok((PyArray1::from_vec(py, grown.values), grown.row_len, lens, PyArray1::from_vec(py, sources)))
    }

    /// Computed, dropped, failed, micro-batches, set aside (id, attempts, given up, reason), finished.
    #[expect(clippy::too_many_arguments, reason = "the Python half gives them names")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn sweep(
        &self,
        py: Python<'_>,
        name: &str,
        query: (&str, u64),
        order: &str,
        kl_ref: bool,
        complete_groups: usize,
        micro_batch: usize,
        retries: u32,
        step: u64,
        budget: BudgetArgs,
        function: Py<PyAny>,
    ) -> PyResult<Swept> {
        let query = match query {
            ("needs_recompute", _) => Query::NeedsRecompute,
            ("stale", _) => Query::Stale,
            ("out_of_window", _) => Query::OutOfWindow,
            ("created_before", step) => Query::CreatedBefore(step),
            ("all", _) => Query::All,
            (other, _) => return Err(invalid(py, &format!("there is no query {other:?}"))),
        };
        let order = match order {
            "oldest_born_first" => Order::OldestBornFirst,
            "stalest_first" => Order::StalestFirst,
            "log_order" => Order::LogOrder,
            other => return Err(invalid(py, &format!("there is no order {other:?}"))),
        };
        let swept = detached(py, || {
            let sweep = self.store().sweep(name, query).order(order).complete_groups(complete_groups);
            let sweep = if kl_ref { sweep.kl_ref() } else { sweep };
            let sweep = sweep.micro_batch(micro_batch).retries(retries);
            sweep.run(step, budget_of(budget), |plan| call(&function, plan))
        })?;
        let aside = |aside: rollstore::SetAside| (aside.id.get(), aside.attempts, aside.given_up, aside.reason);
        let set_aside = swept.set_aside.into_iter().map(aside).collect();
        Ok((swept.computed, swept.dropped, swept.failed, swept.micro_batches, set_aside, swept.finished))
    }

    fn forget_sweep(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        detached(py, || self.store().forget_sweep(name))
    }
}

type Swept = (u64, u64, u64, u64, Vec<(u64, u32, bool, String)>, bool);

/// The limits of a budget: rollouts, tokens, seconds.
pub(crate) type BudgetArgs = (Option<u64>, Option<u64>, Option<f64>);

/// All limits that are given: whichever is reached first.
pub(crate) fn budget_of((rollouts, tokens, seconds): BudgetArgs) -> Budget {
    let longest = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let limits = [rollouts.map(Budget::rollouts), tokens.map(Budget::tokens), seconds.map(longest).map(Budget::time)];
    limits.into_iter().flatten().fold(Budget::unlimited(), Budget::and)
}

fn source(source: ServedFrom) -> u8 {
    match source {
        ServedFrom::Stored => 0,
        ServedFrom::Computed => 1,
        ServedFrom::Declined => 2,
        ServedFrom::Late => 3,
    }
}
