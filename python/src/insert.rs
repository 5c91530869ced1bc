//! Rollouts on their way in: many rows, column by column, as the Python half has laid them out.

use std::borrow::Cow;

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rollstore::{Column, DType, NewRollout, Provenance, Result, RolloutId};

use crate::arrays::{Ids, Rows, dtype_of};
use crate::errors::exception;
use crate::names;

/// The id of a string key.
#[pyfunction]
pub(crate) fn id_from_key(key: &str) -> u64 {
    RolloutId::from_key(key).get()
}

/// What `Batch.insert` takes: a dictionary with all of these.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct InsertArgs<'py> {
    ids: Ids<'py>,
    keys: Option<Vec<String>>,
    created_steps: Ids<'py>,
    group_ids: Option<Ids<'py>>,
    rewards: Option<PyReadonlyArray1<'py, f32>>,
    advantages: Option<PyReadonlyArray1<'py, f32>>,
    old_versions: Option<Ids<'py>>,
    kl_ref_versions: Option<Ids<'py>>,
    metadata: Option<Vec<PyBackedBytes>>,
    version_spans: Option<Vec<Vec<(u64, u32)>>>,
    provenance: Vec<ProvenanceArgs>,
    columns: Vec<ColumnArgs>,
}

/// Column, engine, whether processed, temperature, top-p, top-k.
type ProvenanceArgs = (String, String, bool, f32, f32, u32);

/// Column, type, bytes of the values, offsets, which rows have any.
type ColumnArgs = (String, String, Py<PyArray1<u8>>, Py<PyArray1<i64>>, Option<Py<PyArray1<bool>>>);

/// Id, tokens, sampler log-probs, and the sampler's version with their number.
type Piece<'a> = (RolloutId, Cow<'a, [u32]>, Cow<'a, [f32]>, (u64, u32));

/// Rows that wait for their commit.
#[derive(Debug)]
pub(crate) struct Insert {
    ids: Vec<u64>,
    keys: Option<Vec<String>>,
    created_steps: Vec<u64>,
    group_ids: Option<Vec<u64>>,
    rewards: Option<Vec<f32>>,
    advantages: Option<Vec<f32>>,
    old_versions: Option<Vec<u64>>,
    kl_ref_versions: Option<Vec<u64>>,
    metadata: Option<Vec<PyBackedBytes>>,
    version_spans: Option<Vec<Vec<(u64, u32)>>>,
    provenance: Vec<(Column, Provenance)>,
    columns: Vec<InsertColumn>,
}

#[derive(Debug)]
struct InsertColumn {
    column: Column,
    dtype: DType,
    values: Py<PyArray1<u8>>,
    offsets: Py<PyArray1<i64>>,
    present: Option<Py<PyArray1<bool>>>,
}

impl Insert {
    /// Takes the rows in. Their columns stay where they are.
    pub(crate) fn new(py: Python<'_>, args: InsertArgs<'_>) -> PyResult<Self> {
        let numbers =
            |array: Option<Ids<'_>>| array.map(|array| Ok::<_, PyErr>(array.as_slice()?.to_vec())).transpose();
        let floats = |array: Option<PyReadonlyArray1<'_, f32>>| {
            array.map(|array| Ok::<_, PyErr>(array.as_slice()?.to_vec())).transpose()
        };
        let made = |(column, engine, processed, temperature, top_p, top_k): ProvenanceArgs| {
            let made = if processed {
                Provenance::processed(&engine, temperature, top_p, top_k)
            } else {
                Provenance { temperature, top_p, top_k, ..Provenance::raw(&engine) }
            };
            (names::column(&column), made)
        };
        let column = |(name, dtype, values, offsets, present): ColumnArgs| {
            let dtype = dtype_of(&dtype).map_err(|error| exception(py, &error, None))?;
            Ok(InsertColumn { column: names::column(&name), dtype, values, offsets, present })
        };
        Ok(Self {
            ids: args.ids.as_slice()?.to_vec(),
            keys: args.keys,
            created_steps: args.created_steps.as_slice()?.to_vec(),
            group_ids: numbers(args.group_ids)?,
            rewards: floats(args.rewards)?,
            advantages: floats(args.advantages)?,
            old_versions: numbers(args.old_versions)?,
            kl_ref_versions: numbers(args.kl_ref_versions)?,
            metadata: args.metadata,
            version_spans: args.version_spans,
            provenance: args.provenance.into_iter().map(made).collect(),
            columns: args.columns.into_iter().map(column).collect::<PyResult<_>>()?,
        })
    }

    /// Holds the columns' arrays, so that their bytes can be read without the interpreter lock.
    pub(crate) fn hold<'py>(&self, py: Python<'py>) -> PyResult<Vec<Held<'py>>> {
        let hold = |column: &InsertColumn| {
            let present = column.present.as_ref().map(|present| present.bind(py).try_readonly()).transpose()?;
            let values = column.values.bind(py).try_readonly()?;
            Ok(Held { values, offsets: column.offsets.bind(py).try_readonly()?, present })
        };
        self.columns.iter().map(hold).collect()
    }

    /// The rows of the held columns, with their names.
    pub(crate) fn rows<'a>(&'a self, held: &'a [Held<'_>]) -> PyResult<Vec<(&'a Column, Rows<'a>)>> {
        let rows = |(column, held): (&'a InsertColumn, &'a Held<'_>)| {
            let present = held.present.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
            let (bytes, offsets) = (held.values.as_slice()?, held.offsets.as_slice()?);
            Ok((&column.column, Rows { dtype: column.dtype, bytes, offsets, present }))
        };
        self.columns.iter().zip(held).map(rows).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The row of an id: the second, where it is given twice, since the first was sound.
    pub(crate) fn row_of(&self, id: RolloutId) -> Option<usize> {
        let mut rows = self.ids.iter().enumerate().filter(|(_, other)| **other == id.get()).map(|(row, _)| row);
        let first = rows.next();
        rows.next().or(first)
    }

    /// One row, as the store takes the next piece of a partial rollout.
    pub(crate) fn piece<'a>(&self, row: usize, columns: &[(&Column, Rows<'a>)]) -> Result<Piece<'a>> {
        let of = |column: Column| columns.iter().find(|(given, _)| **given == column).map(|(_, rows)| rows);
        let tokens = of(Column::CompletionIds).map(|rows| rows.row_as(row)).transpose()?.flatten().unwrap_or_default();
        let logps = of(Column::SamplerLogps).map(|rows| rows.row_as(row)).transpose()?.flatten().unwrap_or_default();
        let id = RolloutId::new(self.ids.get(row).copied().unwrap_or_default());
        let spans = self.version_spans.as_ref().and_then(|spans| spans.get(row));
        let span = spans.and_then(|spans| spans.first()).copied().unwrap_or_default();
        Ok((id, tokens, logps, span))
    }

    /// One row, as the store takes it.
    pub(crate) fn rollout<'a>(&self, row: usize, columns: &[(&Column, Rows<'a>)]) -> Result<NewRollout<'a>> {
        let number = |numbers: &Option<Vec<u64>>| numbers.as_ref().and_then(|numbers| numbers.get(row)).copied();
        let created_step = self.created_steps.get(row).copied().unwrap_or(u64::MAX);
        let id = self.ids.get(row).copied().unwrap_or_default();
        let mut rollout = match self.keys.as_ref().and_then(|keys| keys.get(row)) {
            Some(key) => NewRollout::with_key(key, created_step),
            None => NewRollout::new(id, created_step),
        };
        if let Some(group) = number(&self.group_ids) {
            rollout = rollout.group(group);
        }
        if let Some(reward) = self.rewards.as_ref().and_then(|rewards| rewards.get(row)) {
            rollout = rollout.reward(*reward);
        }
        if let Some(advantage) = self.advantages.as_ref().and_then(|advantages| advantages.get(row)) {
            rollout = rollout.advantage(*advantage);
        }
        if let Some(metadata) = self.metadata.as_ref().and_then(|metadata| metadata.get(row)) {
            rollout = rollout.metadata(metadata);
        }
        if let Some(spans) = self.version_spans.as_ref().and_then(|spans| spans.get(row)) {
            rollout = rollout.version_spans(spans);
        }
        for (column, rows) in columns {
            rollout = match column {
                Column::OldLogps if rows.dtype == DType::F32 && self.old_versions.is_some() => {
                    let version = number(&self.old_versions).unwrap_or_default();
                    match rows.row_as::<f32>(row)? {
                        Some(logps) => rollout.old_logps(logps, version),
                        None => rollout,
                    }
                }
                Column::KlRefLogps if rows.dtype == DType::F32 && self.kl_ref_versions.is_some() => {
                    let version = number(&self.kl_ref_versions).unwrap_or_default();
                    match rows.row_as::<f32>(row)? {
                        Some(logps) => rollout.kl_ref_logps(logps, version),
                        None => rollout,
                    }
                }
                _ => match rows.row(row)? {
                    Some(values) => rollout.column(column.name(), values),
                    None => rollout,
                },
            };
        }
        for (column, made) in &self.provenance {
            if columns.iter().any(|(given, rows)| *given == column && rows.is_present(row)) {
                rollout = rollout.provenance(column.clone(), made.clone());
            }
        }
        Ok(rollout)
    }
}

/// Arrays of one column, which nobody writes while this lives.
pub(crate) struct Held<'py> {
    values: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
    present: Option<PyReadonlyArray1<'py, bool>>,
}
