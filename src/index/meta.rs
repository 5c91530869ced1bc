//! The one meta record of the on-disk index: whose it is, how much of the log it covers, what its rows add up to, and what is
//! still being generated, and where a recovery may begin in the segment that was being written to.
//!
//! May touch `ids`, `format::entry` and `format::resume`. Pure.
//!
//! Always true:
//! - T1. The record changes in the same transaction as the rows, so that its totals are those of the rows beside it.

use super::hash::mix;
use super::partials::Piece;
use super::row::{Fields, put_location, seal};
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::format::manifest::StateSnapshot;
use crate::format::resume::{BatchEnd, Resume};
use crate::ids::{Lsn, RolloutId, SegmentId};

/// Version of the meta record and of the rows. Another version is rejected, and the index rebuilt.
const FORMAT: u32 = 4;

/// Which store, and which of its epochs, an index belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: [u8; 16],
    pub(crate) epoch: u64,
}

/// How much of the log an index covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexMeta {
    pub(crate) identity: Identity,
    /// Every frame up to this number, and none beyond, is in the rows.
    pub(crate) applied_lsn: Lsn,
    /// The segments whose frames are all in the rows.
    pub(crate) covered: Vec<SegmentId>,
    /// The pieces of rollouts that are still being generated. They are few and end soon: they have no rows of their own, and
    /// no list of changes. Each flush writes all of them, 64 bytes each, in the record that it writes anyway: rows would cost
    /// a page written for each when it comes and another when it ends, mostly before anyone could ask for it.
    pub(crate) pieces: Vec<Piece>,
    /// Where the frame of `applied_lsn` lies, and the state there; `None` where it lies in a finished segment.
    pub(crate) resume: Option<Resume>,
}

impl IndexMeta {
    /// Of an index that covers nothing.
    pub(crate) fn of_nothing(identity: Identity) -> Self {
        Self { identity, applied_lsn: Lsn::NONE, covered: Vec::new(), pieces: Vec::new(), resume: None }
    }
}

/// What the rows add up to: a lost, doubled, older or altered row gives other totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) rows: u64,
    /// The wrapping sum of the rows' digests: it does not depend on their order.
    pub(super) digest: u64,
}

impl Totals {
    /// A row whose checksum holds.
    pub(super) fn add(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.digest = self.digest.wrapping_add(digest_of(row));
    }

    pub(super) fn remove(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.digest = self.digest.wrapping_sub(digest_of(row));
    }
}

/// A row's digest: of its id, with which it begins, and its checksum, with which it ends. All of the row was read for the checksum.
fn digest_of(row: &[u8]) -> u64 {
    let id = row.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
    let crc = row.last_chunk().map_or(0, |crc| u32::from_le_bytes(*crc));
    mix(mix(id) ^ u64::from(crc))
}

/// The bytes of the meta record. A state that is larger than any manifest holds is left out: it saves reading alone.
pub(super) fn encode(meta: &IndexMeta, totals: Totals) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + meta.covered.len() * 4 + meta.pieces.len() * 64);
    out.extend(FORMAT.to_le_bytes());
    out.extend(meta.identity.store);
    for number in [meta.identity.epoch, meta.applied_lsn.get(), totals.rows, totals.digest] {
        out.extend(number.to_le_bytes());
    }
    out.extend((meta.covered.len() as u64).to_le_bytes());
    for segment in &meta.covered {
        out.extend(segment.0.to_le_bytes());
    }
    out.extend((meta.pieces.len() as u64).to_le_bytes());
    for piece in &meta.pieces {
        put_piece(&mut out, piece);
    }
    if let Some((resume, state)) = meta.resume.as_ref().and_then(|resume| Some((resume, resume.state.encode().ok()?))) {
        put_batch_end(&mut out, resume.end);
        out.extend(state);
    }
    seal(&mut out);
    out
}

/// The meta record of these bytes, or what is wrong with them.
pub(super) fn decode(bytes: &[u8]) -> Result<(IndexMeta, Totals), String> {
    let mut fields = Fields::checked(bytes)?;
    let format = fields.u32()?;
    if format != FORMAT {
        return Err(format!("index format {format}, this program knows {FORMAT}"));
    }
    let identity = Identity { store: fields.array()?, epoch: fields.u64()? };
    let applied_lsn = fields.lsn()?;
    let totals = Totals { rows: fields.u64()?, digest: fields.u64()? };
    let (mut covered, mut pieces) = (Vec::new(), Vec::new());
    for _ in 0..fields.u64()? {
        covered.push(SegmentId(fields.u32()?));
    }
    for _ in 0..fields.u64()? {
        pieces.push(piece(&mut fields)?);
    }
    let resume = if fields.remaining() > 0 { Some(resume(&mut fields, applied_lsn)?) } else { None };
    Ok((IndexMeta { identity, applied_lsn, covered, pieces, resume }, totals))
}

fn put_batch_end(out: &mut Vec<u8>, end: BatchEnd) {
    put_location(out, end.last);
    out.extend(end.min_insert_lsn.get().to_le_bytes());
    out.extend(end.header_crc.to_le_bytes());
}

/// The rest of the record.
fn resume(fields: &mut Fields<'_>, applied_lsn: Lsn) -> Result<Resume, String> {
    let (last, min_insert_lsn, header_crc) = (fields.location()?, fields.lsn()?, fields.u32()?);
    let state = StateSnapshot::decode(fields.rest()).map_err(|fault| fault.to_string())?;
    if state.lsn != applied_lsn {
        return Err(format!("a state as of LSN {}, rows as of {applied_lsn}", state.lsn));
    }
    Ok(Resume { end: BatchEnd { last, header_crc, min_insert_lsn }, state })
}

fn put_piece(out: &mut Vec<u8>, (segment, piece): &Piece) {
    let FrameEntry { id, lsn, insert_lsn, created_step, ref_version, kl_version, .. } = *piece;
    for number in [id.get(), lsn.get(), insert_lsn.get(), created_step, ref_version, kl_version] {
        out.extend(number.to_le_bytes());
    }
    for number in [segment.0, piece.offset_units, piece.frame_units, piece.token_count] {
        out.extend(number.to_le_bytes());
    }
}

fn piece(fields: &mut Fields<'_>) -> Result<Piece, String> {
    let (id, lsn, insert_lsn) = (RolloutId::new(fields.u64()?), fields.lsn()?, fields.lsn()?);
    let (created_step, ref_version, kl_version) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (segment, offset_units) = (SegmentId(fields.u32()?), fields.u32()?);
    let (frame_units, token_count) = (fields.u32()?, fields.u32()?);
    let piece = FrameEntry {
        kind: EntryKind::Piece,
        id,
        lsn,
        insert_lsn,
        offset_units,
        frame_units,
        born_step: created_step,
        ref_version,
        created_step,
        kl_version,
        token_count,
        group: None,
        has: Has::default(),
    };
    Ok((segment, piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing;

    fn meta(covered: &[u32]) -> IndexMeta {
        IndexMeta {
            identity: Identity { store: *b"0123456789abcdef", epoch: 3 },
            applied_lsn: Lsn::new(99),
            covered: covered.iter().map(|segment| SegmentId(*segment)).collect(),
            pieces: covered.iter().map(|segment| (SegmentId(*segment), testing::piece(7, 90, 80))).collect(),
            resume: covered.first().map(|segment| testing::resume(*segment, 99)),
        }
    }

    #[test]
    fn the_record_comes_back() {
        for covered in [&[][..], &[4], &[1, 2, u32::MAX]] {
            let totals = Totals { rows: 5, digest: u64::MAX };
            assert_eq!(decode(&encode(&meta(covered), totals)), Ok((meta(covered), totals)));
        }
    }

    #[test]
    fn a_state_of_another_moment_than_the_rows_is_refused() {
        let resume = Some(testing::resume(1, 98));
        let refused = decode(&encode(&IndexMeta { resume, ..meta(&[1]) }, Totals::default())).unwrap_err();
        assert_eq!(refused, "a state as of LSN 98, rows as of 99");
    }

    #[test]
    fn every_flipped_bit_and_every_shorter_record_is_refused() {
        let bytes = encode(&meta(&[1, 2]), Totals::default());
        for byte in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 1 << bit;
                assert!(decode(&flipped).is_err(), "bit {bit} of byte {byte}");
            }
            assert!(decode(&bytes[..byte]).is_err(), "{byte} bytes");
        }
    }

    #[test]
    fn totals_do_not_depend_on_the_order_and_undo() {
        let (mut forth, mut back) = (Totals::default(), Totals::default());
        forth.add(b"one");
        forth.add(b"two");
        back.add(b"two");
        back.add(b"one");
        assert_eq!(forth, back);
        back.remove(b"two");
        assert_ne!(forth, back);
        back.remove(b"one");
        assert_eq!(back, Totals::default());
    }
}
