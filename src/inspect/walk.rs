//! Every frame of one segment, past damage: after bytes that are no frame the next whole header is looked for.

use std::ops::Range;

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::frame::{FRAME_ALIGN, FrameHeader, HEADER_BYTES};
use crate::ids::RolloutId;
use crate::log::check::{Refused, ScannedFrame};
use crate::log::source::Source;

/// What stands at a place of a segment.
#[derive(Debug)]
pub(crate) enum Step {
    /// A whole frame.
    Frame(Box<ScannedFrame>),
    /// A frame whose header is whole and whose rest is not.
    Damaged { header: FrameHeader, offset: u64, fault: Fault },
    /// Bytes up to `next` that are no frame; `next` is the end where no frame follows.
    Lost { offset: u64, next: u64, fault: Fault },
}

impl Step {
    /// The header of what stands here, where it is whole.
    pub(crate) fn header(&self) -> Option<&FrameHeader> {
        match self {
            Self::Frame(frame) => Some(&frame.header),
            Self::Damaged { header, .. } => Some(header),
            Self::Lost { .. } => None,
        }
    }

    /// The rollout that damage belongs to, where the header still tells.
    pub(crate) fn rollout(&self) -> Option<RolloutId> {
        match self {
            Self::Damaged { header, .. } if header.kind.is_rollout() => Some(header.rollout),
            _ => None,
        }
    }
}

/// Visits every place of `frames`, a range of the segment's file.
pub(crate) fn walk(
    scan: &Source<'_>,
    frames: Range<u64>,
    bytes_read: &mut u64,
    visit: impl FnMut(Step) -> Result<()>,
) -> Result<()> {
    walk_where(scan, frames, |_| true, bytes_read, visit)
}

/// As [`walk`], passing over frames that nobody wants by their header: what lies behind it is not read.
pub(super) fn walk_where(
    scan: &Source<'_>,
    frames: Range<u64>,
    wanted: impl Fn(&FrameHeader) -> bool,
    bytes_read: &mut u64,
    mut visit: impl FnMut(Step) -> Result<()>,
) -> Result<()> {
    let mut offset = frames.start;
    while offset < frames.end {
        let header = match scan.header_at(offset, bytes_read) {
            Ok(header) => header,
            Err(Refused::Disk(error)) => return Err(error),
            Err(Refused::Frame(fault)) => {
                let next = scan.frame_behind(offset, |_| true, &mut 0)?.map_or(frames.end, |next| next.min(frames.end));
                visit(Step::Lost { offset, next, fault })?;
                offset = next;
                continue;
            }
        };
        if !wanted(&header) {
            offset = offset.saturating_add(header.frame_len());
            continue;
        }
        let checked = scan.frame_at(offset, bytes_read).and_then(|frame| {
            check_padding(scan, &frame, bytes_read)?;
            Ok(frame)
        });
        match checked {
            Ok(frame) => visit(Step::Frame(Box::new(frame)))?,
            Err(Refused::Disk(error)) => return Err(error),
            Err(Refused::Frame(fault)) => visit(Step::Damaged { header, offset, fault })?,
        }
        offset = offset.saturating_add(header.frame_len());
    }
    Ok(())
}

/// Bytes that no checksum covers are zero: behind the descriptor, and between arrays.
fn check_padding(scan: &Source<'_>, frame: &ScannedFrame, bytes_read: &mut u64) -> Result<(), Refused> {
    let meta_end = frame.offset.saturating_add(HEADER_BYTES as u64).saturating_add(u64::from(frame.header.meta_len));
    let arrays = frame.offset.saturating_add(frame.header.body_start());
    let frame_end = frame.offset.saturating_add(frame.header.frame_len());
    let mut gaps = Vec::new();
    let mut covered = arrays;
    for range in scan.column_ranges(frame, bytes_read)? {
        gaps.push(covered..arrays.saturating_add(range.start));
        covered = arrays.saturating_add(range.end);
    }
    gaps.extend([covered..frame_end, meta_end..arrays]);
    for gap in gaps {
        let len = gap.end.saturating_sub(gap.start);
        // Arrays begin at the next boundary: a sound frame has no longer gap.
        if len >= FRAME_ALIGN {
            return Err(Fault::damaged("padding", gap.start - frame.offset, "less than 64 bytes", len).into());
        }
        let mut bytes = [0; 64];
        let bytes = bytes.get_mut(..usize::try_from(len).unwrap_or(0)).unwrap_or_default();
        scan.read(bytes, gap.start, bytes_read)?;
        if let Some(byte) = bytes.iter().find(|byte| **byte != 0) {
            return Err(
                Fault::damaged("padding", gap.start - frame.offset, "zeros", format_args!("{byte:#04x}")).into()
            );
        }
    }
    Ok(())
}
