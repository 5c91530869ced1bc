//! After an unclean stop: the segment that was being written to is cut, and what no one attests is written again.
//!
//! Frames of the last group may have reached the page cache and not the disk, and after a failed sync the system may hold
//! such pages for clean. So they are never trusted where they lie: they are copied, with their LSNs, to a new segment
//! that is sealed before anyone is served from it. The old file stays as it is, since a checkpoint may link it.

use std::rc::Rc;

use super::facts::Facts;
use super::tail::UnsealedTail;
use super::{Base, Listed, Request, Survey, epoch, manifests};
use crate::disk::Access;
use crate::error::{Error, Result};
use crate::format::kind::FrameFlags;
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::ids::{Lsn, SegmentId};
use crate::log::active::Active;
use crate::log::check::ScannedFrame;
use crate::log::seal::lowest;
use crate::planted::{Bug, planted};

impl Survey {
    /// Whether every segment is sealed or cut.
    pub(crate) fn is_settled(&self) -> bool {
        self.tail.is_none()
    }

    /// Leaves no segment unsealed: writes the next manifest generation, which the store is then read by again; what was read
    /// of the log stays known to `base`. Numbers from `next_segment` on were never used; `salt` is random.
    pub(crate) fn settle(
        self,
        request: &Request<'_>,
        next_segment: SegmentId,
        salt: u64,
        base: &mut Base,
    ) -> Result<Manifest> {
        let state = self.end_state();
        let Self { mut manifest, listed, tail, log_bytes_read, .. } = self;
        base.log_bytes_read += log_bytes_read;
        let Some(mut tail) = tail else { return Ok(manifest) };
        let Some(source) = listed.iter().find(|listed| listed.record.id == tail.segment) else { return Ok(manifest) };
        if tail.torn_bytes > 0 {
            tracing::info!(segment = %tail.segment, bytes = tail.torn_bytes, after = %tail.end_lsn, "dropped a torn tail");
        }
        let cut = Cut::of(&tail);
        let unattested = tail.frames.split_off(cut.frames);
        manifest.segments.retain(|record| record.id != tail.segment);
        // A segment that holds nothing is let go; its number stays used.
        if cut.end > SEGMENT_HEADER_BYTES as u64 {
            let state = SegmentState::Cut { end: cut.end, end_lsn: cut.end_lsn };
            let min_insert_lsn = min_insert_lsn(tail.begin.min_insert_lsn, &tail.frames);
            manifest.list(SegmentRecord { state, min_insert_lsn, ..source.record });
        }
        manifest.next_segment_id = next_segment.0;
        if !unattested.is_empty() && !planted(Bug::DropUnattested) {
            let again = write_again(request, source, &manifest, unattested, cut.end_lsn, salt)?;
            manifest.list(again);
            manifest.next_segment_id = next_segment.0.saturating_add(1);
        }
        if planted(Bug::TruncateTornTail) {
            let file = request.disk.open(&source.path, Access::ReadWrite).and_then(|file| file.set_len(cut.end));
            file.map_err(|error| Error::io("truncate", &source.path, error))?;
        }
        manifest.state = state.to_snapshot();
        if source.is_buffered && !planted(Bug::ReuseBufferedNumbers) {
            // Commits that the power took may have told someone their numbers.
            epoch::pass_ceilings(&mut manifest);
        }
        manifest.generation += 1;
        manifests::write(request.disk, request.dir, &manifest)?;
        base.cut = Some((tail.segment, Rc::new(Facts::of(tail.frames))));
        Ok(manifest)
    }
}

/// Where a tail is cut: behind the last batch that is known to be durable.
struct Cut {
    frames: usize,
    end: u64,
    end_lsn: Lsn,
}

impl Cut {
    fn of(tail: &UnsealedTail) -> Self {
        let ends_attested = |frame: &ScannedFrame| {
            (frame.header.lsn <= tail.attested || planted(Bug::TrustUnattested))
                && frame.header.flags.contains(FrameFlags::BATCH_END)
        };
        match tail.frames.iter().rposition(ends_attested).and_then(|at| Some((at, tail.frames.get(at)?))) {
            Some((at, frame)) => Self {
                frames: at + 1,
                end: frame.offset.saturating_add(frame.header.frame_len()),
                end_lsn: frame.header.lsn,
            },
            None if tail.begin.is_behind_start() => Self { frames: 0, end: tail.begin.offset, end_lsn: tail.begin.lsn },
            None => Self { frames: 0, end: SEGMENT_HEADER_BYTES as u64, end_lsn: Lsn::NONE },
        }
    }
}

/// Copies whole batches to a new segment and seals it.
fn write_again(
    request: &Request<'_>,
    source: &Listed,
    manifest: &Manifest,
    frames: Vec<ScannedFrame>,
    durable_lsn: Lsn,
    salt: u64,
) -> Result<SegmentRecord> {
    let base_lsn = frames.first().map_or(Lsn::NONE, |frame| frame.header.lsn);
    let header = SegmentHeader {
        segment: SegmentId(manifest.next_segment_id),
        kind: SegmentKind::Log,
        store_uuid: manifest.store_uuid,
        epoch: manifest.epoch,
        salt,
        base_lsn,
        ref_version: manifest.state.ref_clock.current,
        step: manifest.state.clock,
        compatible_features: 0,
    };
    let bytes: u64 = frames.iter().map(|frame| frame.header.frame_len()).sum();
    let capacity = bytes.saturating_add(SEGMENT_HEADER_BYTES as u64);
    let file = source.open(request.disk)?;
    let mut active = Active::create(request.disk, request.dir, &header, capacity, request.read_mode)?;
    for mut frame in frames {
        active.adopt(frame.header, &mut frame.event, durable_lsn, |buffer, at| {
            let offset = frame.offset.saturating_add(at);
            let read = file.read_exact_at(buffer, offset);
            read.map_err(|error| Error::io(format_args!("read at {offset}"), &source.path, error))
        })?;
    }
    active.sync()?;
    let sealed = active.seal()?;
    Ok(SegmentRecord {
        id: header.segment,
        kind: SegmentKind::Log,
        state: SegmentState::Sealed { len: sealed.len, footer_crc: sealed.footer_crc },
        salt,
        base_lsn,
        min_insert_lsn: sealed.min_insert_lsn,
    })
}

/// The lowest incarnation of these frames and of those in front of them.
fn min_insert_lsn(in_front: Lsn, frames: &[ScannedFrame]) -> Lsn {
    frames.iter().map(|frame| frame.header.insert_lsn).fold(in_front, lowest)
}
