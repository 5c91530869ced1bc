//! Reading a segment from its first frame to its last whole batch.
//!
//! Always true:
//! - C1. A frame is believed only after its header's checksum, and its lengths only after that.
//! - C2. A batch is delivered whole or not at all.
//! - C3. What ends a scan early is told, never judged: recovery decides between a torn tail and damage.

use std::ops::Range;
use std::path::Path;

use crate::disk::DiskFile;
use crate::disk::aligned::AlignedBuf;
use crate::error::{Error, Result};
use crate::format::fault::Fault;
use crate::format::frame::{FRAME_ALIGN, FrameHeader, FrameSeed, HEADER_BYTES, could_be_header};
use crate::format::kind::{FrameFlags, SCHEMA_CONTROL, SCHEMA_ROLLOUT};
use crate::format::meta;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::{Location, Lsn, SegmentId};
use crate::limits;
use crate::log::event::Event;

/// Frames begin at multiples of this.
const UNIT: usize = 64;
const _: () = assert!(UNIT as u64 == FRAME_ALIGN, "the same number for memory");

/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A segment file under scan.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) file: &'a dyn DiskFile,
    pub(crate) path: &'a Path,
    pub(crate) segment: SegmentId,
    pub(crate) salt: u64,
    /// Where to stop: the end of the file, or of what a cut segment counts.
    pub(crate) end: u64,
    /// The LSN of the first frame; `None` where any will do.
    pub(crate) base_lsn: Option<Lsn>,
}

/// One frame of a whole batch.
#[derive(Debug)]
pub(crate) struct ScannedFrame {
    pub(crate) header: FrameHeader,
    pub(crate) offset: u64,
    pub(crate) event: Event,
}

/// Where a scan ended, and why.
#[derive(Debug)]
pub(crate) struct Tail {
    /// End of the last whole batch.
    pub(crate) end: u64,
    /// LSN of the last frame of the last whole batch; [`Lsn::NONE`] where there is none.
    pub(crate) end_lsn: Lsn,
    /// The highest LSN that a frame says to be durable.
    pub(crate) attested: Lsn,
    /// What stopped the scan; `None` at the end of the file.
    pub(crate) stopped: Option<Stop>,
    /// Bytes that were read.
    pub(crate) bytes_read: u64,
}

/// What stopped a scan.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Offset of the frame that was refused.
    pub(crate) offset: u64,
    /// Why.
    pub(crate) fault: Fault,
}

impl Scan<'_> {
    /// Visits the frames of every whole batch in order.
    pub(crate) fn run(&self, mut visit: impl FnMut(ScannedFrame) -> Result<()>) -> Result<Tail> {
        let start = SEGMENT_HEADER_BYTES as u64;
        let mut tail = Tail { end: start, end_lsn: Lsn::NONE, attested: Lsn::NONE, stopped: None, bytes_read: 0 };
        let mut batch = Vec::new();
        let mut offset = start;
        let mut expected = self.base_lsn;
        while offset < self.end {
            match self.frame(offset, expected, batch.len(), &mut tail.bytes_read)? {
                Err(fault) => {
                    tail.stopped = Some(Stop { offset, fault });
                    return Ok(tail);
                }
                Ok(frame) => {
                    offset = offset.saturating_add(frame.header.frame_len());
                    expected = self.base_lsn.map(|_| frame.header.lsn.next());
                    tail.attested = tail.attested.max(frame.header.durable_lsn);
                    let (is_last, lsn) = (frame.header.flags.contains(FrameFlags::BATCH_END), frame.header.lsn);
                    batch.push(frame);
                    if is_last {
                        batch.drain(..).try_for_each(&mut visit)?;
                        (tail.end, tail.end_lsn) = (offset, lsn);
                    }
                }
            }
        }
        if !batch.is_empty() {
            let fault = Fault::damaged("batch", 0, "a last frame", "the end of the file");
            tail.stopped = Some(Stop { offset: tail.end, fault });
        }
        Ok(tail)
    }

    /// Reads and checks one frame. The outer error is the disk's, the inner one the frame's.
    fn frame(
        &self,
        offset: u64,
        expected: Option<Lsn>,
        place_in_batch: usize,
        bytes_read: &mut u64,
    ) -> Result<std::result::Result<ScannedFrame, Fault>> {
        if self.end - offset < HEADER_BYTES as u64 {
            return Ok(Err(Fault::damaged("frame header", 0, HEADER_BYTES, self.end - offset)));
        }
        let mut encoded = [0; HEADER_BYTES];
        self.read(&mut encoded, offset, bytes_read)?;
        let header = match FrameHeader::decode(&encoded, &self.seed(offset)) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Err(fault) = self.check_place(&header, offset, expected, place_in_batch) {
            return Ok(Err(fault));
        }
        let arrays = offset + HEADER_BYTES as u64;
        let meta_offset = arrays.saturating_add(header.body_len);
        let mut meta = AlignedBuf::zeroed(usize::try_from(header.meta_len).unwrap_or(0));
        self.read(&mut meta, meta_offset, bytes_read)?;
        let computed = crc32fast::hash(&meta);
        if computed != header.meta_crc {
            return Ok(Err(Fault::checksum("descriptor", meta_offset - offset, header.meta_crc, computed)));
        }
        let columns = match columns(&header, &meta) {
            Ok(columns) => columns,
            Err(fault) => return Ok(Err(fault)),
        };
        for (range, crc) in columns {
            let computed = self.checksum(arrays.saturating_add(range.start), range.end - range.start, bytes_read)?;
            if computed != crc {
                return Ok(Err(Fault::checksum("column", HEADER_BYTES as u64 + range.start, crc, computed)));
            }
        }
        // Control frames keep what they say in their arrays; those of rollouts stay where they are.
        let control = if header.schema == SCHEMA_CONTROL { header.body_len.min(limits::RECORD_BYTES_MAX) } else { 0 };
        let mut body = AlignedBuf::zeroed(usize::try_from(control).unwrap_or(0));
        self.read(&mut body, arrays, bytes_read)?;
        let units = u32::try_from(offset / Location::UNIT_BYTES).unwrap_or(u32::MAX);
        Ok(Event::decode(&header, units, &meta, &body).map(|event| ScannedFrame { header, offset, event }))
    }

    fn check_place(
        &self,
        header: &FrameHeader,
        offset: u64,
        expected: Option<Lsn>,
        place_in_batch: usize,
    ) -> std::result::Result<(), Fault> {
        if let Some(expected) = expected.filter(|expected| *expected != header.lsn) {
            return Err(Fault::damaged("frame number", 8, expected, header.lsn));
        }
        let rest = self.end - offset;
        if header.frame_len() > rest {
            return Err(Fault::damaged(
                "frame",
                0,
                format_args!("{} bytes", header.frame_len()),
                format_args!("{rest}"),
            ));
        }
        let begins = header.flags.contains(FrameFlags::BATCH_BEGIN);
        if begins != (place_in_batch == 0) {
            return Err(Fault::damaged("batch", 0, format_args!("begin = {}", place_in_batch == 0), begins));
        }
        let ends = header.flags.contains(FrameFlags::BATCH_END);
        let count = usize::try_from(header.frames_in_batch).unwrap_or(usize::MAX);
        if ends != (place_in_batch + 1 == count) {
            return Err(Fault::damaged("batch", 0, format_args!("{count} frames"), place_in_batch + 1));
        }
        Ok(())
    }

    /// The place of a frame behind `offset` that attests that the frame `missing` was durable: what stands at `offset`
    /// is then damage and not a torn tail. [`Lsn::NONE`] takes any frame.
    pub(crate) fn attests_behind(&self, offset: u64, missing: Lsn) -> Result<Option<u64>> {
        let mut bytes_read = 0;
        let mut chunk_start = offset.next_multiple_of(FRAME_ALIGN);
        while chunk_start < self.end {
            // Overlap by a header, so that one that straddles two chunks is seen.
            let len = (CHUNK_BYTES + HEADER_BYTES as u64).min(self.end - chunk_start);
            let mut chunk = vec![0; usize::try_from(len).unwrap_or(0)];
            self.read(&mut chunk, chunk_start, &mut bytes_read)?;
            for (unit, candidate) in chunk.windows(HEADER_BYTES).step_by(UNIT).enumerate() {
                let at = chunk_start + unit as u64 * FRAME_ALIGN;
                if !could_be_header(candidate) || at <= offset {
                    continue;
                }
                let header = FrameHeader::decode(candidate, &self.seed(at));
                if header.is_ok_and(|header| header.durable_lsn >= missing) {
                    return Ok(Some(at));
                }
            }
            chunk_start += CHUNK_BYTES;
        }
        Ok(None)
    }

    fn seed(&self, offset: u64) -> FrameSeed {
        FrameSeed { salt: self.salt, segment: self.segment, offset }
    }

    /// Reads at `offset`.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64, bytes_read: &mut u64) -> Result<()> {
        let len = buffer.len();
        *bytes_read += len as u64;
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| Error::io(format_args!("read {len} bytes at {offset}"), self.path, error))
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
fn columns(header: &FrameHeader, meta: &[u8]) -> std::result::Result<Vec<(Range<u64>, u32)>, Fault> {
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
