//! One rollout, and its columns as arrays that lie in the store's map.
//!
//! The one file of this package that holds unsafe code.
//!
//! Always true:
//! - V1. An array's base is the rollout's view, which keeps the bytes where they are for as long as the array lives.
//! - V2. An array is not writeable, and `NumPy` cannot make it so: its base is no buffer.
//! - V3. What may be written to is memory of its own: a private map or a copy, which nobody else sees.

#![expect(
    unsafe_code,
    reason = "an array over borrowed memory is made through NumPy's C interface; each block proves itself"
)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use numpy::ndarray::ArrayView1;
use numpy::npyffi::{PY_ARRAY_API, npy_intp};
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use rollstore::{Column, ColumnView, DType, Writable};

use crate::call::{asked, detached};
use crate::names;

/// A rollout as of the call that returned it.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
pub(crate) struct Rollout {
    rollout: Arc<rollstore::Rollout>,
}

impl From<Arc<rollstore::Rollout>> for Rollout {
    fn from(rollout: Arc<rollstore::Rollout>) -> Self {
        Self { rollout }
    }
}

/// Name, type, length and version of a column.
type Described = (String, &'static str, usize, Option<u64>);

#[pymethods]
impl Rollout {
    #[getter]
    fn id(&self) -> u64 {
        self.rollout.id().get()
    }

    #[getter]
    fn created_step(&self) -> u64 {
        self.rollout.created_step()
    }

    #[getter]
    fn born_step(&self) -> u64 {
        self.rollout.born_step()
    }

    #[getter]
    fn ref_version(&self) -> u64 {
        self.rollout.ref_version()
    }

    #[getter]
    fn token_count(&self) -> u32 {
        self.rollout.token_count()
    }

    #[getter]
    fn group_id(&self) -> Option<u64> {
        self.rollout.group()
    }

    #[getter]
    fn reward(&self) -> Option<f32> {
        self.rollout.reward()
    }

    #[getter]
    fn advantage(&self) -> Option<f32> {
        self.rollout.advantage()
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.rollout.key()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.rollout.metadata())
    }

    #[getter]
    fn version_spans(&self) -> Vec<(u64, u32)> {
        self.rollout.version_spans()
    }

    fn columns(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        let infos = asked(py, || self.rollout.columns())?;
        let info =
            |info: rollstore::ColumnInfo| (info.column.name().to_owned(), info.dtype.name(), info.len, info.version);
        Ok(infos.into_iter().map(info).collect())
    }

    /// Engine, kind, temperature, top-p and top-k of a column, where they were given.
    fn provenance(&self, column: &str) -> Option<(String, bool, f32, f32, u32)> {
        self.rollout.provenance(&names::column(column)).map(|made| {
            let processed = made.kind == rollstore::LogpKind::Processed;
            (made.engine, processed, made.temperature, made.top_p, made.top_k)
        })
    }

    fn __contains__(&self, column: &str) -> bool {
        self.rollout.has(&names::column(column))
    }

    fn is_fresh(&self, step: u64) -> bool {
        self.rollout.staleness(step).is_fresh()
    }

    #[getter]
    fn prompt_ids<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::PromptIds)
    }

    #[getter]
    fn completion_ids<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::CompletionIds)
    }

    #[getter]
    fn loss_mask<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::LossMask)
    }

    #[getter]
    fn old_logps<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::OldLogps)
    }

    #[getter]
    fn sampler_logps<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::SamplerLogps)
    }

    #[getter]
    fn kl_ref_logps<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &Column::KlRefLogps)
    }

    #[getter]
    fn behaviour_logps<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let rollout = &slf.get().rollout;
        let values = detached(slf.py(), || rollout.behaviour_logps())?;
        over(slf, ColumnView::F32(values))
    }

    /// Bytes of one of this rollout's arrays in memory of their own, to be written to: mapped once more, privately, where that
    /// is cheaper than a copy.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn writable<'py>(&self, py: Python<'py>, lent: PyReadonlyArray1<'py, u8>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let lent = lent.as_slice()?;
        over_own(py, asked(py, || self.rollout.writable(lent))?)
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        array(slf, &names::column(name))
    }
}

/// Memory that an array may write to, and nobody else looks into.
#[pyclass(frozen, module = "rollstore._rollstore")]
#[derive(Debug)]
struct Own {
    _bytes: Writable<u8>,
}

/// An array over memory of its own.
fn over_own(py: Python<'_>, mut bytes: Writable<u8>) -> PyResult<Bound<'_, PyArray1<u8>>> {
    let (first, len) = (bytes.as_mut_ptr(), bytes.len());
    let base = Bound::new(py, Own { _bytes: bytes })?;
    // SAFETY: `len` bytes lie at `first`, in a map or on the heap, where they stay though their owner was moved; the owner is
    // not looked into any more, so that the array alone reads and writes them.
    let values = unsafe { ArrayView1::from_shape_ptr(len, first) };
    // SAFETY: the base keeps the bytes for as long as the array lives (V3).
    Ok(unsafe { PyArray1::borrow_from_array(&values, base.into_any()) })
}

fn array<'py>(rollout: &Bound<'py, Rollout>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    let view = rollout.get();
    over(rollout, detached(rollout.py(), || view.rollout.values(column))?)
}

/// An array over values that `rollout` holds.
fn over<'py>(rollout: &Bound<'py, Rollout>, values: ColumnView<'_>) -> PyResult<Bound<'py, PyAny>> {
    static VIEW: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = rollout.py();
    let class = VIEW.import(py, "rollstore._arrays", "View")?;
    let dtype = descriptor(py, values.dtype())?;
    let mut len = npy_intp::try_from(values.len())?;
    let bytes = values.as_bytes();
    // SAFETY: the class is a subclass of NumPy's array (its module says so); the descriptor's reference is given away, as
    // NumPy wants it; one dimension of `len` values lies at the pointer, which `ColumnView` casts its bytes to only where they
    // are aligned; without flags the array is read-only, so that NumPy never writes through the pointer; the base set
    // below keeps the bytes alive (V1).
    let array = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class.as_ptr().cast(),
            dtype.clone().into_dtype_ptr(),
            1,
            &raw mut len,
            std::ptr::null_mut(),
            bytes.as_ptr().cast_mut().cast::<c_void>(),
            NOT_WRITEABLE,
            std::ptr::null_mut(),
        )
    };
    // SAFETY: what NumPy returned is a new reference of our own, or null with an exception set.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, array) }?;
    // SAFETY: the array was made just now and has no base yet; the rollout's reference is given away, as NumPy wants it.
    let done = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), rollout.clone().into_ptr()) };
    if done == 0 { Ok(array) } else { Err(PyErr::fetch(py)) }
}

/// No flag of `NumPy`'s at all: what it finds out itself (contiguous, aligned) is set by it, writeable is not.
const NOT_WRITEABLE: c_int = 0;

/// `NumPy`'s type. That of bfloat16 is `ml_dtypes`', where it is installed, and else 16 bits without a meaning.
fn descriptor(py: Python<'_>, dtype: DType) -> PyResult<&Bound<'_, PyArrayDescr>> {
    static DTYPES: [PyOnceLock<Py<PyArrayDescr>>; 8] = [const { PyOnceLock::new() }; 8];
    let at = DTYPES.get(dtype as usize).unwrap_or(&DTYPES[0]);
    let find = || -> PyResult<_> {
        let found = match dtype {
            DType::Bf16 => py.import("rollstore._arrays")?.getattr("bfloat16")?,
            other => other.name().into_pyobject(py)?.into_any(),
        };
        Ok(PyArrayDescr::new(py, found)?.unbind())
    };
    Ok(at.get_or_try_init(py, find)?.bind(py))
}
