//! The segment that was being written to: whole batches, a torn tail, or damage.

use super::Listed;
use crate::disk::Disk;
use crate::error::{Damage, Error, Result};
use crate::format::fault::Fault;
use crate::ids::{Lsn, SegmentId};
use crate::log::scan::{Scan, ScannedFrame, Tail};
use crate::log::segment::fault_at;
use crate::state::State;

/// The frames of a segment that was never sealed.
#[derive(Debug)]
pub(crate) struct UnsealedTail {
    pub(crate) segment: SegmentId,
    /// Every frame of its whole batches, in order.
    pub(crate) frames: Vec<ScannedFrame>,
    /// End of the last whole batch, in bytes.
    pub(crate) end: u64,
    pub(crate) end_lsn: Lsn,
    /// The highest LSN that is known to be durable.
    pub(crate) attested: Lsn,
    /// Bytes behind the last whole batch.
    pub(crate) torn_bytes: u64,
    pub(crate) bytes_read: u64,
}

/// Reads the active segment. `state` is the manifest's: frames up to its LSN are known to have been durable.
pub(super) fn read(disk: &dyn Disk, listed: &Listed, state: &State) -> Result<UnsealedTail> {
    let file = listed.open(disk)?;
    let scan = listed.scan(&*file, listed.file_len);
    let mut frames = Vec::new();
    let tail = scan.run(|frame| {
        frames.push(frame);
        Ok(())
    })?;
    let before = Lsn::new(listed.record.base_lsn.get().saturating_sub(1));
    let end_lsn = tail.end_lsn.max(before);
    judge(listed, &scan, state, &tail, end_lsn)?;
    Ok(UnsealedTail {
        segment: listed.record.id,
        frames,
        end: tail.end,
        end_lsn,
        attested: tail.attested.max(state.lsn).min(end_lsn),
        torn_bytes: listed.file_len - tail.end,
        bytes_read: tail.bytes_read,
    })
}

/// Tells a torn tail from damage: the first frame that is not there was acknowledged, or it was not.
fn judge(listed: &Listed, scan: &Scan<'_>, state: &State, tail: &Tail, end_lsn: Lsn) -> Result<()> {
    let missing = end_lsn.next();
    let offset = tail.stopped.as_ref().map_or(tail.end, |stop| stop.offset);
    if let Some(stop) = &tail.stopped
        && let Fault::TooNew { .. } = stop.fault
    {
        return Err(fault_at(&listed.path, stop.offset, stop.fault.clone()));
    }
    let witness = if tail.attested.max(state.lsn) >= missing {
        Some("the manifest or an earlier frame".to_owned())
    } else {
        let behind = scan.attests_behind(offset, missing)?;
        behind.map(|at| format!("the frame at byte {at}"))
    };
    let Some(witness) = witness else { return Ok(()) };
    let found = tail.stopped.as_ref().map_or_else(|| "the end of the file".to_owned(), |stop| stop.fault.to_string());
    let expected = format!("frame {missing}, which {witness} attests to have been durable");
    Err(Error::damaged(Damage { file: listed.path.clone(), offset, expected, found }))
}
