//! The copy: frames that are alive, and retirements that are still needed, in a segment of their own.

use std::sync::Arc;
use std::time::Instant;

use super::choose::Haste;
use super::job::{Input, Move, going, staying};
use super::retired;
use crate::error::Result;
use crate::format::entry::{FrameEntry, Has};
use crate::format::frame::FrameHeader;
use crate::format::kind::FrameFlags;
use crate::format::manifest::{SegmentRecord, SegmentState};
use crate::format::segment::{SegmentHeader, SegmentKind};
use crate::ids::{Location, Lsn};
use crate::log::active::Active;
use crate::log::check::{Refused, ScannedFrame};
use crate::log::event::Event;
use crate::log::segment::{ReadMode, Segment};
use crate::log::source::Source;
use crate::store::core::Core;
use crate::sync::PORTION_BYTES;

/// Bytes copied before what was read is let go, and in the background synced: what is left for the last sync is little.
const SYNC_BYTES: u64 = 8 << 20;
/// What is a portion where someone waits for the compaction. The disk has one to write while the next one is copied.
const ASKED_PORTION_BYTES: u64 = 2 << 20;
/// Bytes of a frame that are read at once; the rest of a longer one is read as it is copied.
const AHEAD_BYTES_MAX: u64 = 64 << 10;
const _: () = assert!(PORTION_BYTES < SYNC_BYTES, "a sync finds most of its bytes written out");
const _: () = assert!(ASKED_PORTION_BYTES < SYNC_BYTES, "pages are let go after whole portions");

/// A sealed copy that no manifest lists yet.
pub(super) struct Output {
    pub(super) record: SegmentRecord,
    pub(super) segment: Arc<Segment>,
    /// Where the frames of rollouts lie now.
    pub(super) moved: Vec<FrameEntry>,
    pub(super) bytes: u64,
}

/// A copy under way.
struct Copy<'a> {
    core: &'a Core,
    haste: Haste,
    active: Active,
    moved: Vec<FrameEntry>,
    durable: Lsn,
    /// Bytes copied since what was read was let go.
    copied: u64,
    /// Where the pages begin that were not let go yet.
    released: u64,
    /// Where the portion under way begins, and when it was begun.
    portion: u64,
    began: Instant,
}

/// Writes and seals the copy. Inputs with something that cannot be copied are marked as staying. `None` where the store is
/// closing: the file is removed then.
pub(super) fn write(
    core: &Core,
    haste: Haste,
    finished: &[SegmentRecord],
    inputs: &mut [Input],
    moves: &[Move],
) -> Result<Option<Output>> {
    let header = core.lock_writer()?.next_header(core, SegmentKind::Compacted)?;
    // It holds frames of any number.
    let header = SegmentHeader { base_lsn: Lsn::NONE, ..header };
    let read_mode = ReadMode { mapped: false, ..core.read_mode };
    let active = Active::create(&*core.disk, &core.dir, &header, 0, read_mode)?;
    let path = active.segment.path.clone();
    let durable = core.group.durable();
    let (moved, began) = (Vec::new(), Instant::now());
    let copy = Copy { core, haste, active, moved, durable, copied: 0, released: 0, portion: 0, began };
    let written = copy.fill(finished, inputs, moves).and_then(|copy| copy.map(|copy| copy.seal(&header)).transpose());
    if !matches!(written, Ok(Some(_))) {
        // No manifest lists it. Where this fails too, the next open removes it.
        let _ = core.disk.remove_file(&path);
    }
    written
}

impl Copy<'_> {
    fn fill(mut self, finished: &[SegmentRecord], inputs: &mut [Input], moves: &[Move]) -> Result<Option<Self>> {
        let mut buffer = Vec::new();
        for one in moves {
            if self.core.compactor.waker.is_stopped() {
                return Ok(None);
            }
            let Some(input) = inputs.get_mut(one.input).filter(|input| !input.is_damaged) else { continue };
            let offset = u64::from(one.entry.offset_units) * Location::UNIT_BYTES;
            buffer.resize(usize::try_from(one.bytes().min(AHEAD_BYTES_MAX)).unwrap_or(0), 0);
            let ahead = input.read_ahead(&mut buffer, offset).then_some((offset, &buffer[..]));
            let source = Source { ahead, ..input.source() };
            let fault = match source.frame_at(offset, &mut 0) {
                Ok(frame) if (frame.header.rollout, frame.header.lsn) == (one.entry.id, one.entry.lsn) => {
                    self.adopt(&source, frame, one.used)?;
                    self.end_portion(input)?;
                    continue;
                }
                Ok(frame) => format!("frame {} of rollout {}", frame.header.lsn, frame.header.rollout),
                Err(Refused::Disk(error)) => return Err(error),
                Err(Refused::Frame(fault)) => fault.to_string(),
            };
            let (path, rollout) = (input.path.display(), one.entry.id);
            tracing::error!(%path, offset, %rollout, fault, "a damaged frame is not copied, its segment stays; run verify");
            (input.stays, input.is_damaged) = (true, true);
        }
        // Last: a segment that stays after all may hold rollouts whose retirement would have gone.
        loop {
            let needed = retired::still_needed(self.core, &staying(finished, inputs), &going(inputs))?;
            let mut frames = Vec::new();
            let mut all_found = true;
            for (place, input) in inputs.iter_mut().enumerate().filter(|(_, input)| !input.stays) {
                let Some(found) = retired::frames_of(input, &needed)? else {
                    (input.stays, all_found) = (true, false);
                    continue;
                };
                frames.extend(found.into_iter().map(|frame| (place, frame)));
            }
            if all_found {
                for (place, frame) in frames {
                    if let Some(input) = inputs.get(place) {
                        self.adopt(&input.source(), frame, false)?;
                        self.end_portion(input)?;
                    }
                }
                return Ok(Some(self));
            }
        }
    }

    /// Copies one checked frame, as a batch of its own.
    fn adopt(&mut self, source: &Source<'_>, mut frame: ScannedFrame, used: bool) -> Result<()> {
        let mut flags = FrameFlags::MOVED.with(FrameFlags::BATCH_BEGIN).with(FrameFlags::BATCH_END);
        if let Event::Rollout(entry) = &mut frame.event
            && (used || entry.has.contains(Has::USED))
        {
            flags = flags.with(FrameFlags::USED);
            entry.has = entry.has.with(Has::USED);
        }
        let header = FrameHeader { flags, frames_in_batch: 1, ..frame.header };
        self.active.adopt(header, &mut frame.event, self.durable, |buffer, at| {
            source.read(buffer, frame.offset.saturating_add(at), &mut 0)
        })?;
        if let Event::Rollout(entry) = frame.event {
            self.moved.push(entry);
        }
        self.copied += header.frame_len();
        Ok(())
    }

    /// Lets a portion that is whole go out to the disk; one in the background is waited for, and followed by a rest.
    fn end_portion(&mut self, input: &Input) -> Result<()> {
        let end = self.active.end;
        let portion_bytes = if self.haste == Haste::Asked { ASKED_PORTION_BYTES } else { PORTION_BYTES };
        if end - self.portion < portion_bytes {
            return Ok(());
        }
        let out = match self.haste {
            Haste::Asked => {
                self.active.begin_write_out(self.portion)?;
                self.released..self.portion
            }
            Haste::Background => self.released..end,
        };
        self.active.write_out(out.clone())?;
        // Neither what was read nor what was written is what readers asked for: it must not push that out of memory.
        self.released = out.end;
        self.active.file.release_pages(out);
        if self.copied >= SYNC_BYTES {
            if self.haste == Haste::Background {
                self.active.sync()?;
            }
            // What was read lies anywhere in the file, and going through all of it takes time.
            input.release_pages();
            self.copied = 0;
        }
        if self.haste == Haste::Background {
            self.core.pace.rest_after(self.began.elapsed());
        }
        (self.portion, self.began) = (end, Instant::now());
        Ok(())
    }

    fn seal(mut self, header: &SegmentHeader) -> Result<Output> {
        let sealed = self.active.seal()?;
        self.active.file.release_pages(self.released..sealed.len);
        let (core, path) = (self.core, &self.active.segment.path);
        let segment = Segment::open(&*core.disk, path, header.segment, header.salt, sealed.len, core.read_mode)?;
        let record = SegmentRecord {
            id: header.segment,
            kind: header.kind,
            state: SegmentState::Sealed { len: sealed.len, footer_crc: sealed.footer_crc },
            salt: header.salt,
            base_lsn: header.base_lsn,
            min_insert_lsn: sealed.min_insert_lsn,
        };
        Ok(Output { record, segment, moved: self.moved, bytes: sealed.len })
    }
}
