//! The column directory: 16 bytes for each array of a frame.
//!
//! May touch `fault`, `frame` (alignment), limits.

use std::ops::Range;

use rkyv::{Archive, Deserialize, Serialize};

use crate::format::fault::{Fault, ensure};
use crate::format::frame::FRAME_ALIGN;
use crate::limits::COLUMN_VALUES_MAX;

/// Where one array of a frame lies, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub(crate) struct ColumnMeta {
    /// Which column: a number of the descriptor's schema.
    pub(crate) column: u16,
    /// The element type's number.
    pub(crate) dtype: u8,
    /// 0 for none, else one more than the index of the provenance.
    pub(crate) provenance: u8,
    /// Offset in the frame's body, in 64-byte units.
    pub(crate) offset_units: u32,
    /// Number of values.
    pub(crate) len: u32,
    /// CRC-32 of the array's exact bytes.
    pub(crate) crc: u32,
}

const _: () = assert!(size_of::<ArchivedColumnMeta>() == 16, "the layout has no gaps");

impl ColumnMeta {
    /// Reads one entry as it lies in an archive.
    pub(super) fn of_bytes(bytes: &[u8; size_of::<ArchivedColumnMeta>()]) -> Self {
        let [c0, c1, dtype, provenance, o0, o1, o2, o3, l0, l1, l2, l3, crc @ ..] = *bytes;
        Self {
            column: u16::from_le_bytes([c0, c1]),
            dtype,
            provenance,
            offset_units: u32::from_le_bytes([o0, o1, o2, o3]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            crc: u32::from_le_bytes(crc),
        }
    }

    /// The array's bytes within the body, for values of this size; `None` beyond what 64 bits count.
    pub(super) fn range(&self, value_bytes: u64) -> Option<Range<u64>> {
        let start = u64::from(self.offset_units).checked_mul(FRAME_ALIGN)?;
        let len = u64::from(self.len).checked_mul(value_bytes)?;
        Some(start..start.checked_add(len)?)
    }
}

impl ArchivedColumnMeta {
    pub(super) fn to_native(&self) -> ColumnMeta {
        ColumnMeta {
            column: self.column.to_native(),
            dtype: self.dtype,
            provenance: self.provenance,
            offset_units: self.offset_units.to_native(),
            len: self.len.to_native(),
            crc: self.crc.to_native(),
        }
    }
}

/// Checks that the arrays ascend by column and by place, lie apart, and end within the body. `value_bytes` gives the
/// size of a column's values, or `None` where the column or its type is unknown.
pub(super) fn check_columns(
    columns: &[ArchivedColumnMeta],
    body_len: u64,
    value_bytes: impl Fn(&ArchivedColumnMeta) -> Option<u64>,
) -> Result<(), Fault> {
    let mut column_min = 0_u32;
    let mut start_min = 0_u64;
    for column in columns {
        let number = column.column.to_native();
        ensure(u32::from(number) >= column_min, "column order", 0, format_args!("at least {column_min}"), number)?;
        column_min = u32::from(number).saturating_add(1);

        let len = u64::from(column.len.to_native());
        ensure(len <= COLUMN_VALUES_MAX, "column length", 0, format_args!("at most {COLUMN_VALUES_MAX}"), len)?;
        let range = value_bytes(column).and_then(|bytes| column.to_native().range(bytes));
        let Some(range) = range else {
            let found = format_args!("column {number} of type {}", column.dtype);
            return Err(Fault::damaged("column type", 0, "a column and type of the schema", found));
        };
        let fits = range.start >= start_min && range.end <= body_len;
        let expected = format_args!("bytes within {start_min}..{body_len}");
        let found = format_args!("column {number} at {}..{}", range.start, range.end);
        ensure(fits, "column place", 0, expected, found)?;
        start_min = range.end;
    }
    Ok(())
}
