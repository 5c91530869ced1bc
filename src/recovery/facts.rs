//! What a finished segment says of its frames: from its footer, or by a scan where it has none or a bad one.

use std::path::Path;

use super::Listed;
use super::base::Begin;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::format::entry::FrameEntry;
use crate::format::footer::RetiredEntry;
use crate::format::manifest::{SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::ids::{Lsn, RolloutId};
use crate::log::check::ScannedFrame;
use crate::log::event::{Event, Incarnation};
use crate::log::seal::{FooterBuilder, read_footer};

/// The frames of one segment, as the index needs them.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) entries: Vec<FrameEntry>,
    pub(crate) retired: Vec<RetiredEntry>,
    pub(super) used: Vec<(RolloutId, Lsn)>,
}

/// Reads a finished segment of the store in `dir`, which its writer knows to be listed.
pub(crate) fn of_record(disk: &dyn Disk, dir: &Path, record: &SegmentRecord) -> Result<Facts> {
    let path = dir.join(segment_file_name(record.id));
    read(
        disk,
        &Listed { record: *record, path, file_len: 0, is_buffered: false, begin: Begin::at_start(record.base_lsn) },
        &mut 0,
    )
}

/// Reads a sealed or cut segment.
pub(super) fn read(disk: &dyn Disk, listed: &Listed, bytes_read: &mut u64) -> Result<Facts> {
    let file = listed.open(disk)?;
    match listed.record.state {
        SegmentState::Sealed { len, footer_crc } => {
            match read_footer(&listed.scan(&*file, len), footer_crc, bytes_read) {
                Ok((footer, _)) => Ok(Facts {
                    entries: footer.entries,
                    retired: footer.retired,
                    used: footer.used.iter().map(|row| (row.id, row.lsn)).collect(),
                }),
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    tracing::warn!(segment = %listed.path.display(), %error, "the footer is rebuilt by a scan");
                    scan(listed, &*file, len, bytes_read)
                }
                Err(error) => Err(error),
            }
        }
        SegmentState::Cut { end, .. } => scan(listed, &*file, end, bytes_read),
        SegmentState::Active => Ok(Facts::default()),
    }
}

impl Facts {
    /// What these frames say.
    pub(super) fn of(frames: Vec<ScannedFrame>) -> Self {
        let mut facts = Self::default();
        frames.into_iter().for_each(|frame| facts.add(frame.header.lsn, frame.event));
        facts
    }

    fn add(&mut self, lsn: Lsn, event: Event) {
        match event {
            Event::Rollout(entry) => self.entries.push(entry),
            Event::Retire { victims, .. } => {
                let retired = |Incarnation { id, insert_lsn }: Incarnation| RetiredEntry { id, insert_lsn, lsn };
                self.retired.extend(victims.into_iter().map(retired));
            }
            Event::Tally { used, .. } => self.used.extend(used.iter().map(|id| (*id, lsn))),
            _ => {}
        }
    }
}

/// Reads every frame below `end`, or up to where a footer begins; of a segment that is begun behind its start, those from there
/// on.
fn scan(listed: &Listed, file: &dyn DiskFile, end: u64, bytes_read: &mut u64) -> Result<Facts> {
    let mut facts = Facts::default();
    let mut footer = FooterBuilder::new(listed.record.id, listed.record.salt);
    let scan = listed.scan(file, end);
    let tail = scan.run(|frame| {
        footer.add(frame.header.lsn, &frame.header.encode(&scan.seed(frame.offset)), &frame.event);
        facts.add(frame.header.lsn, frame.event);
        Ok(())
    })?;
    *bytes_read += tail.bytes_read;
    let known = if listed.begin.is_behind_start() { listed.begin.lsn } else { Lsn::NONE };
    let whole = match listed.record.state {
        // The frames make the footer that the manifest knows: none of them is missing, the last one neither.
        SegmentState::Sealed { len, footer_crc } => {
            let (bytes, crc) = footer.encode(tail.end);
            (tail.end.saturating_add(bytes.len() as u64), crc) == (len, footer_crc)
        }
        SegmentState::Cut { end_lsn, .. } => tail.end_lsn.max(known) == end_lsn,
        SegmentState::Active => true,
    };
    if whole {
        return Ok(facts);
    }
    let offset = tail.stopped.as_ref().map_or(tail.end, |stop| stop.offset);
    let found = tail.stopped.map_or_else(|| "the end".to_owned(), |stop| stop.fault.to_string());
    let expected = format!("the frame behind {}", tail.end_lsn);
    Err(Error::damaged(Damage { file: listed.path.clone(), offset, expected, found }))
}
