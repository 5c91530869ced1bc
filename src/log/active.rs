//! The newest segment: the only one that is written to.

use std::io::IoSlice;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::format::frame::{FRAME_ALIGN, FrameHeader, HEADER_BYTES};
use crate::format::kind::FrameFlags;
use crate::format::names::segment_file_name;
use crate::format::resume::BatchEnd;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::ids::{Location, Lsn};
use crate::log::event::{Event, NewFrame, frame_units};
use crate::log::seal::FooterBuilder;
use crate::log::segment::{ReadMode, Segment};
use crate::planted::{Bug, planted};

/// Bytes of copied frames that are gathered for one write.
const GATHERED_BYTES: usize = 256 << 10;

/// Zeros to pad an object with.
static ZEROS: [u8; 64] = [0; 64];
const _: () = assert!(ZEROS.len() as u64 == FRAME_ALIGN, "padding never takes more");

/// The segment that frames are appended to.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where the next frame goes.
    pub(crate) end: u64,
    /// Whether this process computed the checksums of all frames: none was copied from another segment.
    is_own: bool,
    footer: FooterBuilder,
    /// Copied frames, or the beginning of one, that are not written yet, and where they go.
    gathered: Vec<u8>,
    gathered_at: u64,
}

impl Active {
    /// Creates the file, writes its header, and makes both durable. `capacity` is the most that it can grow to.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        header: &SegmentHeader,
        capacity: u64,
        mode: ReadMode,
    ) -> Result<Self> {
        let path = dir.join(segment_file_name(header.segment));
        let file = disk.create(&path).map_err(|error| Error::io("create segment", &path, error))?;
        let written = file.write_all_vectored_at(&mut [IoSlice::new(&header.encode())], 0);
        written.and_then(|()| file.sync_data()).map_err(|error| {
            // A full disk must not fill up further with each attempt. Where this fails too, the next open removes it.
            let _ = disk.remove_file(&path);
            Error::io("write the segment header", &path, error)
        })?;
        // Sync the directory too: otherwise the new segment's name may vanish with the power.
        if !planted(Bug::SkipDirectorySync) {
            disk.sync_dir(dir).map_err(|error| Error::io("sync directory", dir, error))?;
        }
        let segment = Segment::over(Arc::clone(&file), &path, header.segment, header.salt, capacity, mode);
        let end = SEGMENT_HEADER_BYTES as u64;
        let footer = FooterBuilder::new(header.segment, header.salt);
        Ok(Self { segment: Arc::new(segment), file, end, is_own: true, footer, gathered: Vec::new(), gathered_at: end })
    }

    /// Whether no frame was written yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == SEGMENT_HEADER_BYTES as u64
    }

    /// Writes one batch after the last one, in one vectored write: nothing is copied. `events` go with `frames` one to
    /// one and carry the LSNs; the entries among them learn where their frames lie. Returns how the log ends now.
    pub(crate) fn append(
        &mut self,
        frames: &[NewFrame<'_>],
        events: &mut [Event],
        first_lsn: Lsn,
        durable_lsn: Lsn,
    ) -> Result<BatchEnd> {
        self.write_gathered()?;
        let headers = self.place(frames, events, first_lsn, durable_lsn)?;
        let (last, header) = headers.last().ok_or_else(|| Error::invalid("no frames in a batch"))?;
        let (last, header_crc) = (self.location(*last)?, crc32fast::hash(header));
        let mut slices = Vec::with_capacity(frames.len() * 6);
        for (frame, (_, header)) in frames.iter().zip(&headers) {
            slices.push(IoSlice::new(header));
            for bytes in [&frame.meta].into_iter().chain(&frame.arrays) {
                slices.push(IoSlice::new(bytes));
                slices.push(IoSlice::new(padding(bytes.len())));
            }
        }
        slices.retain(|slice| !slice.is_empty());
        let bytes: u64 = frames.iter().map(NewFrame::frame_len).sum();
        self.file.write_all_vectored_at(&mut slices, self.end).map_err(|error| {
            Error::io(format_args!("write {bytes} bytes at {}", self.end), &self.segment.path, error)
        })?;
        let mut lsn = first_lsn;
        for ((_, header), event) in headers.iter().zip(events.iter()) {
            self.footer.add(lsn, header, event);
            lsn = lsn.next();
        }
        self.end += bytes;
        self.gathered_at = self.end;
        if self.is_own {
            self.segment.mark_own(self.end);
        }
        Ok(BatchEnd { last, header_crc, min_insert_lsn: self.footer.min_insert_lsn() })
    }

    /// Gives each frame its place and header.
    fn place(
        &self,
        frames: &[NewFrame<'_>],
        events: &mut [Event],
        first_lsn: Lsn,
        durable_lsn: Lsn,
    ) -> Result<Vec<(u64, [u8; HEADER_BYTES])>> {
        let mut offset = self.end;
        let mut lsn = first_lsn;
        let count = u32::try_from(frames.len()).map_err(|_| Error::invalid("too many frames in a batch"))?;
        let mut headers = Vec::with_capacity(frames.len());
        for (at, (frame, event)) in frames.iter().zip(events).enumerate() {
            let mut flags = frame.flags;
            if at == 0 {
                flags = flags.with(FrameFlags::BATCH_BEGIN);
            }
            if at + 1 == frames.len() {
                flags = flags.with(FrameFlags::BATCH_END);
            }
            let location = self.location(offset)?;
            if let Event::Rollout(entry) = event {
                entry.offset_units = location.offset_units;
                entry.frame_units = frame_units(frame.frame_len());
            }
            let header = frame.header(flags, count, lsn, durable_lsn);
            headers.push((offset, header.encode(&self.segment.seed(offset))));
            offset += frame.frame_len();
            lsn = lsn.next();
        }
        Ok(headers)
    }

    fn location(&self, offset: u64) -> Result<Location> {
        let full = || Error::invalid(format!("segment {} is full at byte {offset}", self.segment.id));
        Location::at(self.segment.id, offset).ok_or_else(full)
    }

    /// Copies the whole frames of a batch from another segment, with their LSNs. `read` fills a buffer from the source. They
    /// are written with those before and after them, at the latest when they are written out or synced.
    pub(crate) fn adopt(
        &mut self,
        header: FrameHeader,
        event: &mut Event,
        durable_lsn: Lsn,
        mut read: impl FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        self.is_own = false;
        let offset = self.end;
        let location = self.location(offset)?;
        if let Event::Rollout(entry) = event {
            entry.offset_units = location.offset_units;
        }
        let encoded = FrameHeader { durable_lsn, ..header }.encode(&self.segment.seed(offset));
        self.gathered.extend_from_slice(&encoded);
        let mut done = HEADER_BYTES as u64;
        let len = header.frame_len();
        while done < len {
            let chunk = usize::try_from(CHUNK_BYTES.min(len - done)).unwrap_or(usize::MAX);
            let start = self.gathered.len();
            self.gathered.resize(start + chunk, 0);
            read(self.gathered.get_mut(start..).unwrap_or_default(), done)?;
            if self.gathered.len() >= GATHERED_BYTES {
                self.write_gathered()?;
            }
            done += chunk as u64;
        }
        self.footer.add(header.lsn, &encoded, event);
        self.end += len;
        Ok(())
    }

    fn write_gathered(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let (at, bytes) = (self.gathered_at, self.gathered.len());
        let written = self.file.write_all_vectored_at(&mut [IoSlice::new(&self.gathered)], at);
        written.map_err(|error| Error::io(format_args!("write {bytes} bytes at {at}"), &self.segment.path, error))?;
        self.gathered_at += bytes as u64;
        self.gathered.clear();
        Ok(())
    }

    /// Makes every byte so far durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.write_gathered()?;
        self.file.sync_data().map_err(|error| Error::io("sync", &self.segment.path, error))
    }

    /// Begins to write out every byte from `start` on, and waits for nothing.
    pub(crate) fn begin_write_out(&mut self, start: u64) -> Result<()> {
        self.write_gathered()?;
        self.file.begin_write_out(start..self.end);
        Ok(())
    }

    /// Waits until these bytes are written out, so that a sync finds little to do. Nothing is durable by it.
    pub(crate) fn write_out(&mut self, bytes: Range<u64>) -> Result<()> {
        self.write_gathered()?;
        self.file.write_out(bytes).map_err(|error| Error::io("write out", &self.segment.path, error))
    }

    /// Writes the footer and makes the segment durable for ever. Nothing may be appended afterwards, whether this
    /// succeeds or not.
    pub(crate) fn seal(&mut self) -> Result<Sealed> {
        let sealed = self.write_footer()?;
        self.sync()?;
        Ok(sealed)
    }

    /// The greatest number of bytes that the footer takes, with so many rows more.
    pub(crate) fn footer_bytes_max(&self, more_rows: u64) -> u64 {
        self.footer.bytes_max(more_rows)
    }

    /// Writes the footer, which is durable after the next sync. It may be written again where that failed for want of space.
    pub(crate) fn write_footer(&mut self) -> Result<Sealed> {
        self.write_gathered()?;
        let (bytes, footer_crc) = self.footer.encode(self.end);
        self.file
            .write_all_vectored_at(&mut [IoSlice::new(&bytes)], self.end)
            .map_err(|error| Error::io("write the footer", &self.segment.path, error))?;
        Ok(Sealed { len: self.end + bytes.len() as u64, footer_crc, min_insert_lsn: self.footer.min_insert_lsn() })
    }
}

/// What the manifest keeps of a sealed segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sealed {
    pub(crate) len: u64,
    pub(crate) footer_crc: u32,
    pub(crate) min_insert_lsn: Lsn,
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(FRAME_ALIGN)
}

fn padding(len: usize) -> &'static [u8] {
    let rest = len.next_multiple_of(ZEROS.len()) - len;
    ZEROS.get(..rest).unwrap_or_default()
}

impl NewFrame<'_> {
    /// Bytes in the log, padding included.
    pub(crate) fn frame_len(&self) -> u64 {
        self.body_start() + self.body_len()
    }

    fn body_start(&self) -> u64 {
        HEADER_BYTES as u64 + padded(self.meta.len())
    }

    fn body_len(&self) -> u64 {
        self.arrays.iter().map(|array| padded(array.len())).sum()
    }

    fn header(&self, flags: FrameFlags, frames_in_batch: u32, lsn: Lsn, durable_lsn: Lsn) -> FrameHeader {
        FrameHeader {
            kind: self.kind,
            flags,
            schema: self.kind.schema().unwrap_or_default(),
            frames_in_batch,
            lsn,
            durable_lsn,
            rollout: self.rollout,
            insert_lsn: if self.insert_lsn == Lsn::NONE && self.kind.is_rollout() { lsn } else { self.insert_lsn },
            born_step: self.born_step,
            ref_version: self.ref_version,
            body_len: self.body_len(),
            meta_len: u32::try_from(self.meta.len()).unwrap_or(u32::MAX),
            meta_crc: self.meta_crc,
        }
    }
}
