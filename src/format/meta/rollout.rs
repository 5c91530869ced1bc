//! Schema 1: the descriptor of rollout frames.
//!
//! May touch `archive`, `columns`, `dtype`, `fault`, limits.

use std::ops::Range;

use rkyv::{Archive, Deserialize, Serialize};

use super::columns::{ArchivedColumnMeta, ColumnMeta, check_columns};
use crate::format::archive;
use crate::format::dtype::DType;
use crate::format::fault::{Fault, ensure};
use crate::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, NAMED_COLUMNS_MAX, PROVENANCES_MAX, SPANS_MAX};

/// The descriptor of an Insert or Update frame. Fields without a presence bit are empty or 0 where there is nothing.
#[derive(Debug, Clone, PartialEq, Default, Archive, Serialize, Deserialize)]
pub(crate) struct RolloutMeta {
    pub(crate) created_step: u64,
    pub(crate) group: u64,
    /// Version of the KL reference logps, where the frame has some.
    pub(crate) kl_version: u64,
    /// Bits of this type, such as [`RolloutMeta::GROUP`], for the fields that may be absent.
    pub(crate) present: u32,
    pub(crate) reward: f32,
    pub(crate) advantage: f32,
    /// Ascending by column, in the order of their arrays.
    pub(crate) columns: Vec<ColumnMeta>,
    /// Names of the named columns.
    pub(crate) names: Vec<String>,
    /// The string that the id is the hash of.
    pub(crate) key: String,
    pub(crate) metadata: Vec<u8>,
    /// Policy versions of the sampler, in the order of the tokens.
    pub(crate) spans: Vec<SpanMeta>,
    /// Versions of the old logps, where they are of more than one.
    pub(crate) old_spans: Vec<SpanMeta>,
    pub(crate) provenances: Vec<ProvenanceMeta>,
}

/// So many tokens of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub(crate) struct SpanMeta {
    pub(crate) version: u64,
    pub(crate) token_count: u32,
    /// 0.
    pub(crate) reserved: u32,
}

/// How logps were made.
#[derive(Debug, Clone, PartialEq, Archive, Serialize, Deserialize)]
pub(crate) struct ProvenanceMeta {
    pub(crate) engine: String,
    pub(crate) temperature: f32,
    pub(crate) top_p: f32,
    pub(crate) top_k: u32,
    /// 1 where temperature, top-p and top-k were applied before the log-softmax, else 0.
    pub(crate) processed: u8,
    /// 0.
    pub(crate) reserved: [u8; 3],
}

const _: () = assert!(size_of::<ArchivedRolloutMeta>() == 96, "the root grows with the schema number alone");
const _: () = assert!(size_of::<ArchivedSpanMeta>() == 16, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedProvenanceMeta>() == 24, "the layout has no gaps");

impl RolloutMeta {
    pub(crate) const GROUP: u32 = 1;
    pub(crate) const REWARD: u32 = 1 << 1;
    pub(crate) const ADVANTAGE: u32 = 1 << 2;
    pub(crate) const KEY: u32 = 1 << 3;
    const PRESENT_KNOWN: u32 = 0b1111;
}

/// The number of a column in schema 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ColumnCode(pub(crate) u16);

impl ColumnCode {
    pub(crate) const PROMPT_IDS: Self = Self(1);
    pub(crate) const COMPLETION_IDS: Self = Self(2);
    pub(crate) const LOSS_MASK: Self = Self(3);
    pub(crate) const OLD_LOGPS: Self = Self(4);
    pub(crate) const SAMPLER_LOGPS: Self = Self(5);
    pub(crate) const KL_REF_LOGPS: Self = Self(6);
    /// The bit of named columns; the other bits are an index of the names.
    pub(crate) const NAMED: u16 = 0x8000;

    /// The column of the name with this index; `None` beyond the greatest number of names.
    pub(crate) fn named(index: usize) -> Option<Self> {
        let index = u16::try_from(index).ok().filter(|index| usize::from(*index) < NAMED_COLUMNS_MAX)?;
        Some(Self(index | Self::NAMED))
    }

    /// The index of the name, for a named column.
    pub(crate) fn name_index(self) -> Option<usize> {
        (self.0 & Self::NAMED != 0).then_some(usize::from(self.0 & !Self::NAMED))
    }

    /// Whether schema 1 has the column, in a descriptor of so many names.
    fn is_known(self, names: usize) -> bool {
        match self.name_index() {
            Some(index) => index < names,
            None => (Self::PROMPT_IDS..=Self::KL_REF_LOGPS).contains(&self),
        }
    }
}

/// One array of a frame, checked to lie within the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnRef {
    pub(crate) code: ColumnCode,
    pub(crate) dtype: DType,
    /// Bytes within the frame's body.
    pub(crate) range: Range<u64>,
    /// CRC-32 of those bytes.
    pub(crate) crc: u32,
    /// Index of the provenance.
    pub(crate) provenance: Option<usize>,
}

impl ArchivedRolloutMeta {
    /// Whether the fields of these presence bits are there.
    pub(crate) fn has(&self, present: u32) -> bool {
        self.present.to_native() & present == present
    }

    /// The array of a column.
    pub(crate) fn column(&self, code: ColumnCode) -> Option<ColumnRef> {
        self.columns
            .iter()
            .map(ArchivedColumnMeta::to_native)
            .find(|column| column.column == code.0)
            .and_then(|column| column_ref(&column))
    }

    /// The array of a named column.
    pub(crate) fn named(&self, name: &str) -> Option<ColumnRef> {
        let index = self.names.iter().position(|other| other.as_str() == name)?;
        self.column(ColumnCode::named(index)?)
    }

    /// All arrays, in the order of the body.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ColumnRef> {
        self.columns.iter().filter_map(|column| column_ref(&column.to_native()))
    }

    fn check(&self, body_len: u64) -> Result<(), Fault> {
        let unknown = self.present.to_native() & !RolloutMeta::PRESENT_KNOWN;
        ensure(unknown == 0, "presence bits", 0, "those of schema 1", format_args!("{unknown:#x}"))?;
        at_most("names", self.names.len(), NAMED_COLUMNS_MAX)?;
        at_most("key length", self.key.len(), NAME_BYTES_MAX)?;
        at_most("metadata length", self.metadata.len(), METADATA_BYTES_MAX)?;
        at_most("spans", self.spans.len(), SPANS_MAX)?;
        at_most("old logp spans", self.old_spans.len(), SPANS_MAX)?;
        at_most("provenances", self.provenances.len(), PROVENANCES_MAX)?;
        for name in self.names.iter() {
            at_most("name length", name.len(), NAME_BYTES_MAX)?;
        }
        for provenance in self.provenances.iter() {
            at_most("engine name length", provenance.engine.len(), NAME_BYTES_MAX)?;
            let plain = provenance.processed <= 1 && provenance.reserved == [0; 3];
            ensure(plain, "provenance", 0, "processed 0 or 1", provenance.processed)?;
        }
        let reserved = self.spans.iter().chain(self.old_spans.iter()).any(|span| span.reserved.to_native() != 0);
        ensure(!reserved, "span", 0, "zero in its reserved bytes", "another number")?;
        check_columns(&self.columns, body_len, |column| self.value_bytes(column))
    }

    /// Bytes of one value, where the column, its type and its provenance are those of the schema.
    fn value_bytes(&self, column: &ArchivedColumnMeta) -> Option<u64> {
        let known = ColumnCode(column.column.to_native()).is_known(self.names.len())
            && usize::from(column.provenance) <= self.provenances.len();
        let dtype = DType::from_code(column.dtype).filter(|_| known)?;
        u64::try_from(dtype.size_bytes()).ok()
    }
}

/// The descriptor's bytes.
pub(crate) fn encode_rollout(meta: &RolloutMeta) -> Vec<u8> {
    debug_assert!(meta.columns.is_sorted_by(|a, b| a.column < b.column), "columns ascend");
    archive::append(meta, Vec::with_capacity(256)).expect("a descriptor within its limits is far below 2 GiB")
}

/// Reads the descriptor of a rollout frame with `body_len` bytes of arrays. The caller has compared the checksum, and
/// the bytes start at an address that is a multiple of 8.
pub(crate) fn rollout_meta(bytes: &[u8], body_len: u64) -> Result<&ArchivedRolloutMeta, Fault> {
    let meta = archive::read::<ArchivedRolloutMeta>("rollout descriptor", bytes)?;
    meta.check(body_len)?;
    Ok(meta)
}

/// `None` only for a column that no check has passed.
pub(super) fn column_ref(column: &ColumnMeta) -> Option<ColumnRef> {
    let dtype = DType::from_code(column.dtype)?;
    Some(ColumnRef {
        code: ColumnCode(column.column),
        dtype,
        range: column.range(u64::try_from(dtype.size_bytes()).ok()?)?,
        crc: column.crc,
        provenance: usize::from(column.provenance).checked_sub(1),
    })
}

fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), Fault> {
    ensure(count <= max, what, 0, format_args!("at most {max}"), count)
}
