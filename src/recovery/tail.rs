//! The segment that was being written to: whole batches, a torn tail, or damage.

use super::Listed;
use super::base::Begin;
use crate::disk::Disk;
use crate::error::{Damage, Error, Result};
use crate::format::fault::Fault;
use crate::ids::{Lsn, SegmentId};
use crate::log::check::ScannedFrame;
use crate::log::scan::Tail;
use crate::log::segment::fault_at;
use crate::log::source::Source;
use crate::planted::{Bug, planted};

/// The frames of a segment that was never sealed.
#[derive(Debug)]
pub(crate) struct UnsealedTail {
    pub(crate) segment: SegmentId,
    /// Where its reading began.
    pub(super) begin: Begin,
    /// Every frame of its whole batches from there on, in order.
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

/// Reads the active segment. Frames up to `durable` are known to have been so.
pub(super) fn read(disk: &dyn Disk, listed: &Listed, durable: Lsn) -> Result<UnsealedTail> {
    let file = listed.open(disk)?;
    let scan = listed.scan(&*file, listed.file_len);
    let mut frames = Vec::new();
    let tail = scan_unsealed(&scan, listed.begin.lsn.next(), durable, |frame| frames.push(frame))?;
    Ok(UnsealedTail {
        segment: listed.record.id,
        begin: listed.begin,
        frames,
        end: tail.end,
        end_lsn: tail.end_lsn,
        attested: tail.attested.max(durable).min(tail.end_lsn),
        torn_bytes: listed.file_len - tail.end,
        bytes_read: tail.bytes_read,
    })
}

/// Visits the whole batches of a segment that was never sealed, from the one that begins with frame `first_lsn` on. What ends
/// them is a torn tail, or an error: the first frame that is not there was acknowledged.
pub(crate) fn scan_unsealed(
    scan: &Source<'_>,
    first_lsn: Lsn,
    durable: Lsn,
    mut visit: impl FnMut(ScannedFrame),
) -> Result<Tail> {
    let mut tail = scan.run(|frame| {
        visit(frame);
        Ok(())
    })?;
    tail.end_lsn = tail.end_lsn.max(Lsn::new(first_lsn.get().saturating_sub(1)));
    let missing = tail.end_lsn.next();
    let (offset, found) = match &tail.stopped {
        Some(stop) if matches!(stop.fault, Fault::TooNew { .. }) => {
            return Err(fault_at(scan.path, stop.offset, stop.fault.clone()));
        }
        Some(stop) => (stop.offset, stop.fault.to_string()),
        None => (tail.end, "the end of the file".to_owned()),
    };
    let witness = if tail.attested.max(durable) >= missing {
        Some("the manifest or an earlier frame".to_owned())
    } else {
        let behind = scan.frame_behind(offset, |header| header.durable_lsn >= missing, &mut tail.bytes_read)?;
        behind.map(|at| format!("the frame at byte {at}"))
    };
    let witness = witness.filter(|_| !planted(Bug::TakeDamageForTornTail));
    let Some(witness) = witness else { return Ok(tail) };
    let expected = format!("frame {missing}, which {witness} attests to have been durable");
    Err(Error::damaged(Damage { file: scan.path.to_owned(), offset, expected, found }))
}
