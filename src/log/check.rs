//! Reading one frame and checking all of it.
//!
//! Always true:
//! - F1. A frame is believed only after its header's checksum, and its lengths only after that.

use std::ops::Range;

use crate::disk::aligned::AlignedBuf;
use crate::error::{Error, Result};
use crate::format::fault::Fault;
use crate::format::frame::{FrameHeader, HEADER_BYTES};
use crate::format::kind::{SCHEMA_CONTROL, SCHEMA_ROLLOUT};
use crate::format::meta;
use crate::ids::Location;
use crate::limits;
use crate::log::event::Event;
use crate::log::source::{CHUNK_BYTES, Source};
use crate::planted::{Bug, planted};

/// One frame, checked.
#[derive(Debug)]
pub(crate) struct ScannedFrame {
    pub(crate) header: FrameHeader,
    pub(crate) offset: u64,
    pub(crate) event: Event,
}

/// Why a frame was not read.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The disk failed.
    Disk(Error),
    /// The bytes are no frame.
    Frame(Fault),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Disk(error)
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Frame(fault)
    }
}

impl Source<'_> {
    /// Reads and checks the header at `offset`, and that its frame ends in time.
    pub(crate) fn header_at(&self, offset: u64, bytes_read: &mut u64) -> Result<FrameHeader, Refused> {
        let rest = self.end.saturating_sub(offset);
        if rest < HEADER_BYTES as u64 {
            return Err(Fault::damaged("frame header", 0, HEADER_BYTES, rest).into());
        }
        let mut encoded = [0; HEADER_BYTES];
        self.read(&mut encoded, offset, bytes_read)?;
        let header = FrameHeader::decode(&encoded, &self.seed(offset))?;
        let len = header.frame_len();
        if len > rest {
            return Err(Fault::damaged("frame", 0, format_args!("{len} bytes"), format_args!("{rest}")).into());
        }
        Ok(header)
    }

    /// Reads and checks the frame at `offset`: header, descriptor, every column.
    pub(crate) fn frame_at(&self, offset: u64, bytes_read: &mut u64) -> Result<ScannedFrame, Refused> {
        let header = self.header_at(offset, bytes_read)?;
        let arrays = offset.saturating_add(header.body_start());
        let meta = self.meta_of(&header, offset, bytes_read)?;
        for (range, crc) in columns(&header, &meta)? {
            let computed = self.checksum(arrays.saturating_add(range.start), range.end - range.start, bytes_read)?;
            if computed != crc && !planted(Bug::NoColumnCrcInScan) {
                return Err(Fault::checksum("column", header.body_start() + range.start, crc, computed).into());
            }
        }
        // Control frames keep what they say in their arrays; those of rollouts stay where they are.
        let control = if header.schema == SCHEMA_CONTROL { header.body_len.min(limits::RECORD_BYTES_MAX) } else { 0 };
        let mut body = AlignedBuf::zeroed(usize::try_from(control).unwrap_or(0));
        self.read(&mut body, arrays, bytes_read)?;
        let units = u32::try_from(offset / Location::UNIT_BYTES).unwrap_or(u32::MAX);
        Ok(ScannedFrame { event: Event::decode(&header, units, &meta, &body)?, header, offset })
    }

    /// Where the arrays of a checked frame lie within its body, in order.
    pub(crate) fn column_ranges(&self, frame: &ScannedFrame, bytes_read: &mut u64) -> Result<Vec<Range<u64>>, Refused> {
        let meta = self.meta_of(&frame.header, frame.offset, bytes_read)?;
        Ok(columns(&frame.header, &meta)?.into_iter().map(|(range, _)| range).collect())
    }

    fn meta_of(&self, header: &FrameHeader, offset: u64, bytes_read: &mut u64) -> Result<AlignedBuf, Refused> {
        let within = HEADER_BYTES as u64;
        let mut meta = AlignedBuf::zeroed(usize::try_from(header.meta_len).unwrap_or(0));
        self.read(&mut meta, offset.saturating_add(within), bytes_read)?;
        let computed = crc32fast::hash(&meta);
        if computed != header.meta_crc {
            return Err(Fault::checksum("descriptor", within, header.meta_crc, computed).into());
        }
        Ok(meta)
    }

    fn checksum(&self, offset: u64, len: u64, bytes_read: &mut u64) -> Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; usize::try_from(len.min(CHUNK_BYTES)).unwrap_or(0)];
        let mut done = 0;
        while done < len {
            let part = usize::try_from((len - done).min(CHUNK_BYTES)).unwrap_or(0);
            let part = buffer.get_mut(..part).unwrap_or_default();
            self.read(part, offset.saturating_add(done), bytes_read)?;
            hasher.update(part);
            done += part.len() as u64;
        }
        Ok(hasher.finalize())
    }
}

/// Where the arrays of a frame lie within its body, with their checksums.
fn columns(header: &FrameHeader, meta: &[u8]) -> Result<Vec<(Range<u64>, u32)>, Fault> {
    match header.schema {
        SCHEMA_ROLLOUT => {
            let meta = meta::rollout_meta(meta, header.body_len)?;
            Ok(meta.columns().map(|column| (column.range, column.crc)).collect())
        }
        SCHEMA_CONTROL => {
            let meta = meta::control_meta(meta, header.body_len)?;
            Ok(meta.arrays().map(|column| (column.range, column.crc)).collect())
        }
        _ => Ok(Vec::new()),
    }
}
