//! Operations that become one commit, in the order in which they were called.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rollstore::{Column, Error, Plan, Results, RolloutId, RolloutStore, WriteBatch};

use crate::arrays::{Ids, Rows, rollout_ids};
use crate::call::detached;
use crate::compute::Computed;
use crate::errors::{exception, invalid};
use crate::insert::{Held, Insert, InsertArgs};
use crate::store::{Store, reason_of};

/// Operations that wait for one commit.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
pub(crate) struct Batch {
    operations: Mutex<Vec<Operation>>,
}

#[derive(Debug)]
enum Operation {
    Insert { rows: Insert, how: How },
    Abandon(Vec<RolloutId>),
    Retire(Vec<RolloutId>, rollstore::Reason),
    RetireCreatedBefore(u64, rollstore::Reason),
    RetireVersionBefore(u64, rollstore::Reason),
    RetireGroups(Vec<u64>, rollstore::Reason),
    Apply(Plan, Results),
    Advance(u64, Option<u64>),
    AdvanceKlRef(Option<u64>),
    Cursor(Vec<u8>),
}

/// What becomes of given rows.
#[derive(Debug, Clone, Copy)]
enum How {
    Insert,
    Replace,
    /// They begin, go on, and end in parts.
    Begin,
    Append,
    Finish,
}

impl How {
    fn of(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(match name {
            "insert" => Self::Insert,
            "replace" => Self::Replace,
            "begin" => Self::Begin,
            "append" => Self::Append,
            "finish" => Self::Finish,
            other => return Err(invalid(py, &format!("rows cannot {other:?}"))),
        })
    }
}

/// LSN, retired, (computed, dropped, declined) of each apply, ref version.
type Done = (u64, u64, Vec<(u64, u64, u64)>, u64);

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Self {
        Self { operations: Mutex::default() }
    }

    /// Takes rows in: to `insert`, `replace`, `begin`, `append` or `finish`.
    fn insert(&self, py: Python<'_>, rows: InsertArgs<'_>, how: &str) -> PyResult<()> {
        self.push(Operation::Insert { rows: Insert::new(py, rows)?, how: How::of(py, how)? });
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn abandon_partials(&self, ids: Ids<'_>) -> PyResult<()> {
        self.push(Operation::Abandon(rollout_ids(&ids)?));
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn retire(&self, py: Python<'_>, ids: Ids<'_>, reason: &str) -> PyResult<()> {
        self.push(Operation::Retire(rollout_ids(&ids)?, reason_of(py, reason)?));
        Ok(())
    }

    fn retire_created_before(&self, py: Python<'_>, step: u64, reason: &str) -> PyResult<()> {
        self.push(Operation::RetireCreatedBefore(step, reason_of(py, reason)?));
        Ok(())
    }

    fn retire_version_before(&self, py: Python<'_>, version: u64, reason: &str) -> PyResult<()> {
        self.push(Operation::RetireVersionBefore(version, reason_of(py, reason)?));
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn retire_groups(&self, py: Python<'_>, groups: Ids<'_>, reason: &str) -> PyResult<()> {
        self.push(Operation::RetireGroups(groups.as_slice()?.to_vec(), reason_of(py, reason)?));
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn apply(&self, py: Python<'_>, plan: &crate::plan::Plan, values: Computed<'_>) -> PyResult<()> {
        let results = values.results(py, plan.plan())?;
        self.push(Operation::Apply(plan.plan().clone(), results));
        Ok(())
    }

    #[pyo3(signature = (step, label=None))]
    fn advance_ref_version(&self, step: u64, label: Option<u64>) {
        self.push(Operation::Advance(step, label));
    }

    #[pyo3(signature = (label=None))]
    fn advance_kl_ref_version(&self, label: Option<u64>) {
        self.push(Operation::AdvanceKlRef(label));
    }

    fn cursor(&self, cursor: Vec<u8>) {
        self.push(Operation::Cursor(cursor));
    }

    fn __len__(&self) -> usize {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Commits to `store`. The batch is empty afterwards, whatever the end.
    fn commit(&self, py: Python<'_>, store: &Store) -> PyResult<Done> {
        let operations = std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner));
        let hold = |operation: &Operation| match operation {
            Operation::Insert { rows, .. } => rows.hold(py),
            _ => Ok(Vec::new()),
        };
        let held = operations.iter().map(hold).collect::<PyResult<Vec<Vec<Held<'_>>>>>()?;
        let mut columns = Vec::with_capacity(operations.len());
        for (operation, held) in operations.iter().zip(&held) {
            columns.push(if let Operation::Insert { rows, .. } = operation { rows.rows(held)? } else { Vec::new() });
        }
        let work = || Ok(commit(store.store(), &operations, &columns));
        let done = detached(py, work)?;
        done.map_err(|Refused { error, row }| {
            let row = row.or_else(|| error.rollout().and_then(|id| row_of(&operations, id)));
            exception(py, &error, row)
        })
    }
}

impl Batch {
    fn push(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }
}

/// An error, and the row of its operation that it is about.
struct Refused {
    error: Error,
    row: Option<usize>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, row: None }
    }
}

fn commit<'a>(
    store: &RolloutStore,
    operations: &[Operation],
    columns: &'a [Vec<(&'a Column, Rows<'a>)>],
) -> Result<Done, Refused> {
    let mut batch = store.batch();
    for (operation, columns) in operations.iter().zip(columns) {
        match operation {
            Operation::Insert { rows, how } => {
                for row in 0..rows.len() {
                    put(&mut batch, *how, rows, columns, row).map_err(|error| Refused { error, row: Some(row) })?;
                }
            }
            Operation::Abandon(ids) => batch.abandon_partials(ids),
            Operation::Retire(ids, reason) => batch.retire(ids, *reason),
            Operation::RetireCreatedBefore(step, reason) => batch.retire_created_before(*step, *reason),
            Operation::RetireVersionBefore(version, reason) => batch.retire_version_before(*version, *reason),
            Operation::RetireGroups(groups, reason) => batch.retire_groups(groups, *reason),
            Operation::Apply(plan, results) => {
                let place = |error: Error| {
                    let row = error.rollout().and_then(|id| plan.ids().position(|planned| planned == id));
                    Refused { error, row }
                };
                batch.apply(plan.clone(), results.clone()).map_err(place)?;
            }
            Operation::Advance(step, label) => batch.advance_ref_version(*step, *label),
            Operation::AdvanceKlRef(label) => batch.advance_kl_ref_version(*label),
            Operation::Cursor(cursor) => batch.cursor(cursor),
        }
    }
    let done = batch.commit()?;
    let applied = done.applied.iter().map(|applied| (applied.computed, applied.dropped, applied.declined)).collect();
    Ok((done.lsn.get(), done.retired, applied, done.ref_version))
}

fn put<'a>(
    batch: &mut WriteBatch<'a>,
    how: How,
    rows: &Insert,
    columns: &[(&Column, Rows<'a>)],
    row: usize,
) -> Result<(), Error> {
    match how {
        How::Insert => batch.insert(rows.rollout(row, columns)?),
        How::Replace => batch.replace(rows.rollout(row, columns)?),
        How::Begin => batch.begin_partial(rows.rollout(row, columns)?),
        How::Finish => batch.finish(rows.rollout(row, columns)?),
        How::Append => {
            let (id, tokens, logps, span) = rows.piece(row, columns)?;
            batch.append(id, tokens, logps, span)
        }
    }
}

fn row_of(operations: &[Operation], id: RolloutId) -> Option<usize> {
    operations.iter().find_map(|operation| match operation {
        Operation::Insert { rows, .. } => rows.row_of(id),
        _ => None,
    })
}
