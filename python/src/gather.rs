//! Many rollouts' columns into one buffer: the caller's, or a new one.
//!
//! Always true:
//! - G1. A value is widened where the buffer's type holds every value of the column's, and never narrowed.

use std::marker::PhantomData;

use half::{bf16, f16};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadwriteArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rollstore::{Ask, Column, DType, Element, Error, GatherInto, LogpKind, Result, RolloutId, RolloutStore, Stale};

use crate::arrays::{Ids, counts, dtype_of, rollout_ids};
use crate::call::detached;
use crate::errors::exception;
use crate::names;
use crate::store::Store;
use crate::values::{IntoArray, Target};

/// A new `[rows, row_len]` buffer, as wide as the longest row.
#[derive(Debug, Default)]
pub(crate) struct Grown<O> {
    pub(crate) values: Vec<O>,
    pub(crate) row_len: usize,
    pub(crate) lens: Vec<usize>,
    pad: O,
    left: bool,
}

impl<O: Copy> Grown<O> {
    pub(crate) fn new(pad: O, left: bool) -> Self {
        Self { values: Vec::new(), row_len: 0, lens: Vec::new(), pad, left }
    }

    /// The buffer of these rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a [O]> + Clone, pad: O, left: bool) -> Self
    where
        O: 'a,
    {
        let mut grown = Self::new(pad, left);
        let lens: Vec<usize> = rows.clone().map(<[O]>::len).collect();
        grown.widen(&lens);
        rows.for_each(|row| grown.put(row));
        grown
    }

    fn widen(&mut self, lens: &[usize]) {
        self.row_len = lens.iter().copied().max().unwrap_or_default();
        self.lens = Vec::with_capacity(lens.len());
        self.values = vec![self.pad; self.row_len * lens.len()];
    }

    fn put<T: Copy>(&mut self, values: &[T])
    where
        O: From<T>,
    {
        fill(&mut self.values, self.row_len, self.lens.len(), self.pad, self.left, values);
        self.lens.push(values.len());
    }
}

/// Fills row `row` of a buffer: values at one side, `pad` at the other.
fn fill<T: Copy, O: From<T> + Copy>(out: &mut [O], row_len: usize, row: usize, pad: O, left: bool, values: &[T]) {
    let Some(row) = out.get_mut(row * row_len..(row + 1) * row_len) else { return };
    let padding = row_len.saturating_sub(values.len());
    let (padded, filled) = if left {
        row.split_at_mut(padding)
    } else {
        let (filled, padded) = row.split_at_mut(row_len - padding);
        (padded, filled)
    };
    padded.fill(pad);
    filled.iter_mut().zip(values).for_each(|(to, from)| *to = O::from(*from));
}

/// What takes values of type `T`: a new buffer of `O`.
struct IntoGrown<T, O>(Grown<O>, PhantomData<T>);

impl<T: Element, O: From<T> + Copy> GatherInto for IntoGrown<T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        self.0.widen(lens);
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        self.0.put(values);
    }
}

/// What takes values of type `T`: the caller's buffer of `O`.
struct IntoGiven<'a, T, O> {
    out: &'a mut [O],
    row_len: usize,
    pad: O,
    left: bool,
    lens: Vec<usize>,
    of: PhantomData<T>,
}

impl<T: Element, O: From<T> + Copy> GatherInto for IntoGiven<'_, T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        let (rows, row_len, held) = (lens.len(), self.row_len, self.out.len());
        if rows.checked_mul(row_len) != Some(held) {
            return Err(Error::invalid(format!(
                "out holds {held} values, {rows} rows of {row_len} need another number"
            )));
        }
        if let Some((row, len)) = lens.iter().enumerate().find(|(_, len)| **len > row_len) {
            return Err(Error::invalid(format!("row {row} has {len} values, out holds {row_len} a row; none is cut")));
        }
        self.lens = Vec::with_capacity(lens.len());
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        fill(self.out, self.row_len, self.lens.len(), self.pad, self.left, values);
        self.lens.push(values.len());
    }
}

/// What is asked for: column, kind of log-probs, step, whether stale ones will do.
type AskArgs = (String, Option<String>, u64, bool);

struct Request {
    ids: Vec<RolloutId>,
    column: Column,
    kind: Option<LogpKind>,
    step: u64,
    stale: Stale,
}

impl Request {
    fn new(py: Python<'_>, ids: &Ids<'_>, (column, kind, step, allow): AskArgs) -> PyResult<Self> {
        let kind = match kind.as_deref() {
            None => None,
            Some("raw") => Some(LogpKind::Raw),
            Some("processed") => Some(LogpKind::Processed),
            Some(other) => return Err(crate::errors::invalid(py, &format!("there is no kind {other:?} of log-probs"))),
        };
        let stale = if allow { Stale::Allow } else { Stale::Error };
        Ok(Self { ids: rollout_ids(ids)?, column: names::column(&column), kind, step, stale })
    }

    fn gather<G: GatherInto>(&self, store: &RolloutStore, out: &mut G) -> Result<()> {
        let ask: Ask = match self.kind {
            Some(kind) => self.column.clone().of_kind(kind),
            None => self.column.clone().into(),
        };
        store.gather(&self.ids, ask, self.step, self.stale, out)
    }

    /// The column's type: the first rollout's, for a named one.
    fn dtype(&self, store: &RolloutStore) -> Result<DType> {
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

    /// The row that an error is about.
    fn place(&self, py: Python<'_>, error: &Error) -> PyErr {
        exception(py, error, error.rollout().and_then(|id| self.ids.iter().position(|other| *other == id)))
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

/// Into the caller's buffer, as bytes. Gives the rows' lengths.
fn into_given<T: Element, O: Target + From<T>>(
    store: &RolloutStore,
    request: &Request,
    out: &mut [u8],
    row_len: usize,
    (pad, left): (f64, bool),
) -> Result<Vec<usize>> {
    let out = bytemuck::try_cast_slice_mut(out)
        .map_err(|error| Error::invalid(format!("out does not lie as {} values must: {error}", O::DTYPE)))?;
    let of = PhantomData::<T>;
    let mut given = IntoGiven { out, row_len, pad: O::pad(pad)?, left, lens: Vec::new(), of };
    request.gather(store, &mut given)?;
    Ok(given.lens)
}

/// Type, values, length of a row, lengths of the rows.
type PaddedArrays<'py> = (&'static str, Bound<'py, PyAny>, usize, Bound<'py, PyArray1<i64>>);

/// Type, values, offsets.
type FlatArrays<'py> = (&'static str, Bound<'py, PyAny>, Bound<'py, PyArray1<u64>>);

/// Values of one type, owned, until the interpreter lock is held again.
type Values = Box<dyn IntoArray + Send>;

/// Into a new buffer. Gives it, the length of a row, and the rows' lengths.
fn into_grown<T: Element, O: Target + From<T>>(
    store: &RolloutStore,
    request: &Request,
    (pad, left): (f64, bool),
) -> Result<(Values, usize, Vec<usize>)> {
    let mut grown = IntoGrown(Grown::new(O::pad(pad)?, left), PhantomData::<T>);
    request.gather(store, &mut grown)?;
    let Grown { values, row_len, lens, .. } = grown.0;
    Ok((O::boxed(values), row_len, lens))
}

/// Into a new buffer without padding. Gives it, and where each row begins.
fn into_flat<T: Element, O: Target + From<T>>(store: &RolloutStore, request: &Request) -> Result<(Values, Vec<u64>)> {
    let mut grown = IntoEnds { values: Vec::<O>::new(), ends: vec![0], of: PhantomData::<T> };
    request.gather(store, &mut grown)?;
    Ok((O::boxed(grown.values), grown.ends))
}

/// What takes values of type `T`: a new buffer of `O` without padding.
struct IntoEnds<T, O> {
    values: Vec<O>,
    ends: Vec<u64>,
    of: PhantomData<T>,
}

impl<T: Element, O: From<T>> GatherInto for IntoEnds<T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        self.values = Vec::with_capacity(lens.iter().sum());
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        self.values.extend(values.iter().map(|value| O::from(*value)));
        self.ends.push(self.values.len() as u64);
    }
}

impl Store {
    fn fill<'py, O: Target + numpy::Element>(
        &self,
        py: Python<'py>,
        ids: &Ids<'py>,
        ask: AskArgs,
        out: &Bound<'py, PyArray2<O>>,
        pad: (f64, bool),
    ) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        let row_len = out.dims()[1];
        if !out.is_c_contiguous() {
            return Ok(None);
        }
        let Ok(mut out) = out.try_readwrite() else { return Ok(None) };
        let Ok(values) = out.as_slice_mut() else { return Ok(None) };
        let request = Request::new(py, ids, ask)?;
        if values.len() != request.ids.len() * row_len {
            return Ok(None);
        }
        let bytes = bytemuck::cast_slice_mut(values);
        let mut work = || {
            let found = request.dtype(self.store())?;
            widening!(request, found, O::DTYPE, into_given(self.store(), &request, bytes, row_len, pad))
        };
        let lens = detached(py, || Ok(work()))?.map_err(|error| request.place(py, &error))?;
        Ok(Some(counts(py, lens.into_iter())))
    }
}

#[pymethods]
impl Store {
    /// Fills the bytes of a contiguous `[rows, row_len]` buffer of this type.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn gather_into<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        ask: AskArgs,
        mut out: PyReadwriteArray1<'py, u8>,
        shape: (String, usize),
        pad: (f64, bool),
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let request = Request::new(py, &ids, ask)?;
        let (bytes, (dtype, row_len)) = (out.as_slice_mut()?, shape);
        let mut work = || {
            let (found, wanted) = (request.dtype(self.store())?, dtype_of(&dtype)?);
            widening!(request, found, wanted, into_given(self.store(), &request, bytes, row_len, pad))
        };
        let lens = detached(py, || Ok(work()))?.map_err(|error| request.place(py, &error))?;
        Ok(counts(py, lens.into_iter()))
    }

    /// Fills a contiguous `[rows, row_len]` array of a type that both sides know; `None` for any other, unchanged.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn gather_out<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        ask: AskArgs,
        out: &Bound<'py, PyAny>,
        pad: (f64, bool),
    ) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        if let Ok(out) = out.cast::<PyArray2<f32>>() {
            return self.fill(py, &ids, ask, out, pad);
        }
        if let Ok(out) = out.cast::<PyArray2<i64>>() {
            return self.fill(py, &ids, ask, out, pad);
        }
        Ok(None)
    }

    /// A new buffer, as wide as the longest row.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn gather_padded<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        ask: AskArgs,
        pad: (f64, bool),
    ) -> PyResult<PaddedArrays<'py>> {
        let request = Request::new(py, &ids, ask)?;
        let work = || {
            let found = request.dtype(self.store())?;
            let (values, row_len, lens) = widening!(request, found, found, into_grown(self.store(), &request, pad))?;
            Ok((found.name(), values, row_len, lens))
        };
        let done = detached(py, || Ok(work()))?.map_err(|error| request.place(py, &error))?;
        let (dtype, values, row_len, lens) = done;
        Ok((dtype, values.into_array(py), row_len, counts(py, lens.into_iter())))
    }

    /// All rows behind each other, and where each begins.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn gather_flat<'py>(&self, py: Python<'py>, ids: Ids<'py>, ask: AskArgs) -> PyResult<FlatArrays<'py>> {
        let request = Request::new(py, &ids, ask)?;
        let work = || {
            let found = request.dtype(self.store())?;
            let (values, ends) = widening!(request, found, found, into_flat(self.store(), &request))?;
            Ok((found.name(), values, ends))
        };
        let (dtype, values, ends) = detached(py, || Ok(work()))?.map_err(|error| request.place(py, &error))?;
        Ok((dtype, values.into_array(py), PyArray1::from_vec(py, ends)))
    }
}
