//! One row of the on-disk index: all that is known of one rollout, in little-endian bytes with a checksum.
//!
//! May touch `ids` and `format::entry`. Pure. A row:
//!
//! | bytes | field |
//! |---|---|
//! | 8 × 6 | id, insert LSN, old LSN, created step, born step, ref version |
//! | 8 × 2 | insert location, old location: segment u32, offset u32 in 64-byte units |
//! | 4 × 3 | token count, units of the insert frame, units of the frame with the newest old logps |
//! | 2, 2 | `Has` bits, parts: bit 0 KL, bit 1 first old logps, bit 2 group |
//! | 28 | where bit 0 is set: KL LSN, KL version, KL location, units |
//! | 20 | where bit 1 is set: LSN, location and units of the first old logps |
//! | 8 | where bit 2 is set: group |
//! | 4 | CRC-32 of all before |
//!
//! Always true:
//! - W1. One row has one encoding: `decode` takes what `encode` gives, and nothing else.

use super::entry::{Entry, Extra, FirstOld, KlEntry};
use super::frame_size::rounded;
use crate::format::entry::{FrameEntry, Has};
use crate::ids::{Location, Lsn, RolloutId, SegmentId};

const HAS_KL: u16 = 1;
const HAS_FIRST_OLD: u16 = 1 << 1;
const HAS_GROUP: u16 = 1 << 2;

/// Bytes of the checksum that ends rows and the index's meta record.
const CRC_BYTES: usize = 4;

/// All that is known of one rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) entry: Entry,
    pub(crate) extra: Extra,
}

impl Row {
    /// What an insert frame alone says of its rollout.
    pub(super) fn of_insert(at: Location, frame: &FrameEntry) -> Self {
        let FrameEntry { id, lsn, created_step, born_step, ref_version, token_count, group, has, .. } = *frame;
        let old_lsn = if has.contains(Has::OLD) { lsn } else { Lsn::NONE };
        let units = frame.frame_units;
        let kl = has.contains(Has::KL_REF).then_some(KlEntry { at, lsn, units, version: frame.kl_version });
        let entry = Entry {
            id,
            insert: at,
            old: at,
            insert_lsn: lsn,
            old_lsn,
            created_step,
            born_step,
            ref_version,
            token_count,
            insert_units: rounded(units),
            old_units: rounded(units),
            group,
            has,
        };
        Self { entry, extra: Extra { kl, first_old: None } }
    }

    /// The frames that the row points to, each with its number; one that it points to twice comes twice.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Location, Lsn)> {
        let Self { entry, extra } = self;
        let kl = extra.kl.map(|kl| (kl.at, kl.lsn));
        let first_old = extra.first_old.map(|first| (first.at, first.lsn));
        [(entry.insert, entry.insert_lsn), (entry.old, entry.old_lsn)].into_iter().chain(kl).chain(first_old)
    }

    /// Replaces the contents of `out` by the row's bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { entry, extra } = self;
        out.clear();
        for number in [entry.id.get(), entry.insert_lsn.get(), entry.old_lsn.get()] {
            out.extend(number.to_le_bytes());
        }
        for number in [entry.created_step, entry.born_step, entry.ref_version] {
            out.extend(number.to_le_bytes());
        }
        put_location(out, entry.insert);
        put_location(out, entry.old);
        for number in [entry.token_count, entry.insert_units, entry.old_units] {
            out.extend(number.to_le_bytes());
        }
        out.extend(entry.has.0.to_le_bytes());
        let kl_bit = if extra.kl.is_some() { HAS_KL } else { 0 };
        let first_bit = if extra.first_old.is_some() { HAS_FIRST_OLD } else { 0 };
        let group_bit = if entry.group.is_some() { HAS_GROUP } else { 0 };
        out.extend((kl_bit | first_bit | group_bit).to_le_bytes());
        if let Some(kl) = &extra.kl {
            out.extend(kl.lsn.get().to_le_bytes());
            out.extend(kl.version.to_le_bytes());
            put_location(out, kl.at);
            out.extend(kl.units.to_le_bytes());
        }
        if let Some(first) = &extra.first_old {
            out.extend(first.lsn.get().to_le_bytes());
            put_location(out, first.at);
            out.extend(first.units.to_le_bytes());
        }
        out.extend(entry.group.map(u64::to_le_bytes).into_iter().flatten());
        seal(out);
    }

    /// The row of these bytes, or what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields::checked(bytes)?;
        let (id, insert_lsn, old_lsn) = (RolloutId::new(fields.u64()?), fields.lsn()?, fields.lsn()?);
        let (created_step, born_step, ref_version) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (insert, old, token_count) = (fields.location()?, fields.location()?, fields.u32()?);
        let (insert_units, old_units) = (fields.u32()?, fields.u32()?);
        let (has, parts) = (Has(fields.u16()?), fields.u16()?);
        if parts & !(HAS_KL | HAS_FIRST_OLD | HAS_GROUP) != 0 {
            return Err(format!("unknown parts {parts:#x}"));
        }
        let mut extra = Extra::default();
        if parts & HAS_KL != 0 {
            let (lsn, version) = (fields.lsn()?, fields.u64()?);
            extra.kl = Some(KlEntry { at: fields.location()?, lsn, units: fields.u32()?, version });
        }
        if parts & HAS_FIRST_OLD != 0 {
            let lsn = fields.lsn()?;
            extra.first_old = Some(FirstOld { at: fields.location()?, lsn, units: fields.u32()? });
        }
        let group = if parts & HAS_GROUP != 0 { Some(fields.u64()?) } else { None };
        fields.end()?;
        let entry = Entry {
            id,
            insert,
            old,
            insert_lsn,
            old_lsn,
            created_step,
            born_step,
            ref_version,
            token_count,
            insert_units,
            old_units,
            group,
            has,
        };
        let row = Self { entry, extra };
        row.check().map_err(|what| format!("row of rollout {id}: {what}"))?;
        Ok(row)
    }

    /// Refuses what no sequence of frames can lead to.
    fn check(&self) -> Result<(), &'static str> {
        let Self { entry, extra } = self;
        let Entry { insert, old, insert_lsn, old_lsn, insert_units, old_units, has, .. } = *entry;
        let rules = [
            (has.0 & !Has::KNOWN.0 == 0, "unknown facts"),
            (insert_lsn != Lsn::NONE, "no insert LSN"),
            (rounded(insert_units) == insert_units && rounded(old_units) == old_units, "a length that is never kept"),
            (old != insert || old_units == insert_units, "two lengths of one frame"),
            (has.contains(Has::OLD) == (old_lsn != Lsn::NONE), "old logps and their LSN disagree"),
            (old_lsn == Lsn::NONE || old_lsn >= insert_lsn, "old logps before the insert"),
            (old_lsn > insert_lsn || old == insert, "old logps of the insert lie elsewhere"),
            (has.contains(Has::KL_REF) == extra.kl.is_some(), "KL logps and their entry disagree"),
            (extra.kl.is_none_or(|kl| kl.lsn >= insert_lsn), "KL logps before the insert"),
            (extra.first_old.is_none() || !has.contains(Has::SAMPLER), "two sets of behaviour logps"),
            (
                extra.first_old.is_none_or(|first| first.lsn > insert_lsn && first.lsn <= old_lsn),
                "first old logps before the insert or after the newest",
            ),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(*what))
    }
}

/// Appends the checksum of all bytes so far.
pub(super) fn seal(out: &mut Vec<u8>) {
    let crc = crc32fast::hash(out);
    out.extend(crc.to_le_bytes());
}

/// Appends a location.
pub(super) fn put_location(out: &mut Vec<u8>, at: Location) {
    out.extend(at.segment.0.to_le_bytes());
    out.extend(at.offset_units.to_le_bytes());
}

/// Reads little-endian fields one after the other, of bytes whose checksum holds.
#[derive(Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Checks and cuts off the checksum at the end.
    pub(super) fn checked(bytes: &'a [u8]) -> Result<Self, String> {
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or("too short for a checksum")?;
        let (expected, found) = (u32::from_le_bytes(*crc), crc32fast::hash(body));
        if expected != found {
            return Err(format!("checksum {expected:#010x}, computed {found:#010x}"));
        }
        Ok(Self(body))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or("ends within a field")?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn lsn(&mut self) -> Result<Lsn, String> {
        self.u64().map(Lsn::new)
    }

    /// Nothing may follow the last field.
    pub(super) fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", self.0.len())) }
    }

    /// The bytes that are left.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    /// The bytes that are left; none are afterwards.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(super) fn location(&mut self) -> Result<Location, String> {
        Ok(Location { segment: SegmentId(self.u32()?), offset_units: self.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::{at, rich_row};

    fn encoded(row: &Row) -> Vec<u8> {
        let mut bytes = vec![0xaa; 3];
        row.encode(&mut bytes);
        bytes
    }

    fn resealed(mut body: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        body.truncate(body.len() - CRC_BYTES);
        change(&mut body);
        seal(&mut body);
        body
    }

    #[test]
    fn a_row_comes_back_with_any_of_its_parts() {
        let full = rich_row(7);
        let kl_alone = Row { extra: Extra { first_old: None, ..full.extra }, ..full };
        let mut plain = Row { extra: Extra::default(), ..full };
        plain.entry.has = Has::OLD;
        for (row, bytes) in [(full, 140), (kl_alone, 120), (plain, 92)] {
            assert_eq!(encoded(&row).len(), bytes);
            assert_eq!(Row::decode(&encoded(&row)), Ok(row));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_refused() {
        let bytes = encoded(&rich_row(7));
        for byte in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 1 << bit;
                assert!(Row::decode(&flipped).is_err(), "bit {bit} of byte {byte}");
            }
            assert!(Row::decode(&bytes[..byte]).is_err(), "{byte} bytes");
        }
    }

    #[test]
    fn a_sealed_row_that_is_not_exactly_one_row_is_refused() {
        let bytes = encoded(&rich_row(7));
        let longer = resealed(bytes.clone(), |body| body.push(0));
        assert_eq!(Row::decode(&longer), Err("1 bytes too many".to_owned()));
        let shorter = resealed(bytes.clone(), |body| body.truncate(body.len() - 1));
        assert_eq!(Row::decode(&shorter), Err("ends within a field".to_owned()));
        let unknown = resealed(bytes, |body| body[78] |= 8);
        assert_eq!(Row::decode(&unknown), Err("unknown parts 0xf".to_owned()));
    }

    #[test]
    fn a_row_that_no_frames_lead_to_is_refused() {
        type Change = fn(&mut Row);
        let impossible: [(Change, &str); 8] = [
            (|row| row.entry.has.0 |= 1 << 4, "unknown facts"),
            (|row| row.entry.insert_lsn = Lsn::NONE, "no insert LSN"),
            (|row| row.entry.old_lsn = Lsn::NONE, "disagree"),
            (|row| row.entry.old_lsn = Lsn::new(1), "before the insert"),
            (|row| (row.entry.old_lsn, row.entry.old) = (row.entry.insert_lsn, at(9, 9)), "lie elsewhere"),
            (|row| row.extra.kl = None, "KL logps and their entry disagree"),
            (|row| row.entry.has = row.entry.has.with(Has::SAMPLER), "two sets"),
            (|row| row.extra.first_old.as_mut().unwrap().lsn = Lsn::new(1 << 40), "after the newest"),
        ];
        for (change, what) in impossible {
            let mut row = rich_row(7);
            change(&mut row);
            let refused = Row::decode(&encoded(&row)).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
