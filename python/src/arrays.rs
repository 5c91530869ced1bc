//! Arrays on their way in and out: bytes with a type's name beside them.
//!
//! Always true:
//! - N1. Arrays that come in are contiguous, and the Python half keeps no other hold on them.

use std::borrow::Cow;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use rollstore::{ColumnValues, DType, Element, Error, Result, RolloutId};

/// Ids as they come.
pub(crate) type Ids<'py> = PyReadonlyArray1<'py, u64>;

/// The ids of an array.
pub(crate) fn rollout_ids(ids: &Ids<'_>) -> PyResult<Vec<RolloutId>> {
    Ok(ids.as_slice()?.iter().copied().map(RolloutId::new).collect())
}

/// Ids as an array.
pub(crate) fn id_array(py: Python<'_>, ids: impl Iterator<Item = RolloutId>) -> Bound<'_, PyArray1<u64>> {
    PyArray1::from_vec(py, ids.map(RolloutId::get).collect())
}

/// Numbers that are places or lengths, as `NumPy` counts: signed, 64 bits.
pub(crate) fn counts(py: Python<'_>, counts: impl Iterator<Item = usize>) -> Bound<'_, PyArray1<i64>> {
    PyArray1::from_vec(py, counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect())
}

/// The type of this name.
pub(crate) fn dtype_of(name: &str) -> Result<DType> {
    const ALL: [DType; 7] = [DType::F32, DType::F16, DType::Bf16, DType::I32, DType::I64, DType::U32, DType::U8];
    let known = ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| Error::invalid(format!("there is no column type {name:?}")))
}

/// The rows of one column: their values behind each other, and where each begins.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a [u8],
    /// One more than there are rows, in values.
    pub(crate) offsets: &'a [i64],
    /// Which rows have values at all; all of them where it is not given.
    pub(crate) present: Option<&'a [bool]>,
}

impl<'a> Rows<'a> {
    /// Whether the row has values.
    pub(crate) fn is_present(&self, row: usize) -> bool {
        self.present.is_none_or(|present| present.get(row) == Some(&true))
    }

    /// The bytes of one row; `None` where it has no values.
    fn row_bytes(&self, row: usize) -> Result<Option<&'a [u8]>> {
        if !self.is_present(row) {
            return Ok(None);
        }
        let at = |place: usize| {
            let values = usize::try_from(*self.offsets.get(place)?).ok()?;
            values.checked_mul(self.dtype.size_bytes())
        };
        let bytes = at(row).zip(at(row + 1)).and_then(|(start, end)| self.bytes.get(start..end));
        bytes.map(Some).ok_or_else(|| Error::invalid(format!("row {row}: offsets do not lie in the values, in order")))
    }

    /// The values of one row as `T`.
    pub(crate) fn row_as<T: Element>(&self, row: usize) -> Result<Option<Cow<'a, [T]>>> {
        Ok(self.row_bytes(row)?.map(cast))
    }

    /// The values of one row.
    pub(crate) fn row(&self, row: usize) -> Result<Option<ColumnValues<'a>>> {
        let Some(bytes) = self.row_bytes(row)? else { return Ok(None) };
        Ok(Some(match self.dtype {
            DType::F32 => ColumnValues::F32(cast(bytes)),
            DType::F16 => ColumnValues::F16(cast(bytes)),
            DType::Bf16 => ColumnValues::Bf16(cast(bytes)),
            DType::I32 => ColumnValues::I32(cast(bytes)),
            DType::I64 => ColumnValues::I64(cast(bytes)),
            DType::U32 => ColumnValues::U32(cast(bytes)),
            DType::U8 => ColumnValues::U8(cast(bytes)),
            other => return Err(Error::invalid(format!("columns of {other} cannot come from Python"))),
        }))
    }
}

/// Bytes as values; copied where they do not lie as such values must.
fn cast<T: Element>(bytes: &[u8]) -> Cow<'_, [T]> {
    bytemuck::try_cast_slice(bytes).map_or_else(|_| Cow::Owned(bytemuck::pod_collect_to_vec(bytes)), Cow::Borrowed)
}
