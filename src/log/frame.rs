//! One rollout frame, read in place: header, descriptor, columns.
//!
//! The descriptor is checked as a whole on first touch, each column by itself: reading log-probs touches no byte of a
//! column beside them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::disk::aligned::AlignedBuf;
use crate::error::Result;
use crate::format::dtype::DType;
use crate::format::frame::{FrameHeader, HEADER_BYTES};
use crate::format::meta::{ArchivedRolloutMeta, ColumnCode, ColumnRef, rollout_meta};
use crate::ids::{Location, Lsn, RolloutId};
use crate::log::places::Wanted;
use crate::log::segment::{Bytes, Segment};
use crate::planted::{Bug, planted};

/// A rollout frame.
#[derive(Debug)]
pub(crate) struct Frame {
    segment: Arc<Segment>,
    offset: u64,
    pub(crate) header: FrameHeader,
    meta: Bytes,
    /// Columns that were copied, by their place in the descriptor; empty where the segment is mapped.
    copies: Box<[OnceLock<AlignedBuf>]>,
}

/// The bytes of one column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawColumn<'a> {
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a [u8],
}

impl Frame {
    /// Opens the frame at `location`, which must be frame `lsn` of rollout `id`.
    pub(crate) fn open(segment: &Arc<Segment>, location: Location, id: RolloutId, lsn: Lsn) -> Result<Self> {
        let offset = location.offset_bytes();
        let header_end = offset.saturating_add(HEADER_BYTES as u64);
        let header = segment.bytes(offset..header_end)?;
        segment.populate_once(offset, offset..header_end)?;
        let header =
            FrameHeader::decode(&header, &segment.seed(offset)).map_err(|fault| segment.fault(offset, fault))?;
        if (header.rollout != id || header.lsn != lsn) && !planted(Bug::AnyFrame) {
            let expected = format!("frame {lsn} of rollout {id}");
            return Err(segment.damage(
                offset,
                expected,
                format!("frame {} of rollout {}", header.lsn, header.rollout),
            ));
        }
        let meta_start = header_end.saturating_add(header.body_len);
        let meta_range = meta_start..meta_start.saturating_add(u64::from(header.meta_len));
        let meta = segment.bytes(meta_range.clone())?;
        segment.verify_once(offset, meta_range, || {
            let found = crc32fast::hash(&meta);
            if found == header.meta_crc {
                return Ok(());
            }
            Err(segment.damage(
                meta_start,
                format!("descriptor checksum {:#010x}", header.meta_crc),
                format!("{found:#010x}"),
            ))
        })?;
        let mut frame = Self { segment: Arc::clone(segment), offset, header, meta, copies: Box::default() };
        if segment.copies() {
            let columns = frame.meta()?.columns().count();
            frame.copies = (0..columns).map(|_| OnceLock::new()).collect();
        }
        Ok(frame)
    }

    /// Refuses a frame whose log-probs are of another version than the one they are to be served under.
    pub(crate) fn check_version(&self, version: u64) -> Result<()> {
        if self.header.ref_version == version {
            return Ok(());
        }
        let (expected, found) = (format!("log-probs of version {version}"), self.header.ref_version);
        Err(self.segment.damage(self.offset, expected, format!("version {found}")).of(self.header.rollout))
    }

    /// The descriptor, read in place.
    pub(crate) fn meta(&self) -> Result<&ArchivedRolloutMeta> {
        let meta_offset = self.arrays_offset().saturating_add(self.header.body_len);
        rollout_meta(&self.meta, self.header.body_len).map_err(|fault| self.segment.fault(meta_offset, fault))
    }

    fn arrays_offset(&self) -> u64 {
        self.offset.saturating_add(HEADER_BYTES as u64)
    }

    /// The bytes of a column of this frame's descriptor.
    pub(crate) fn read(&self, column: &ColumnRef) -> Result<RawColumn<'_>> {
        let start = self.arrays_offset().saturating_add(column.range.start);
        let range = start..self.arrays_offset().saturating_add(column.range.end);
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
                    self.header.rollout
                );
                Err(self.segment.damage(start, expected, format!("{found:#010x}")).of(self.header.rollout))
            })?;
        }
        Ok(RawColumn { dtype: column.dtype, bytes })
    }

    /// Takes down where a column lies, once it was read.
    pub(crate) fn note_place(&self, column: &ColumnRef) {
        let at = Location::at(self.segment.id, self.offset);
        let start = self.arrays_offset().saturating_add(column.range.start);
        let range = start..self.arrays_offset().saturating_add(column.range.end);
        if let Some(Location { offset_units, .. }) = at {
            let lsn = self.header.lsn;
            let ref_version = (column.code == ColumnCode::OLD_LOGPS).then_some(self.header.ref_version);
            self.segment.note_place(Wanted { offset_units, code: column.code, lsn, ref_version }, column.dtype, &range);
        }
    }

    fn copy(&self, column: &ColumnRef, range: Range<u64>) -> Result<&[u8]> {
        let beyond = || self.segment.damage(range.start, "a column of the descriptor", "none");
        let place = self.meta()?.columns().position(|other| other.code == column.code);
        let slot = place.and_then(|place| self.copies.get(place)).ok_or_else(beyond)?;
        if slot.get().is_none()
            && let Bytes::Copied(buffer) = self.segment.bytes(range.clone())?
        {
            // Another thread may have been faster; its copy is the same.
            let _ = slot.set(buffer);
        }
        slot.get().map(|buffer| &**buffer).ok_or_else(beyond)
    }
}
