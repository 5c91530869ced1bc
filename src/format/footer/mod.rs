//! The footer: everything the index needs of a sealed segment, so that opening a store does not read its frames.
//!
//! May touch `archive`, `entry`, `fault`, ids. A footer is derived from the frames: where it is bad or left out, a scan
//! of the segment gives the same.
//!
//! Always true:
//! - T1. The file ends with a 64-byte trailer, and the trailer alone says where the footer is.
//! - T2. Every bit from the footer's first byte to the file's last is covered by a checksum or is zero and checked.

mod hash;
mod rows;
mod trailer;

use rkyv::util::AlignedVec;

pub(crate) use hash::HeaderHash;
pub(crate) use trailer::{TRAILER_BYTES, TrailerInfo, decode_trailer};

use super::archive;
use super::entry::FrameEntry;
use super::fault::{Fault, ensure};
use super::frame::FRAME_ALIGN;
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::planted::{Bug, planted};

/// An incarnation that a frame of this segment retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetiredEntry {
    pub(crate) id: RolloutId,
    /// The incarnation.
    pub(crate) insert_lsn: Lsn,
    /// The frame that retired it.
    pub(crate) lsn: Lsn,
}

/// A rollout of which a frame of this segment says that it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedEntry {
    pub(crate) id: RolloutId,
    /// The frame that says so.
    pub(crate) lsn: Lsn,
}

/// A sealed segment in short. Bounds over no frames are `u64::MAX` to 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) segment: SegmentId,
    /// Frames of every kind.
    pub(crate) frames: u64,
    pub(crate) min_lsn: Lsn,
    pub(crate) max_lsn: Lsn,
    /// The oldest incarnation that a frame of this segment belongs to: a retirement older than that of every retained
    /// segment has nothing left to retire.
    pub(crate) min_insert_lsn: Lsn,
    pub(crate) born_min: u64,
    pub(crate) born_max: u64,
    pub(crate) version_min: u64,
    pub(crate) version_max: u64,
    /// The [`HeaderHash`] of all frame headers, in the order of the file.
    pub(crate) header_hash: u64,
    /// The rollout frames, ascending by id and number.
    pub(crate) entries: Vec<FrameEntry>,
    pub(crate) retired: Vec<RetiredEntry>,
    pub(crate) used: Vec<UsedEntry>,
}

/// A footer ready to be written at the end of its segment.
#[derive(Debug)]
pub(crate) struct EncodedFooter {
    /// Payload, padding and trailer.
    pub(crate) bytes: Vec<u8>,
    /// What the trailer says; its `crc` is the one that the manifest keeps.
    pub(crate) trailer: TrailerInfo,
}

impl Footer {
    /// The bytes to append to the segment with this salt, at `file_offset`, which is its length and a multiple of 64.
    ///
    /// A footer of more rows than an archive takes is left out: the trailer then stands alone and the segment is scanned.
    pub(crate) fn encode(&self, salt: u64, file_offset: u64) -> EncodedFooter {
        debug_assert!(file_offset.is_multiple_of(FRAME_ALIGN), "frames end at a multiple of 64");
        debug_assert!(self.unsorted_at().is_none(), "entries ascend by id and number");
        let mut bytes = rows::encode(self).unwrap_or_default();
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let trailer = TrailerInfo { offset: file_offset, len, crc: crc32fast::hash(&bytes) };
        bytes.resize(bytes.len().next_multiple_of(TRAILER_BYTES), 0);
        bytes.extend_from_slice(&trailer.encode(self.segment, salt));
        EncodedFooter { bytes, trailer }
    }

    /// Reads a footer. `region` is all of the file from the trailer's `offset` to the trailer itself; a copy is made
    /// where its address is not a multiple of 8.
    pub(crate) fn decode(region: &[u8], trailer: &TrailerInfo) -> Result<Self, Fault> {
        let split = usize::try_from(trailer.len).ok().and_then(|len| region.split_at_checked(len));
        let Some((payload, padding)) = split else {
            return Err(Fault::damaged("footer length", 0, trailer.len, region.len()));
        };
        ensure(!trailer.is_left_out(), "footer", 0, "a payload", "a segment without one: scan it")?;
        let computed = crc32fast::hash(payload);
        if trailer.crc != computed && !planted(Bug::NoFooterCrc) {
            return Err(Fault::checksum("footer", 0, trailer.crc, computed));
        }
        let padded = padding.len() < TRAILER_BYTES && padding.iter().all(|byte| *byte == 0);
        ensure(padded, "footer padding", trailer.len, "less than 64 zeros", format_args!("{} bytes", padding.len()))?;
        let mut copy = AlignedVec::new();
        let footer = rows::decode(archive::aligned(payload, &mut copy))?;
        footer.check(trailer)?;
        Ok(footer)
    }

    /// What a sound writer never gets wrong: the checksum holds, yet these hold again for what comes from disk.
    fn check(&self, trailer: &TrailerInfo) -> Result<(), Fault> {
        if let Some(index) = self.unsorted_at() {
            return Err(Fault::damaged("footer entry", 0, "ascending id and lsn", format_args!("entry {index}")));
        }
        let outside = self.entries.iter().find(|entry| {
            let offset = u64::from(entry.offset_units).saturating_mul(FRAME_ALIGN);
            offset >= trailer.offset || entry.lsn < self.min_lsn || entry.lsn > self.max_lsn
        });
        match outside {
            Some(entry) => {
                let found = format_args!("lsn {} at unit {}", entry.lsn, entry.offset_units);
                Err(Fault::damaged("footer entry", 0, "a frame of this segment", found))
            }
            None => Ok(()),
        }
    }

    /// The first entry that does not ascend from the one before it.
    fn unsorted_at(&self) -> Option<usize> {
        let key = |entry: &FrameEntry| (entry.id, entry.lsn);
        let at = self.entries.windows(2).position(|pair| matches!(pair, [a, b] if key(a) >= key(b)))?;
        at.checked_add(1)
    }
}

#[cfg(test)]
mod tests;
