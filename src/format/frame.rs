//! The frame header: 128 bytes that say what a frame is, where it belongs and how long it is.
//!
//! May touch `kind`, `fault`, ids and limits. Knows nothing of descriptors and columns: it gives their lengths.
//!
//! Always true:
//! - F1. The checksum is seeded with the place of the frame, so that a frame copied elsewhere is no frame.
//! - F2. No length is believed before the checksum; none that passes is above its limit.
//! - F3. Encoding a header allocates nothing.

use bytemuck::{Pod, Zeroable};

use super::fault::{Fault, ensure};
use super::kind::{FrameFlags, FrameKind, IGNORABLE, SCHEMA_CONTROL};
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::limits::{BATCH_FRAMES_MAX, META_BYTES_MAX, NUMBER_MAX, RECORD_BYTES_MAX};
use crate::planted::{Bug, planted};

/// Bytes to whose multiples frames, arrays and descriptors are aligned: a cache line, and enough for any vector load.
pub(crate) const FRAME_ALIGN: u64 = 64;

/// Bytes of a frame header.
pub(crate) const HEADER_BYTES: usize = 128;

const HEADER_LEN: u64 = 128;
const MAGIC: u32 = u32::from_le_bytes(*b"\xf5RFr");
const SEED_BYTES: usize = 20;
/// Bytes in front of those that the checksum covers: the magic and the checksum itself.
const UNCOVERED_BYTES: usize = 8;

/// The place of a frame, which its checksum is seeded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameSeed {
    /// The random number in the segment's header.
    pub(crate) salt: u64,
    pub(crate) segment: SegmentId,
    /// Byte offset of the frame in its segment.
    pub(crate) offset: u64,
}

/// A decoded frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) flags: FrameFlags,
    /// The type of the descriptor.
    pub(crate) schema: u16,
    /// Frames in the batch that this frame is part of, itself included.
    pub(crate) frames_in_batch: u32,
    pub(crate) lsn: Lsn,
    /// The highest number known to be on the medium when this frame was written.
    pub(crate) durable_lsn: Lsn,
    /// The rollout, or 0 where the frame belongs to none.
    pub(crate) rollout: RolloutId,
    /// The rollout's incarnation: the number of its insert.
    pub(crate) insert_lsn: Lsn,
    pub(crate) born_step: u64,
    pub(crate) ref_version: u64,
    /// Bytes of the arrays behind the descriptor: a multiple of 64.
    pub(crate) body_len: u64,
    pub(crate) meta_len: u32,
    /// CRC-32 of the descriptor's bytes.
    pub(crate) meta_crc: u32,
}

/// The header as it lies on disk.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: u32,
    header_crc: u32,
    lsn: u64,
    durable_lsn: u64,
    rollout_id: u64,
    insert_lsn: u64,
    born_step: u64,
    ref_version: u64,
    body_len: u64,
    meta_len: u32,
    meta_crc: u32,
    kind: u16,
    flags: u16,
    schema: u16,
    reserved: u16,
    frames_in_batch: u32,
    zeros: [u8; 44],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES, "the layout has no gaps");

/// Whether a header may start here: a cheap test that lets a search for the next frame pass over what is none.
pub(crate) fn could_be_header(bytes: &[u8]) -> bool {
    bytes.first_chunk() == Some(&MAGIC.to_le_bytes())
}

/// Bytes in front of the arrays of a frame: header, descriptor of this length and the padding to 64.
pub(crate) fn body_start(meta_len: u32) -> u64 {
    HEADER_LEN.saturating_add(u64::from(meta_len).next_multiple_of(FRAME_ALIGN))
}

/// What a reader of a rollout's frame needs of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameBrief {
    pub(crate) lsn: Lsn,
    pub(crate) rollout: RolloutId,
    pub(crate) ref_version: u64,
    pub(crate) body_len: u64,
    pub(crate) meta_len: u32,
}

impl FrameBrief {
    /// Reads it off a header that passed [`FrameHeader::decode`] in its place before, and whose bytes never change.
    pub(crate) fn of_checked(bytes: &[u8]) -> Option<Self> {
        let raw: RawHeader = bytemuck::pod_read_unaligned(bytes.first_chunk::<HEADER_BYTES>()?);
        Some(Self {
            lsn: Lsn::new(raw.lsn),
            rollout: RolloutId::new(raw.rollout_id),
            ref_version: raw.ref_version,
            body_len: raw.body_len,
            meta_len: raw.meta_len,
        })
    }
}

impl FrameHeader {
    /// The bytes for the place that `seed` names.
    pub(crate) fn encode(&self, seed: &FrameSeed) -> [u8; HEADER_BYTES] {
        debug_assert!(self.body_len.is_multiple_of(FRAME_ALIGN), "the arrays end at a multiple of 64");
        debug_assert!((1..=BATCH_FRAMES_MAX).contains(&self.frames_in_batch), "a batch has frames, up to the limit");
        let mut raw = RawHeader {
            magic: MAGIC,
            header_crc: 0,
            lsn: self.lsn.get(),
            durable_lsn: self.durable_lsn.get(),
            rollout_id: self.rollout.get(),
            insert_lsn: self.insert_lsn.get(),
            born_step: self.born_step,
            ref_version: self.ref_version,
            body_len: self.body_len,
            meta_len: self.meta_len,
            meta_crc: self.meta_crc,
            kind: self.kind.code(),
            flags: self.flags.0,
            schema: self.schema,
            reserved: 0,
            frames_in_batch: self.frames_in_batch,
            zeros: [0; 44],
        };
        raw.header_crc = header_crc(seed, bytemuck::cast_ref(&raw));
        bytemuck::cast(raw)
    }

    /// Reads the header at the start of `bytes`, which came from the place that `seed` names.
    pub(crate) fn decode(bytes: &[u8], seed: &FrameSeed) -> Result<Self, Fault> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Fault::too_short("frame header", HEADER_BYTES, bytes.len()));
        };
        let raw: &RawHeader = &bytemuck::pod_read_unaligned(bytes);
        if raw.magic != MAGIC {
            let (expected, found) = (format_args!("{MAGIC:#010x}"), format_args!("{:#010x}", raw.magic));
            return Err(Fault::damaged("frame magic", 0, expected, found));
        }
        let computed = header_crc(seed, bytes);
        if raw.header_crc != computed {
            return Err(Fault::checksum("frame header", 4, raw.header_crc, computed));
        }
        let header = Self::of_raw(raw)?;
        header.check_lengths()?;
        Ok(header)
    }

    /// What a reader of the frame needs of its header.
    pub(crate) fn brief(&self) -> FrameBrief {
        let Self { lsn, rollout, ref_version, body_len, meta_len, .. } = *self;
        FrameBrief { lsn, rollout, ref_version, body_len, meta_len }
    }

    /// Bytes in front of the arrays.
    pub(crate) fn body_start(&self) -> u64 {
        body_start(self.meta_len)
    }

    /// Bytes of the whole frame.
    pub(crate) fn frame_len(&self) -> u64 {
        self.body_start().saturating_add(self.body_len)
    }

    /// The fields, where this format knows what they say.
    fn of_raw(raw: &RawHeader) -> Result<Self, Fault> {
        if raw.reserved != 0 || raw.zeros.iter().any(|byte| *byte != 0) {
            return Err(Fault::too_new("frame header field", "in its reserved bytes"));
        }
        let kind = FrameKind::from_code(raw.kind).ok_or_else(|| Fault::too_new("frame kind", raw.kind))?;
        let flags = FrameFlags(raw.flags);
        if !FrameFlags::KNOWN.contains(flags) {
            return Err(Fault::too_new("frame flags", format_args!("{:#06x}", raw.flags)));
        }
        if kind.schema().is_some_and(|schema| schema != raw.schema) {
            if raw.schema > SCHEMA_CONTROL {
                return Err(Fault::too_new("descriptor schema", raw.schema));
            }
            return Err(Fault::damaged("descriptor schema", 76, format_args!("that of {}", kind.name()), raw.schema));
        }
        Ok(Self {
            kind,
            flags,
            schema: raw.schema,
            frames_in_batch: raw.frames_in_batch,
            lsn: Lsn::new(raw.lsn),
            durable_lsn: Lsn::new(raw.durable_lsn),
            rollout: RolloutId::new(raw.rollout_id),
            insert_lsn: Lsn::new(raw.insert_lsn),
            born_step: raw.born_step,
            ref_version: raw.ref_version,
            body_len: raw.body_len,
            meta_len: raw.meta_len,
            meta_crc: raw.meta_crc,
        })
    }

    /// The same limits that a writer keeps.
    fn check_lengths(&self) -> Result<(), Fault> {
        let aligned = self.body_len.is_multiple_of(FRAME_ALIGN);
        ensure(aligned, "body length", 56, "a multiple of 64", self.body_len)?;
        let meta_len = u64::from(self.meta_len);
        let descriptor_fits = meta_len <= META_BYTES_MAX;
        ensure(descriptor_fits, "descriptor length", 64, format_args!("at most {META_BYTES_MAX}"), meta_len)?;
        let frame_len = self.frame_len();
        let fits = frame_len <= RECORD_BYTES_MAX;
        ensure(fits, "frame length", 56, format_args!("at most {RECORD_BYTES_MAX}"), frame_len)?;
        let frames = self.frames_in_batch;
        ensure(self.lsn != Lsn::NONE, "frame number", 8, "at least 1", self.lsn)?;
        let numbers = [self.lsn, self.durable_lsn, self.insert_lsn].map(Lsn::get);
        let greatest = numbers.into_iter().fold(self.ref_version, u64::max);
        ensure(greatest <= NUMBER_MAX, "frame number or version", 8, format_args!("at most {NUMBER_MAX}"), greatest)?;
        let counted = (1..=BATCH_FRAMES_MAX).contains(&frames);
        ensure(counted, "frames in batch", 80, format_args!("1 to {BATCH_FRAMES_MAX}"), frames)
    }
}

/// CRC-32 over the seed and the header behind its checksum. One pass over one buffer: crc32fast takes its wide path
/// from 128 bytes on, which header and seed reach only together.
fn header_crc(seed: &FrameSeed, header: &[u8; HEADER_BYTES]) -> u32 {
    let (_, covered) = header.split_at(UNCOVERED_BYTES);
    let nowhere = FrameSeed { salt: 0, segment: SegmentId(0), offset: 0 };
    let seed = if planted(Bug::NoHeaderSeed) { &nowhere } else { seed };
    let mut input = [0; SEED_BYTES + HEADER_BYTES - UNCOVERED_BYTES];
    let (seed_bytes, rest) = input.split_at_mut(SEED_BYTES);
    let (salt, place) = seed_bytes.split_at_mut(8);
    let (segment, offset) = place.split_at_mut(4);
    salt.copy_from_slice(&seed.salt.to_le_bytes());
    segment.copy_from_slice(&seed.segment.0.to_le_bytes());
    offset.copy_from_slice(&seed.offset.to_le_bytes());
    rest.copy_from_slice(covered);
    crc32fast::hash(&input)
}

const _: () = assert!(FrameKind::Pad.code() & IGNORABLE != 0, "padding is never needed");

#[cfg(test)]
mod tests;
