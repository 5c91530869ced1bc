//! One rollout frame, read in place: header, descriptor, columns.
//!
//! The descriptor is checked as a whole on first touch, each column by itself: reading log-probs touches no byte of a
//! column beside them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::disk::aligned::AlignedBuf;
use crate::disk::private::Private;
use crate::error::Result;
use crate::format::dtype::DType;
use crate::format::frame::{FrameBrief, FrameHeader, HEADER_BYTES, body_start};
use crate::format::meta::{ArchivedRolloutMeta, ColumnCode, ColumnRef, directory, rollout_meta};
use crate::ids::{Location, Lsn, RolloutId};
use crate::log::segment::{Bytes, Segment};
use crate::planted::{Bug, planted};

/// A rollout frame whose header and descriptor were checked.
#[derive(Debug)]
pub(crate) struct Frame {
    segment: Arc<Segment>,
    offset: u64,
    brief: FrameBrief,
    /// What was copied, where the segment is not mapped.
    copied: Option<Box<Copied>>,
}

/// A descriptor, and columns by their place in it.
#[derive(Debug)]
struct Copied {
    meta: AlignedBuf,
    columns: Box<[OnceLock<AlignedBuf>]>,
}

/// The bytes of one column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawColumn<'a> {
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a [u8],
}

impl Frame {
    /// Opens the frame at `location`, which must be frame `lsn` of rollout `id`. What this process checked before is not
    /// checked again.
    #[inline]
    pub(crate) fn open(segment: Arc<Segment>, location: Location, id: RolloutId, lsn: Lsn) -> Result<Self> {
        let offset = location.offset_bytes();
        if let Some(brief) = checked_before(&segment, offset)
            && (brief.rollout, brief.lsn) == (id, lsn)
        {
            return Ok(Self { segment, offset, brief, copied: None });
        }
        Self::open_checking(segment, offset, id, lsn)
    }

    #[cold]
    fn open_checking(segment: Arc<Segment>, offset: u64, id: RolloutId, lsn: Lsn) -> Result<Self> {
        let header_end = offset.saturating_add(HEADER_BYTES as u64);
        segment.populate_once(offset, offset..header_end)?;
        let header = FrameHeader::decode(&segment.bytes(offset..header_end)?, &segment.seed(offset))
            .map_err(|fault| segment.fault(offset, fault))?;
        if (header.rollout, header.lsn) != (id, lsn) && !planted(Bug::AnyFrame) {
            let expected = format!("frame {lsn} of rollout {id}");
            let found = format!("frame {} of rollout {}", header.lsn, header.rollout);
            return Err(segment.damage(offset, expected, found));
        }
        let meta_range = meta_range(offset, header.meta_len);
        let meta_start = meta_range.start;
        let meta = segment.bytes(meta_range.clone())?;
        segment.verify_once(offset, meta_range, || {
            let found = crc32fast::hash(&meta);
            if found != header.meta_crc {
                let expected = format!("descriptor checksum {:#010x}", header.meta_crc);
                return Err(segment.damage(meta_start, expected, format!("{found:#010x}")));
            }
            rollout_meta(&meta, header.body_len).map_err(|fault| segment.fault(meta_start, fault)).map(drop)
        })?;
        let copied = match meta {
            Bytes::Mapped(_) => None,
            Bytes::Copied(meta) => {
                let columns = (0..directory::len(&meta)).map(|_| OnceLock::new()).collect();
                Some(Box::new(Copied { meta, columns }))
            }
        };
        Ok(Self { segment, offset, brief: header.brief(), copied })
    }

    /// Refuses a frame whose log-probs are of another version than the one they are to be served under.
    pub(crate) fn check_version(&self, version: u64) -> Result<()> {
        if self.brief.ref_version == version {
            return Ok(());
        }
        let (expected, found) = (format!("log-probs of version {version}"), self.brief.ref_version);
        Err(self.segment.damage(self.offset, expected, format!("version {found}")).of(self.brief.rollout))
    }

    /// The descriptor, read in place.
    pub(crate) fn meta(&self) -> Result<&ArchivedRolloutMeta> {
        let meta_offset = self.offset.saturating_add(HEADER_BYTES as u64);
        rollout_meta(self.meta_bytes(), self.brief.body_len).map_err(|fault| self.segment.fault(meta_offset, fault))
    }

    /// The array of a column, by the descriptor's directory alone.
    pub(crate) fn column(&self, code: ColumnCode) -> Option<ColumnRef> {
        directory::find(self.meta_bytes(), code).map(|(_, column)| column)
    }

    /// A private map of bytes that this frame's segment lent; `None` where it cannot be had.
    pub(crate) fn private(&self, lent: &[u8]) -> Option<Private> {
        self.segment.private(lent)
    }

    fn meta_bytes(&self) -> &[u8] {
        match &self.copied {
            Some(copied) => &copied.meta,
            None => self.segment.mapped(meta_range(self.offset, self.brief.meta_len)).unwrap_or_default(),
        }
    }

    /// The bytes of a column of this frame's descriptor.
    pub(crate) fn read(&self, column: &ColumnRef) -> Result<RawColumn<'_>> {
        let range = column_range(self.offset, self.brief.meta_len, column);
        let start = range.start;
        let bytes = match self.segment.mapped(range.clone()) {
            Some(bytes) => bytes,
            None => self.copy(column, range.clone())?,
        };
        if !bytes.is_empty() {
            self.segment.verify_once(start, range, || {
                let found = crc32fast::hash(bytes);
                if found == column.crc || planted(Bug::NoColumnCrc) {
                    return Ok(());
                }
                let expected = format!(
                    "checksum {:#010x} over {} bytes of rollout {}",
                    column.crc,
                    bytes.len(),
                    self.brief.rollout
                );
                Err(self.segment.damage(start, expected, format!("{found:#010x}")).of(self.brief.rollout))
            })?;
        }
        Ok(RawColumn { dtype: column.dtype, bytes })
    }

    fn copy(&self, column: &ColumnRef, range: Range<u64>) -> Result<&[u8]> {
        let beyond = || self.segment.damage(range.start, "a column of the descriptor", "none");
        let place = directory::find(self.meta_bytes(), column.code).map(|(place, _)| place);
        let slot = self.copied.as_ref().zip(place).and_then(|(copied, place)| copied.columns.get(place));
        let slot = slot.ok_or_else(beyond)?;
        if slot.get().is_none()
            && let Bytes::Copied(buffer) = self.segment.bytes(range.clone())?
        {
            // Another thread may have been faster; its copy is the same.
            let _ = slot.set(buffer);
        }
        slot.get().map(|buffer| &**buffer).ok_or_else(beyond)
    }
}

/// A column of frame `lsn` of rollout `id`, if this process checked both before and they are mapped: what a gather of many
/// rows reads without opening each. Of old log-probs the version must be this one.
pub(crate) fn checked_column(
    segment: &Segment,
    at: Location,
    (id, lsn): (RolloutId, Lsn),
    code: ColumnCode,
    version: Option<u64>,
) -> Option<RawColumn<'_>> {
    let offset = at.offset_bytes();
    let brief = checked_before(segment, offset)?;
    let is_asked_for =
        (brief.rollout, brief.lsn) == (id, lsn) && version.is_none_or(|asked| brief.ref_version == asked);
    let meta = segment.mapped(meta_range(offset, brief.meta_len)).filter(|_| is_asked_for)?;
    let (_, column) = directory::find(meta, code)?;
    let range = column_range(offset, brief.meta_len, &column);
    let bytes = segment.mapped(range.clone()).filter(|_| segment.is_verified(range.start))?;
    Some(RawColumn { dtype: column.dtype, bytes })
}

/// The header of a mapped frame that this process checked before.
fn checked_before(segment: &Segment, offset: u64) -> Option<FrameBrief> {
    let header = offset..offset.saturating_add(HEADER_BYTES as u64);
    FrameBrief::of_checked(segment.mapped(header).filter(|_| segment.is_verified(offset))?)
}

/// Where a column of the frame at `offset` lies in the segment.
fn column_range(offset: u64, meta_len: u32, column: &ColumnRef) -> Range<u64> {
    let arrays = offset.saturating_add(body_start(meta_len));
    arrays.saturating_add(column.range.start)..arrays.saturating_add(column.range.end)
}

fn meta_range(offset: u64, meta_len: u32) -> Range<u64> {
    let start = offset.saturating_add(HEADER_BYTES as u64);
    start..start.saturating_add(u64::from(meta_len))
}
