//! Schema 2: the descriptor of every frame that belongs to the store as a whole.
//!
//! May touch `archive`, `columns`, `counters`, `fault`, limits.

use std::ops::Range;

use rkyv::{Archive, Deserialize, Serialize};

use super::columns::{ArchivedColumnMeta, ColumnMeta, check_columns};
use crate::format::archive;
use crate::format::counters::Counters;
use crate::format::fault::{Fault, ensure};
use crate::limits::NAME_BYTES_MAX;

/// The descriptor of a control frame. What each kind fills is listed in the format's document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Archive, Serialize, Deserialize)]
pub(crate) struct ControlMeta {
    pub(crate) step: u64,
    pub(crate) version: u64,
    pub(crate) label: u64,
    /// Of the incarnations that this frame retires, those that nobody had asked for.
    pub(crate) unused_count: u64,
    /// How many incarnations a retire line ended.
    pub(crate) retired_count: u64,
    /// No id at or above this one was handed out yet.
    pub(crate) id_ceiling: u64,
    /// Bits of this type, such as [`ControlMeta::STEP`], for the fields that may be absent.
    pub(crate) present: u32,
    /// The reason's number.
    pub(crate) reason: u16,
    /// 1 for the versions of `π_old`, 2 for those of the KL reference.
    pub(crate) clock: u8,
    /// 0.
    pub(crate) reserved: u8,
    pub(crate) name: String,
    /// Ascending by column, in the order of their arrays.
    pub(crate) columns: Vec<ColumnMeta>,
    /// In the order of [`Counters::to_values`].
    pub(crate) counters: Vec<u64>,
}

const _: () = assert!(size_of::<ArchivedControlMeta>() == 80, "the root grows with the schema number alone");

impl ControlMeta {
    pub(crate) const STEP: u32 = 1;
    pub(crate) const VERSION: u32 = 1 << 1;
    pub(crate) const LABEL: u32 = 1 << 2;
    pub(crate) const REASON: u32 = 1 << 3;
    pub(crate) const ID_CEILING: u32 = 1 << 4;
    pub(crate) const COUNTERS: u32 = 1 << 5;
    const PRESENT_KNOWN: u32 = 0b11_1111;

    /// Versions of `π_old`.
    pub(crate) const CLOCK_REF: u8 = 1;
    /// Versions of the KL reference.
    pub(crate) const CLOCK_KL_REF: u8 = 2;
}

/// An array of a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlColumn {
    /// Ids of the incarnations that the frame retires, u64.
    RetiredIds,
    /// Their insert LSNs in the same order, u64.
    Incarnations,
    /// Ids that were asked for, u64.
    UsedIds,
    /// The opaque cursor, bytes.
    Cursor,
    /// How far a sweep has come, u64.
    SweepProgress,
}

impl ControlColumn {
    /// The element type's number for u64, which control frames alone use.
    pub(crate) const DTYPE_U64: u8 = 8;
    /// The element type's number for bytes.
    pub(crate) const DTYPE_U8: u8 = 7;

    /// The number on disk.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::RetiredIds => 16,
            Self::Incarnations => 17,
            Self::UsedIds => 18,
            Self::Cursor => 19,
            Self::SweepProgress => 20,
        }
    }

    /// The number of the column's one element type.
    pub(crate) const fn dtype_code(self) -> u8 {
        match self {
            Self::RetiredIds | Self::Incarnations | Self::UsedIds | Self::SweepProgress => Self::DTYPE_U64,
            Self::Cursor => Self::DTYPE_U8,
        }
    }

    const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            16 => Self::RetiredIds,
            17 => Self::Incarnations,
            18 => Self::UsedIds,
            19 => Self::Cursor,
            20 => Self::SweepProgress,
            _ => return None,
        })
    }

    const fn value_bytes(self) -> u64 {
        match self {
            Self::RetiredIds | Self::Incarnations | Self::UsedIds | Self::SweepProgress => 8,
            Self::Cursor => 1,
        }
    }
}

/// One array of a control frame, checked to lie within the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlRef {
    /// Bytes within the frame's body.
    pub(crate) range: Range<u64>,
    /// CRC-32 of those bytes.
    pub(crate) crc: u32,
}

impl ArchivedControlMeta {
    /// Whether the fields of these presence bits are there.
    pub(crate) fn has(&self, present: u32) -> bool {
        self.present.to_native() & present == present
    }

    /// The array of a column.
    pub(crate) fn column(&self, column: ControlColumn) -> Option<ControlRef> {
        let meta = self.columns.iter().find(|meta| meta.column.to_native() == column.code())?;
        Some(ControlRef { range: meta.to_native().range(column.value_bytes())?, crc: meta.crc.to_native() })
    }

    /// All arrays, in the order of the body.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = ControlRef> {
        self.columns.iter().filter_map(|meta| {
            let column = ControlColumn::from_code(meta.column.to_native())?;
            Some(ControlRef { range: meta.to_native().range(column.value_bytes())?, crc: meta.crc.to_native() })
        })
    }

    /// The counters, where the frame carries them.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let values = self.counters.iter().map(|value| value.to_native());
        Counters::from_values(values).filter(|_| self.has(ControlMeta::COUNTERS))
    }

    fn check(&self, body_len: u64) -> Result<(), Fault> {
        let unknown = self.present.to_native() & !ControlMeta::PRESENT_KNOWN;
        ensure(unknown == 0, "presence bits", 0, "those of schema 2", format_args!("{unknown:#x}"))?;
        ensure(self.reserved == 0, "control descriptor", 0, "zero in its reserved byte", self.reserved)?;
        ensure(self.clock <= ControlMeta::CLOCK_KL_REF, "version clock", 0, "1 or 2", self.clock)?;
        let name_fits = self.name.len() <= NAME_BYTES_MAX;
        ensure(name_fits, "name length", 0, format_args!("at most {NAME_BYTES_MAX}"), self.name.len())?;
        let counters = !self.has(ControlMeta::COUNTERS) || self.counters().is_some();
        ensure(counters, "counters", 0, "all of them", self.counters.len())?;
        check_columns(&self.columns, body_len, value_bytes)?;
        let values =
            |column: ControlColumn| self.column(column).map(|array| array.range.end.abs_diff(array.range.start));
        let (ids, incarnations) = (values(ControlColumn::RetiredIds), values(ControlColumn::Incarnations));
        let (expected, found) = (format_args!("{ids:?} bytes"), format_args!("{incarnations:?} bytes"));
        ensure(ids == incarnations, "incarnations of retired ids", 0, expected, found)
    }
}

/// The descriptor's bytes.
pub(crate) fn encode_control(meta: &ControlMeta) -> Vec<u8> {
    debug_assert!(meta.columns.is_sorted_by(|a, b| a.column < b.column), "columns ascend");
    archive::append(meta, Vec::with_capacity(256)).expect("a descriptor within its limits is far below 2 GiB")
}

/// Reads the descriptor of a control frame with `body_len` bytes of arrays. The caller has compared the checksum, and
/// the bytes start at an address that is a multiple of 8.
pub(crate) fn control_meta(bytes: &[u8], body_len: u64) -> Result<&ArchivedControlMeta, Fault> {
    let meta = archive::read::<ArchivedControlMeta>("control descriptor", bytes)?;
    meta.check(body_len)?;
    Ok(meta)
}

fn value_bytes(column: &ArchivedColumnMeta) -> Option<u64> {
    let known = ControlColumn::from_code(column.column.to_native())?;
    (column.dtype == known.dtype_code() && column.provenance == 0).then_some(known.value_bytes())
}
