//! Many rollouts' columns into one buffer: the caller's, or a new one.

use std::marker::PhantomData;

use half::{bf16, f16};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadwriteArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rollstore::{DType, Element, Error, Result, RolloutStore};

use crate::arrays::{Ids, counts, dtype_of};
use crate::buffers::{Grown, IntoEnds, IntoGiven, IntoGrown};
use crate::request::{AskArgs, Request, widening};
use crate::store::Store;
use crate::values::{IntoArray, Target};

/// Lengths of rows.
type Lens<'py> = Bound<'py, PyArray1<i64>>;

/// Type, values, length of a row, lengths of the rows.
type PaddedArrays<'py> = (&'static str, Bound<'py, PyAny>, usize, Lens<'py>);

/// Type, values, offsets.
type FlatArrays<'py> = (&'static str, Bound<'py, PyAny>, Bound<'py, PyArray1<u64>>);

/// Values of one type, owned, until the interpreter lock is held again.
type Values = Box<dyn IntoArray + Send>;

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
    let mut flat = IntoEnds::<T, O>::default();
    request.gather(store, &mut flat)?;
    Ok((O::boxed(flat.values), flat.ends))
}

impl Store {
    /// Fills rows of `row_len` values of this type.
    fn fill<'py>(
        &self,
        py: Python<'py>,
        request: &Request,
        out: &mut [u8],
        (wanted, row_len): (DType, usize),
        pad: (f64, bool),
    ) -> PyResult<Lens<'py>> {
        let store = self.store();
        let lens = request.run(py, || {
            let found = request.dtype(store)?;
            widening!(request, found, wanted, into_given(store, request, out, row_len, pad))
        })?;
        Ok(counts(py, lens.into_iter()))
    }

    /// Fills an array that is contiguous and of the right size; `None` for any other.
    fn fill_array<'py, O: Target + numpy::Element>(
        &self,
        py: Python<'py>,
        ids: &Ids<'py>,
        ask: AskArgs,
        out: &Bound<'py, PyArray2<O>>,
        pad: (f64, bool),
    ) -> PyResult<Option<Lens<'py>>> {
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
        self.fill(py, &request, bytemuck::cast_slice_mut(values), (O::DTYPE, row_len), pad).map(Some)
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
    ) -> PyResult<Lens<'py>> {
        let (request, (dtype, row_len)) = (Request::new(py, &ids, ask)?, shape);
        let wanted = request.run(py, || dtype_of(&dtype))?;
        self.fill(py, &request, out.as_slice_mut()?, (wanted, row_len), pad)
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
    ) -> PyResult<Option<Lens<'py>>> {
        if let Ok(out) = out.cast::<PyArray2<f32>>() {
            return self.fill_array(py, &ids, ask, out, pad);
        }
        if let Ok(out) = out.cast::<PyArray2<i64>>() {
            return self.fill_array(py, &ids, ask, out, pad);
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
        let (store, request) = (self.store(), Request::new(py, &ids, ask)?);
        let (found, (values, row_len, lens)) = request.run(py, || {
            let found = request.dtype(store)?;
            Ok((found, widening!(request, found, found, into_grown(store, &request, pad))?))
        })?;
        Ok((found.name(), values.into_array(py), row_len, counts(py, lens.into_iter())))
    }

    /// All rows behind each other, and where each begins.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn gather_flat<'py>(&self, py: Python<'py>, ids: Ids<'py>, ask: AskArgs) -> PyResult<FlatArrays<'py>> {
        let (store, request) = (self.store(), Request::new(py, &ids, ask)?);
        let (found, (values, ends)) = request.run(py, || {
            let found = request.dtype(store)?;
            Ok((found, widening!(request, found, found, into_flat(store, &request))?))
        })?;
        Ok((found.name(), values.into_array(py), PyArray1::from_vec(py, ends)))
    }
}
