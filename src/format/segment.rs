//! The segment header: 4,096 bytes that say whose the segment is and where its log begins.
//!
//! May touch `fault`, `ids`. Knows nothing of frames.
//!
//! Always true:
//! - S1. The checksum is tried before anything but the magic is believed.
//! - S2. The first 32 bytes and the place of the checksum stay in every version, so that a newer one is known as such.

use bytemuck::{Pod, Zeroable};

use super::fault::{Fault, ensure};
use super::{COMPATIBLE_FEATURES, FORMAT_VERSION, INCOMPATIBLE_FEATURES};
use crate::ids::{Lsn, SegmentId};

/// Bytes of a segment header: one page, so that frames start on a sector of their own on any medium.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 4096;

const HEADER_LEN: u32 = 4096;
const MAGIC: [u8; 8] = *b"\xf5RolSeg\x1a";
const CRC_OFFSET: usize = SEGMENT_HEADER_BYTES - 4;

/// Compatible feature: the store was Buffered when it wrote the segment. Commits may have been acknowledged, and lost with
/// the power, behind the last frame that is found in it.
pub(crate) const BUFFERED: u64 = 1;

/// How a segment came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Frames in the order of their commits.
    Log,
    /// Frames that compaction moved here, under their old numbers.
    Compacted,
}

impl SegmentKind {
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Log => 1,
            Self::Compacted => 2,
        }
    }

    pub(super) const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::Log),
            2 => Some(Self::Compacted),
            _ => None,
        }
    }
}

/// A decoded segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) segment: SegmentId,
    pub(crate) kind: SegmentKind,
    pub(crate) store_uuid: [u8; 16],
    /// The epoch that it was created in.
    pub(crate) epoch: u64,
    /// A random number that seeds every checksum in the segment: bytes of another file never pass for its own.
    pub(crate) salt: u64,
    /// No frame of a log segment has a number below this one.
    pub(crate) base_lsn: Lsn,
    /// The ref version when the segment began.
    pub(crate) ref_version: u64,
    /// The clock when the segment began; `None` where it had not started.
    pub(crate) step: Option<u64>,
    /// Features that a reader may pass over.
    pub(crate) compatible_features: u64,
}

/// The header as it lies on disk.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    format_version: u32,
    header_len: u32,
    incompatible_features: u64,
    compatible_features: u64,
    kind: u16,
    reserved: u16,
    segment: u32,
    store_uuid: [u8; 16],
    epoch: u64,
    salt: u64,
    base_lsn: u64,
    ref_version: u64,
    step: u64,
    zeros: [u8; 3996],
    crc: u32,
}

const _: () = assert!(size_of::<RawHeader>() == SEGMENT_HEADER_BYTES, "the layout has no gaps");

/// The step on disk of a clock that has not started.
const NO_STEP: u64 = u64::MAX;

impl SegmentHeader {
    /// The bytes at the start of the segment.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        debug_assert!(self.step != Some(NO_STEP), "no trainer reaches the last step");
        let mut raw = RawHeader {
            magic: MAGIC,
            format_version: FORMAT_VERSION,
            header_len: HEADER_LEN,
            incompatible_features: INCOMPATIBLE_FEATURES,
            compatible_features: self.compatible_features,
            kind: self.kind.code(),
            reserved: 0,
            segment: self.segment.0,
            store_uuid: self.store_uuid,
            epoch: self.epoch,
            salt: self.salt,
            base_lsn: self.base_lsn.get(),
            ref_version: self.ref_version,
            step: self.step.unwrap_or(NO_STEP),
            zeros: [0; 3996],
            crc: 0,
        };
        raw.crc = crc(bytemuck::cast_ref(&raw));
        bytemuck::cast(raw)
    }

    /// Reads the header at the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(Fault::too_short("segment header", SEGMENT_HEADER_BYTES, bytes.len()));
        };
        let raw: RawHeader = bytemuck::pod_read_unaligned(bytes);
        let magic = format_args!("{}", MAGIC.escape_ascii());
        ensure(raw.magic == MAGIC, "segment magic", 0, magic, raw.magic.escape_ascii())?;
        let computed = crc(bytes);
        if raw.crc != computed {
            return Err(Fault::checksum("segment header", 4092, raw.crc, computed));
        }
        raw.check_version()?;
        let kind = SegmentKind::from_code(raw.kind).ok_or_else(|| Fault::too_new("segment kind", raw.kind))?;
        Ok(Self {
            segment: SegmentId(raw.segment),
            kind,
            store_uuid: raw.store_uuid,
            epoch: raw.epoch,
            salt: raw.salt,
            base_lsn: Lsn::new(raw.base_lsn),
            ref_version: raw.ref_version,
            step: (raw.step != NO_STEP).then_some(raw.step),
            compatible_features: raw.compatible_features,
        })
    }
}

impl RawHeader {
    fn check_version(&self) -> Result<(), Fault> {
        check_features(self.format_version, self.incompatible_features)?;
        if self.header_len != HEADER_LEN {
            return Err(Fault::too_new("segment header length", self.header_len));
        }
        // A compatible feature may keep its fields among the zeros, for readers that know it.
        let all_known = self.compatible_features & !COMPATIBLE_FEATURES == 0;
        if all_known && (self.reserved != 0 || self.zeros.iter().any(|byte| *byte != 0)) {
            return Err(Fault::too_new("segment header field", "in its reserved bytes"));
        }
        Ok(())
    }
}

/// Whether this code may read an object of the version and features given. Only a checksummed header is asked.
pub(super) fn check_features(format_version: u32, incompatible_features: u64) -> Result<(), Fault> {
    if format_version > FORMAT_VERSION {
        return Err(Fault::too_new("format version", format_version));
    }
    ensure(format_version == FORMAT_VERSION, "format version", 8, FORMAT_VERSION, format_version)?;
    let unknown = incompatible_features & !INCOMPATIBLE_FEATURES;
    if unknown != 0 {
        return Err(Fault::too_new("incompatible features", format_args!("{unknown:#x}")));
    }
    Ok(())
}

fn crc(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    let (covered, _) = bytes.split_at(CRC_OFFSET);
    crc32fast::hash(covered)
}

#[cfg(test)]
mod tests;
