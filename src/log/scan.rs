//! Reading a segment from its first frame, or from one behind it that begins a batch, to its last whole batch.
//!
//! Always true:
//! - C1. A batch is delivered whole or not at all.
//! - C2. What ends a scan early is told, never judged: recovery decides between a torn tail and damage.

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::frame::{FRAME_ALIGN, FrameHeader, HEADER_BYTES, could_be_header};
use crate::format::kind::FrameFlags;
use crate::ids::Lsn;
use crate::log::check::{Refused, ScannedFrame};
use crate::log::source::{CHUNK_BYTES, Source};
use crate::planted::{Bug, planted};

/// Frames begin at multiples of this.
const UNIT: usize = 64;
const _: () = assert!(UNIT as u64 == FRAME_ALIGN, "the same number for memory");

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

impl Source<'_> {
    /// Visits the frames of every whole batch in order.
    pub(crate) fn run(&self, mut visit: impl FnMut(ScannedFrame) -> Result<()>) -> Result<Tail> {
        let mut tail = Tail { end: self.start, end_lsn: Lsn::NONE, attested: Lsn::NONE, stopped: None, bytes_read: 0 };
        let mut batch = Vec::new();
        let mut offset = self.start;
        let mut expected = self.base_lsn;
        while offset < self.end {
            let frame = self
                .frame_at(offset, &mut tail.bytes_read)
                .and_then(|frame| Ok(check_place(&frame.header, expected, batch.len()).map(|()| frame)?));
            let frame = match frame {
                Ok(frame) => frame,
                Err(Refused::Disk(error)) => return Err(error),
                Err(Refused::Frame(fault)) => {
                    tail.stopped = Some(Stop { offset, fault });
                    return Ok(tail);
                }
            };
            offset = offset.saturating_add(frame.header.frame_len());
            expected = self.base_lsn.map(|_| frame.header.lsn.next());
            tail.attested = tail.attested.max(frame.header.durable_lsn);
            let (is_last, lsn) = (frame.header.flags.contains(FrameFlags::BATCH_END), frame.header.lsn);
            batch.push(frame);
            if is_last || planted(Bug::HalfBatch) {
                batch.drain(..).try_for_each(&mut visit)?;
                (tail.end, tail.end_lsn) = (offset, lsn);
            }
        }
        if !batch.is_empty() {
            let fault = Fault::damaged("batch", 0, "a last frame", "the end of the file");
            tail.stopped = Some(Stop { offset: tail.end, fault });
        }
        Ok(tail)
    }

    /// The first place behind `offset` with a whole header that `accepts` takes. Headers are seeded by their place, so
    /// that no array's bytes are taken for one.
    pub(crate) fn frame_behind(
        &self,
        offset: u64,
        accepts: impl Fn(&FrameHeader) -> bool,
        bytes_read: &mut u64,
    ) -> Result<Option<u64>> {
        let mut chunk_start = offset.next_multiple_of(FRAME_ALIGN);
        while chunk_start < self.end {
            // Overlap by a header, so that one that straddles two chunks is seen.
            let len = (CHUNK_BYTES + HEADER_BYTES as u64).min(self.end - chunk_start);
            let mut chunk = vec![0; usize::try_from(len).unwrap_or(0)];
            self.read(&mut chunk, chunk_start, bytes_read)?;
            for (unit, candidate) in chunk.windows(HEADER_BYTES).step_by(UNIT).enumerate() {
                let at = chunk_start + unit as u64 * FRAME_ALIGN;
                if !could_be_header(candidate) || at <= offset {
                    continue;
                }
                if FrameHeader::decode(candidate, &self.seed(at)).is_ok_and(|header| accepts(&header)) {
                    return Ok(Some(at));
                }
            }
            chunk_start += CHUNK_BYTES;
        }
        Ok(None)
    }
}

/// Checks what a frame says of its place in the log and in its batch.
fn check_place(header: &FrameHeader, expected: Option<Lsn>, place_in_batch: usize) -> Result<(), Fault> {
    if let Some(expected) = expected.filter(|expected| *expected != header.lsn) {
        return Err(Fault::damaged("frame number", 8, expected, header.lsn));
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
