//! Which retirements must be kept: those of rollouts whose insert, or a piece, is still in some segment.

use std::collections::{BTreeSet, HashMap};

use super::job::Input;
use crate::error::Result;
use crate::format::entry::EntryKind;
use crate::format::kind::FrameKind;
use crate::format::manifest::SegmentRecord;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::{Lsn, RolloutId};
use crate::log::check::{Refused, ScannedFrame};
use crate::planted::{Bug, planted};
use crate::recovery::facts;
use crate::store::core::Core;

/// The retire frames in `going` without which a rollout would come back from one of the segments that are `staying`.
///
/// The segment that is written to need not be looked at: what it inserts came after every frame of a finished one.
pub(super) fn still_needed(core: &Core, staying: &[SegmentRecord], going: &[&Input]) -> Result<BTreeSet<Lsn>> {
    let retired = going.iter().flat_map(|input| &input.facts.retired);
    let victims: HashMap<(RolloutId, Lsn), Lsn> = retired.map(|row| ((row.id, row.insert_lsn), row.lsn)).collect();
    let newest = victims.keys().map(|(_, insert_lsn)| *insert_lsn).max().unwrap_or(Lsn::NONE);
    let mut needed = BTreeSet::new();
    let may_hold = |record: &&SegmentRecord| record.min_insert_lsn <= newest && !planted(Bug::DropRetireFrameEarly);
    for record in staying.iter().filter(may_hold).filter(|_| !victims.is_empty()) {
        let facts = facts::of_record(&*core.disk, &core.dir, record)?;
        let is_piece = |kind| kind == EntryKind::Piece && !planted(Bug::ForgetOpenPieces);
        let inserts = facts.entries.iter().filter(|entry| entry.kind == EntryKind::Insert || is_piece(entry.kind));
        needed.extend(inserts.filter_map(|entry| victims.get(&(entry.id, entry.insert_lsn))));
    }
    Ok(needed)
}

/// Bytes that the retire frames take in a copy, rows of its footer included; about, since the frames are not looked at.
pub(super) fn bytes_of(going: &[&Input], needed: &BTreeSet<Lsn>) -> u64 {
    /// A frame without its victims: its header, and what its descriptor has beside them.
    const FRAME_BYTES: u64 = 256;
    /// A victim in a frame and in the footer.
    const VICTIM_BYTES: u64 = 16 + 24;
    let rows = going.iter().flat_map(|input| &input.facts.retired).filter(|row| needed.contains(&row.lsn)).count();
    needed.len() as u64 * FRAME_BYTES + rows as u64 * VICTIM_BYTES
}

/// Those of the retire frames that lie in one input; `None` where the way to one of them is damaged.
pub(super) fn frames_of(input: &Input, needed: &BTreeSet<Lsn>) -> Result<Option<Vec<ScannedFrame>>> {
    let mut missing: BTreeSet<Lsn> =
        input.facts.retired.iter().map(|row| row.lsn).filter(|lsn| needed.contains(lsn)).collect();
    let (source, mut offset, mut found) = (input.source(), SEGMENT_HEADER_BYTES as u64, Vec::new());
    while !missing.is_empty() {
        let header = match source.header_at(offset, &mut 0) {
            Ok(header) => header,
            Err(Refused::Disk(error)) => return Err(error),
            Err(Refused::Frame(_)) => return Ok(None),
        };
        if header.kind == FrameKind::Retire && missing.remove(&header.lsn) {
            match source.frame_at(offset, &mut 0) {
                Ok(frame) => found.push(frame),
                Err(Refused::Disk(error)) => return Err(error),
                Err(Refused::Frame(_)) => return Ok(None),
            }
        }
        offset = offset.saturating_add(header.frame_len());
    }
    Ok(Some(found))
}
