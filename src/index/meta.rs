//! The one meta record of the on-disk index: whose it is, how much of the log it covers, and what its rows add up to.
//!
//! May touch `ids`. Pure.
//!
//! Always true:
//! - T1. The record changes in the same transaction as the rows, so that its totals are those of the rows beside it.

use super::hash::digest;
use super::row::{Fields, seal};
use crate::ids::{Lsn, SegmentId};

/// Version of the meta record and of the rows. Another version is rejected, and the index rebuilt.
const FORMAT: u32 = 2;

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
}

/// What the rows add up to: a lost, doubled, older or altered row gives other totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) rows: u64,
    /// The wrapping sum of the rows' digests: it does not depend on their order.
    pub(super) digest: u64,
}

impl Totals {
    pub(super) fn add(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.digest = self.digest.wrapping_add(digest(row));
    }

    pub(super) fn remove(&mut self, row: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.digest = self.digest.wrapping_sub(digest(row));
    }
}

/// The bytes of the meta record.
pub(super) fn encode(meta: &IndexMeta, totals: Totals) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + meta.covered.len() * 4);
    out.extend(FORMAT.to_le_bytes());
    out.extend(meta.identity.store);
    for number in [meta.identity.epoch, meta.applied_lsn.get(), totals.rows, totals.digest] {
        out.extend(number.to_le_bytes());
    }
    for segment in &meta.covered {
        out.extend(segment.0.to_le_bytes());
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
    let mut covered = Vec::new();
    while fields.remaining() > 0 {
        covered.push(SegmentId(fields.u32()?));
    }
    Ok((IndexMeta { identity, applied_lsn, covered }, totals))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(covered: &[u32]) -> IndexMeta {
        IndexMeta {
            identity: Identity { store: *b"0123456789abcdef", epoch: 3 },
            applied_lsn: Lsn::new(99),
            covered: covered.iter().map(|segment| SegmentId(*segment)).collect(),
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
