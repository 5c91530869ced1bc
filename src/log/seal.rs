//! Footers: what a sealed segment says of its frames, so that no one has to read them again.

use crate::disk::aligned::AlignedBuf;
use crate::error::{Damage, Error, Result};
use crate::format::entry::{EntryKind, FrameEntry};
use crate::format::footer::{Footer, HeaderHash, RetiredEntry, TRAILER_BYTES, TrailerInfo, UsedEntry, decode_trailer};
use crate::format::frame::HEADER_BYTES;
use crate::ids::{Lsn, SegmentId};
use crate::log::event::Event;
use crate::log::segment::fault_at;
use crate::log::source::Source;
use crate::planted::{Bug, planted};

/// Bytes of a footer beside its rows: the root, padding and the trailer.
const FIXED_BYTES: u64 = 512;

/// Bytes of the largest row: a rollout frame's.
const ROW_BYTES: u64 = 80;

/// A footer under construction: frames are added as they are written.
#[derive(Debug)]
pub(crate) struct FooterBuilder {
    segment: SegmentId,
    salt: u64,
    frames: u64,
    hash: HeaderHash,
    min_lsn: Lsn,
    max_lsn: Lsn,
    min_insert_lsn: Lsn,
    entries: Vec<FrameEntry>,
    retired: Vec<RetiredEntry>,
    used: Vec<UsedEntry>,
}

impl FooterBuilder {
    pub(crate) fn new(segment: SegmentId, salt: u64) -> Self {
        Self {
            segment,
            salt,
            frames: 0,
            hash: HeaderHash::new(),
            min_lsn: Lsn::NONE,
            max_lsn: Lsn::NONE,
            min_insert_lsn: Lsn::NONE,
            entries: Vec::new(),
            retired: Vec::new(),
            used: Vec::new(),
        }
    }

    /// One more frame.
    pub(crate) fn add(&mut self, lsn: Lsn, header: &[u8; HEADER_BYTES], event: &Event) {
        // Frames that were moved here lie in any order.
        self.min_lsn = if self.frames == 0 { lsn } else { self.min_lsn.min(lsn) };
        self.frames += 1;
        self.hash.update(header);
        self.max_lsn = self.max_lsn.max(lsn);
        match event {
            Event::Rollout(entry) => {
                self.min_insert_lsn = lowest(self.min_insert_lsn, entry.insert_lsn);
                self.entries.push(*entry);
            }
            Event::Retire { victims, .. } => {
                let retired =
                    victims.iter().map(|victim| RetiredEntry { id: victim.id, insert_lsn: victim.insert_lsn, lsn });
                self.retired.extend(retired);
            }
            Event::Tally { used, .. } => self.used.extend(used.iter().map(|id| UsedEntry { id: *id, lsn })),
            Event::RetireLine { .. }
            | Event::Advance { .. }
            | Event::Rewind { .. }
            | Event::Cursor(_)
            | Event::Sweep { .. }
            | Event::Ignored => {}
        }
    }

    /// The lowest incarnation that a frame of this segment belongs to; [`Lsn::NONE`] where none does.
    pub(crate) fn min_insert_lsn(&self) -> Lsn {
        self.min_insert_lsn
    }

    /// The greatest number of bytes that the footer takes, with so many rows more.
    pub(crate) fn bytes_max(&self, more_rows: u64) -> u64 {
        let rows = self.entries.len() + self.retired.len() + self.used.len();
        FIXED_BYTES + (rows as u64).saturating_add(more_rows).saturating_mul(ROW_BYTES)
    }

    /// The footer's bytes for writing at `offset`, and the checksum that the manifest keeps.
    pub(crate) fn encode(&mut self, offset: u64) -> (Vec<u8>, u32) {
        let min_insert_lsn = self.min_insert_lsn();
        // In place: they are many where rollouts are small, and in no order that anyone else asks for.
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| (entry.id, entry.lsn));
        let bounds = |value: fn(&FrameEntry) -> u64| {
            // What a piece has in place of a version is a count of tokens.
            let values = entries.iter().filter(|entry| entry.kind != EntryKind::Piece).map(value);
            (values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let (born_min, born_max) = bounds(|entry| entry.born_step);
        let (version_min, version_max) = bounds(|entry| entry.ref_version);
        let footer = Footer {
            segment: self.segment,
            frames: self.frames,
            min_lsn: self.min_lsn,
            max_lsn: self.max_lsn,
            min_insert_lsn,
            born_min,
            born_max,
            version_min,
            version_max,
            header_hash: self.hash.finish(),
            entries,
            retired: std::mem::take(&mut self.retired),
            used: std::mem::take(&mut self.used),
        };
        let encoded = footer.encode(self.salt, offset);
        // It may be asked for again, where there was no space to write it.
        Footer { entries: self.entries, retired: self.retired, used: self.used, .. } = footer;
        (encoded.bytes, encoded.trailer.crc)
    }
}

/// The lower of two numbers, where [`Lsn::NONE`] is none.
pub(crate) fn lowest(a: Lsn, b: Lsn) -> Lsn {
    if a == Lsn::NONE || b == Lsn::NONE { a.max(b) } else { a.min(b) }
}

/// Reads the footer of a sealed segment of `len` bytes, whose checksum the manifest says to be `footer_crc`. Counts what
/// it reads in `bytes_read`.
pub(crate) fn read_footer(scan: &Source<'_>, footer_crc: u32, bytes_read: &mut u64) -> Result<(Footer, TrailerInfo)> {
    let trailer_offset = scan.end.saturating_sub(TRAILER_BYTES as u64);
    let mut trailer = [0; TRAILER_BYTES];
    scan.read(&mut trailer, trailer_offset, bytes_read)?;
    let info = decode_trailer(&trailer, scan.segment, scan.salt, scan.end)
        .map_err(|fault| fault_at(scan.path, trailer_offset, fault))?;
    if info.crc != footer_crc && !planted(Bug::NoFooterCrc) {
        return Err(Error::damaged(Damage {
            file: scan.path.to_owned(),
            offset: trailer_offset,
            expected: format!("footer checksum {footer_crc:#010x} of the manifest"),
            found: format!("{:#010x}", info.crc),
        }));
    }
    // The trailer was checked: its payload ends where the trailer begins.
    let region = usize::try_from(trailer_offset.saturating_sub(info.offset)).unwrap_or(0);
    let mut region = AlignedBuf::zeroed(region);
    scan.read(&mut region, info.offset, bytes_read)?;
    let footer = Footer::decode(&region, &info).map_err(|fault| fault_at(scan.path, info.offset, fault))?;
    Ok((footer, info))
}
