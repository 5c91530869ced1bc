//! What a gather asks for, and the types that it goes between.

use pyo3::prelude::*;
use rollstore::{Ask, Column, DType, GatherInto, LogpKind, Result, RolloutId, RolloutStore, Stale};

use crate::arrays::{Ids, rollout_ids};
use crate::call::about;
use crate::errors::invalid;
use crate::names;

/// What is asked for: column, kind of log-probs, step, whether stale ones will do.
pub(crate) type AskArgs = (String, Option<String>, u64, bool);

/// One column of some rollouts.
pub(crate) struct Request {
    pub(crate) ids: Vec<RolloutId>,
    pub(crate) column: Column,
    kind: Option<LogpKind>,
    step: u64,
    stale: Stale,
}

impl Request {
    pub(crate) fn new(py: Python<'_>, ids: &Ids<'_>, (column, kind, step, allow): AskArgs) -> PyResult<Self> {
        let kind = match kind.as_deref() {
            None => None,
            Some("raw") => Some(LogpKind::Raw),
            Some("processed") => Some(LogpKind::Processed),
            Some(other) => return Err(invalid(py, &format!("there is no kind {other:?} of log-probs"))),
        };
        let stale = if allow { Stale::Allow } else { Stale::Error };
        Ok(Self { ids: rollout_ids(ids)?, column: names::column(&column), kind, step, stale })
    }

    pub(crate) fn gather<G: GatherInto>(&self, store: &RolloutStore, out: &mut G) -> Result<()> {
        let ask: Ask = match self.kind {
            Some(kind) => self.column.clone().of_kind(kind),
            None => self.column.clone().into(),
        };
        store.gather(&self.ids, ask, self.step, self.stale, out)
    }

    /// The column's type: the first rollout's, for a named one.
    pub(crate) fn dtype(&self, store: &RolloutStore) -> Result<DType> {
        match (&self.column, self.ids.first()) {
            (Column::PromptIds | Column::CompletionIds, _) => Ok(DType::U32),
            (Column::LossMask, _) => Ok(DType::U8),
            (Column::Named(_), Some(id)) => match store.get(*id)? {
                Some(rollout) => Ok(rollout.values(&self.column)?.dtype()),
                // The gather itself says that it is not live.
                None => Ok(DType::F32),
            },
            _ => Ok(DType::F32),
        }
    }

    /// Runs `work` without the interpreter lock; an exception names the row that it is about.
    pub(crate) fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
        about(py, &self.ids, work)
    }
}

/// Calls a function for the column's type and the buffer's, where the one can be widened to the other.
macro_rules! widening {
    ($request:expr, $found:expr, $wanted:expr, $call:ident($($argument:expr),*)) => {
        match ($found, $wanted) {
            (DType::F32, DType::F32) => $call::<f32, f32>($($argument),*),
            (DType::F16, DType::F16) => $call::<f16, f16>($($argument),*),
            (DType::F16, DType::F32) => $call::<f16, f32>($($argument),*),
            (DType::Bf16, DType::Bf16) => $call::<bf16, bf16>($($argument),*),
            (DType::Bf16, DType::F32) => $call::<bf16, f32>($($argument),*),
            (DType::I32, DType::I32) => $call::<i32, i32>($($argument),*),
            (DType::I32, DType::I64) => $call::<i32, i64>($($argument),*),
            (DType::I64, DType::I64) => $call::<i64, i64>($($argument),*),
            (DType::U32, DType::U32) => $call::<u32, u32>($($argument),*),
            (DType::U32, DType::I64) => $call::<u32, i64>($($argument),*),
            (DType::U8, DType::U8) => $call::<u8, u8>($($argument),*),
            (DType::U8, DType::F32) => $call::<u8, f32>($($argument),*),
            (DType::U8, DType::I32) => $call::<u8, i32>($($argument),*),
            (DType::U8, DType::I64) => $call::<u8, i64>($($argument),*),
            (found, wanted) => {
                let column = &$request.column;
                Err(Error::invalid(format!("{column} holds {found} values, out is of {wanted}; nothing is narrowed")))
            }
        }
    };
}

pub(crate) use widening;
