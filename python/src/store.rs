//! The store, as Python holds it.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rollstore::{Checkpointed, CompactBudget, Lsn, Reason, Retirement, Rewind, RolloutId, RolloutStore};

use crate::arrays::{Ids, id_array, rollout_ids};
use crate::call::{about, asked, detached, interruptible};
use crate::compute::{BudgetArgs, budget_of};
use crate::errors::invalid;
use crate::plan::Plan;
use crate::scans::{Flags, flags};
use crate::upkeep::{Verified, verified};
use crate::view::Rollout;
use crate::weights::WeightUpdate;

/// An open store.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
pub(crate) struct Store {
    /// None once it is dropped.
    store: Option<RolloutStore>,
}

impl Drop for Store {
    fn drop(&mut self) {
        // The last handle closes the store, which waits for its threads and writes: not with the interpreter's lock held.
        let store = self.store.take();
        // Where the interpreter is gone, so is its lock, and `store` is dropped with the closure.
        let _ = Python::try_attach(|py| py.detach(|| drop(store)));
    }
}

impl From<RolloutStore> for Store {
    fn from(store: RolloutStore) -> Self {
        Self { store: Some(store) }
    }
}

impl Store {
    /// The store itself.
    pub(crate) fn store(&self) -> &RolloutStore {
        self.store.as_ref().expect("a store is dropped with its object alone")
    }
}

/// The reason of this name.
pub(crate) fn reason_of(py: Python<'_>, name: &str) -> PyResult<Reason> {
    let known = Reason::ALL.into_iter().find(|reason| reason.name() == name);
    known.ok_or_else(|| {
        let names = Reason::ALL.map(Reason::name).join(", ");
        invalid(py, &format!("there is no reason {name:?}; there are {names}"))
    })
}

#[pymethods]
impl Store {
    #[getter]
    fn path(&self) -> PathBuf {
        self.store().dir().to_owned()
    }

    #[getter]
    fn window(&self) -> u64 {
        self.store().window()
    }

    #[getter]
    fn max_version_lag(&self) -> u64 {
        self.store().max_version_lag()
    }

    fn ref_version(&self, py: Python<'_>) -> PyResult<u64> {
        asked(py, || self.store().ref_version())
    }

    fn kl_ref_version(&self, py: Python<'_>) -> PyResult<u64> {
        asked(py, || self.store().kl_ref_version())
    }

    fn ref_version_of(&self, py: Python<'_>, label: u64) -> PyResult<Option<u64>> {
        asked(py, || self.store().ref_version_of(label))
    }

    fn clock(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        asked(py, || self.store().clock())
    }

    fn cursor<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let cursor = asked(py, || self.store().cursor())?;
        Ok(cursor.map(|cursor| PyBytes::new(py, &cursor)))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        asked(py, || self.store().len())
    }

    fn get(&self, py: Python<'_>, id: u64) -> PyResult<Option<Rollout>> {
        let rollout = detached(py, || self.store().get(RolloutId::new(id)))?;
        Ok(rollout.map(|rollout| std::sync::Arc::new(rollout).into()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn get_many(&self, py: Python<'_>, ids: Ids<'_>) -> PyResult<Vec<Option<Rollout>>> {
        let ids = rollout_ids(&ids)?;
        let rollouts = about(py, &ids, || self.store().get_many(&ids))?;
        Ok(rollouts.into_iter().map(|rollout| rollout.map(|rollout| std::sync::Arc::new(rollout).into())).collect())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn staleness(&self, py: Python<'_>, ids: Ids<'_>, step: u64) -> PyResult<Flags> {
        let ids = rollout_ids(&ids)?;
        let found = about(py, &ids, || self.store().staleness(&ids, step))?;
        Ok(flags(py, found.into_iter()))
    }

    /// Ids by question; all of them for any other than those below.
    fn scan<'py>(&self, py: Python<'py>, question: &str, of: u64) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let store = self.store();
        let ids = asked(py, || match question {
            "out_of_window" => store.out_of_window(of),
            "stale" => store.stale(),
            "needs_recompute" => store.needs_recompute(of),
            "from_future" => store.from_future(of),
            "missing" => store.missing(),
            "group" => store.group(of),
            _ => store.ids(),
        })?;
        Ok(id_array(py, ids.into_iter()))
    }

    /// Numbers by question, without listing anyone.
    fn count(&self, py: Python<'_>, question: &str, of: u64) -> PyResult<u64> {
        let store = self.store();
        asked(py, || match question {
            "out_of_window" => store.count_out_of_window(of),
            "stale" => store.count_stale(),
            "needs_recompute" => store.count_needs_recompute(of),
            "from_future" => store.count_from_future(of),
            "missing" => store.count_missing(),
            "created_before" => store.would_retire(&Retirement::CreatedBefore(of)),
            "version_before" => store.would_retire(&Retirement::VersionBefore(of)),
            _ => store.len() as u64,
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn plan_for(&self, py: Python<'_>, ids: Ids<'_>, step: u64) -> PyResult<Plan> {
        let ids = rollout_ids(&ids)?;
        about(py, &ids, || self.store().plan_for(&ids, step)).map(Plan::from)
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn plan_kl_ref_for(&self, py: Python<'_>, ids: Ids<'_>, step: u64) -> PyResult<Plan> {
        let ids = rollout_ids(&ids)?;
        about(py, &ids, || self.store().plan_kl_ref_for(&ids, step)).map(Plan::from)
    }

    fn plan_due(&self, py: Python<'_>, step: u64, budget: BudgetArgs) -> PyResult<Plan> {
        detached(py, || self.store().plan_due(step, budget_of(budget))).map(Plan::from)
    }

    #[pyo3(signature = (step, label=None))]
    fn advance_ref_version(&self, py: Python<'_>, step: u64, label: Option<u64>) -> PyResult<u64> {
        detached(py, || self.store().advance_ref_version(step, label))
    }

    #[pyo3(signature = (label=None))]
    fn advance_kl_ref_version(&self, py: Python<'_>, label: Option<u64>) -> PyResult<u64> {
        detached(py, || self.store().advance_kl_ref_version(label))
    }

    fn begin_weight_update(&self, py: Python<'_>, step: u64) -> PyResult<WeightUpdate> {
        detached(py, || self.store().begin_weight_update(step)).map(WeightUpdate::from)
    }

    fn rewind(&self, py: Python<'_>, step: u64, keep: bool) -> PyResult<u64> {
        detached(py, || self.store().rewind(step, if keep { Rewind::Keep } else { Rewind::Drop }))
    }

    fn allocate_ids<'py>(&self, py: Python<'py>, count: u64) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let ids = detached(py, || self.store().allocate_ids(count))?;
        Ok(id_array(py, ids))
    }

    /// Bytes that were copied; 0 where all files are linked.
    fn checkpoint(&self, py: Python<'_>, dir: PathBuf) -> PyResult<u64> {
        let store = self.store().clone();
        match interruptible(py, move || store.checkpoint(dir))? {
            Checkpointed::Linked => Ok(0),
            Checkpointed::Copied { bytes } => Ok(bytes),
        }
    }

    /// Copied bytes, freed bytes, whether nothing is left that is worth it.
    fn compact(&self, py: Python<'_>, bytes: Option<u64>) -> PyResult<(u64, u64, bool)> {
        let store = self.store().clone();
        let budget = bytes.map_or_else(CompactBudget::all, CompactBudget::bytes);
        let done = interruptible(py, move || store.compact(budget))?;
        Ok((done.copied_bytes, done.freed_bytes, done.is_done))
    }

    fn verify(&self, py: Python<'_>) -> PyResult<Verified> {
        let store = self.store().clone();
        interruptible(py, move || store.verify()).map(verified)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store().clone();
        interruptible(py, move || store.sync())
    }

    fn durable_lsn(&self, py: Python<'_>) -> PyResult<u64> {
        asked(py, || self.store().durable_lsn().get())
    }

    fn wait_durable(&self, py: Python<'_>, lsn: u64) -> PyResult<()> {
        let store = self.store().clone();
        interruptible(py, move || store.wait_durable(Lsn::new(lsn)))
    }

    fn diagnose(&self, py: Python<'_>, step: u64) -> PyResult<String> {
        asked(py, || self.store().diagnose(step).to_string())
    }

    fn would_recompute(&self, py: Python<'_>, step: u64, window: u64, max_version_lag: u64) -> PyResult<u64> {
        asked(py, || self.store().would_recompute(step, window, max_version_lag))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store().clone();
        interruptible(py, move || store.close())
    }
}
