//! The footer's payload: rows of fixed layout in one archive.
//!
//! May touch `archive`, `entry`, `fault`, ids.

use rkyv::{Archive, Serialize};

use super::{Footer, RetiredEntry, UsedEntry};
use crate::format::archive;
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::format::fault::Fault;
use crate::ids::{Lsn, RolloutId, SegmentId};

/// Greatest size of the payload: an archive's pointers reach 2 GiB, and its root takes the rest.
const PAYLOAD_BYTES_MAX: usize = (1 << 31) - 4096;

/// One rollout frame: 80 bytes.
#[derive(Archive, Serialize)]
struct FooterEntryRow {
    id: u64,
    lsn: u64,
    insert_lsn: u64,
    born_step: u64,
    ref_version: u64,
    created_step: u64,
    kl_version: u64,
    /// 0 where bit 15 of `has` is not set.
    group: u64,
    offset_units: u32,
    frame_units: u32,
    token_count: u32,
    kind: u16,
    has: u16,
}

/// The bit of a row's `has` that says that there is a group.
const HAS_GROUP: u16 = 1 << 15;

/// One retired incarnation: 24 bytes.
#[derive(Archive, Serialize)]
struct RetiredRow {
    id: u64,
    insert_lsn: u64,
    lsn: u64,
}

/// One rollout that was asked for: 16 bytes.
#[derive(Archive, Serialize)]
struct UsedRow {
    id: u64,
    lsn: u64,
}

const _: () = assert!(size_of::<ArchivedFooterEntryRow>() == 80, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedRetiredRow>() == 24, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedUsedRow>() == 16, "the layout has no gaps");

/// The root of the archive.
#[derive(Archive, Serialize)]
struct FooterRows {
    frames: u64,
    min_lsn: u64,
    max_lsn: u64,
    min_insert_lsn: u64,
    born_min: u64,
    born_max: u64,
    version_min: u64,
    version_max: u64,
    header_hash: u64,
    entries: Vec<FooterEntryRow>,
    retired: Vec<RetiredRow>,
    used: Vec<UsedRow>,
    segment: u32,
    reserved: u32,
}

/// The payload; `None` where there are too many rows for one archive.
pub(super) fn encode(footer: &Footer) -> Option<Vec<u8>> {
    let bytes = bytes_of_rows(footer.entries.len(), footer.retired.len(), footer.used.len());
    let bytes = bytes.filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX)?;
    let rows = FooterRows {
        frames: footer.frames,
        min_lsn: footer.min_lsn.get(),
        max_lsn: footer.max_lsn.get(),
        min_insert_lsn: footer.min_insert_lsn.get(),
        born_min: footer.born_min,
        born_max: footer.born_max,
        version_min: footer.version_min,
        version_max: footer.version_max,
        header_hash: footer.header_hash,
        entries: footer.entries.iter().map(entry_row).collect(),
        retired: footer.retired.iter().map(retired_row).collect(),
        used: footer.used.iter().map(|used| UsedRow { id: used.id.get(), lsn: used.lsn.get() }).collect(),
        segment: footer.segment.0,
        reserved: 0,
    };
    let with_root_and_trailer = bytes.saturating_add(256);
    archive::append(&rows, Vec::with_capacity(with_root_and_trailer))
}

/// Reads a payload whose checksum holds. The vectors are no longer than the payload, which lies in memory already.
pub(super) fn decode(payload: &[u8]) -> Result<Footer, Fault> {
    let rows = archive::read::<ArchivedFooterRows>("footer", payload)?;
    if rows.reserved != 0 {
        return Err(Fault::too_new("footer field", "in its reserved bytes"));
    }
    let used = |row: &ArchivedUsedRow| UsedEntry { id: id(row.id), lsn: lsn(row.lsn) };
    Ok(Footer {
        segment: SegmentId(rows.segment.to_native()),
        frames: rows.frames.to_native(),
        min_lsn: lsn(rows.min_lsn),
        max_lsn: lsn(rows.max_lsn),
        min_insert_lsn: lsn(rows.min_insert_lsn),
        born_min: rows.born_min.to_native(),
        born_max: rows.born_max.to_native(),
        version_min: rows.version_min.to_native(),
        version_max: rows.version_max.to_native(),
        header_hash: rows.header_hash.to_native(),
        entries: rows.entries.iter().map(entry_of_row).collect::<Result<_, _>>()?,
        retired: rows.retired.iter().map(retired_of_row).collect(),
        used: rows.used.iter().map(used).collect(),
    })
}

fn bytes_of_rows(entries: usize, retired: usize, used: usize) -> Option<usize> {
    let entries = entries.checked_mul(size_of::<ArchivedFooterEntryRow>())?;
    let retired = retired.checked_mul(size_of::<ArchivedRetiredRow>())?;
    let used = used.checked_mul(size_of::<ArchivedUsedRow>())?;
    entries.checked_add(retired)?.checked_add(used)
}

fn entry_row(entry: &FrameEntry) -> FooterEntryRow {
    FooterEntryRow {
        id: entry.id.get(),
        lsn: entry.lsn.get(),
        insert_lsn: entry.insert_lsn.get(),
        born_step: entry.born_step,
        ref_version: entry.ref_version,
        created_step: entry.created_step,
        kl_version: entry.kl_version,
        group: entry.group.unwrap_or(0),
        offset_units: entry.offset_units,
        frame_units: entry.frame_units,
        token_count: entry.token_count,
        kind: match entry.kind {
            EntryKind::Insert => 1,
            EntryKind::OldLogps => 2,
            EntryKind::KlRefLogps => 3,
            EntryKind::Piece => 4,
        },
        has: entry.has.0 | if entry.group.is_some() { HAS_GROUP } else { 0 },
    }
}

fn entry_of_row(row: &ArchivedFooterEntryRow) -> Result<FrameEntry, Fault> {
    let kind = match row.kind.to_native() {
        1 => EntryKind::Insert,
        2 => EntryKind::OldLogps,
        3 => EntryKind::KlRefLogps,
        4 => EntryKind::Piece,
        other => return Err(Fault::too_new("footer entry kind", other)),
    };
    let bits = row.has.to_native();
    let has = Has(bits & !HAS_GROUP);
    if !Has::KNOWN.contains(has) {
        return Err(Fault::too_new("footer entry bits", format_args!("{:#06x}", has.0)));
    }
    Ok(FrameEntry {
        kind,
        id: id(row.id),
        lsn: lsn(row.lsn),
        insert_lsn: lsn(row.insert_lsn),
        offset_units: row.offset_units.to_native(),
        frame_units: row.frame_units.to_native(),
        born_step: row.born_step.to_native(),
        ref_version: row.ref_version.to_native(),
        created_step: row.created_step.to_native(),
        kl_version: row.kl_version.to_native(),
        token_count: row.token_count.to_native(),
        group: (bits & HAS_GROUP != 0).then_some(row.group.to_native()),
        has,
    })
}

fn retired_row(retired: &RetiredEntry) -> RetiredRow {
    RetiredRow { id: retired.id.get(), insert_lsn: retired.insert_lsn.get(), lsn: retired.lsn.get() }
}

fn retired_of_row(row: &ArchivedRetiredRow) -> RetiredEntry {
    RetiredEntry { id: id(row.id), insert_lsn: lsn(row.insert_lsn), lsn: lsn(row.lsn) }
}

fn id(raw: rkyv::rend::u64_le) -> RolloutId {
    RolloutId::new(raw.to_native())
}

fn lsn(raw: rkyv::rend::u64_le) -> Lsn {
    Lsn::new(raw.to_native())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_an_archive_takes_are_counted_before_they_are_copied() {
        let entries_max = PAYLOAD_BYTES_MAX / 80;
        assert!(bytes_of_rows(entries_max, 0, 0).unwrap() <= PAYLOAD_BYTES_MAX);
        assert!(bytes_of_rows(entries_max, 2, 2).unwrap() > PAYLOAD_BYTES_MAX);
        assert_eq!(bytes_of_rows(usize::MAX, 0, 0), None);
    }
}
