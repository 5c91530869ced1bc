//! Checksums made right again behind a change, so that what lies behind them is reached: see `docs/format.md`.
//!
//! A checksum keeps rot out, not a program that writes wrong bytes: behind it every number is still guilty until checked.

use std::ops::Range;

/// Bytes of a segment's header page.
pub(super) const PAGE_BYTES: usize = 4096;

const HEADER_BYTES: usize = 128;

/// What every frame begins with.
pub(crate) const FRAME_MAGIC: [u8; 4] = [0xf5, 0x52, 0x46, 0x72];
const TRAILER_BYTES: usize = 64;
const UNIT_BYTES: usize = 64;

/// What seeds the checksums of a segment's frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed {
    salt: [u8; 8],
    segment: [u8; 4],
    base_lsn: u64,
}

impl Seed {
    /// The seed that a sound segment's header page tells.
    pub(crate) fn of(page: &[u8]) -> Self {
        Self { salt: array(page, 64), segment: array(page, 36), base_lsn: u64::from_le_bytes(array(page, 72)) }
    }

    /// The salt as a manifest has it.
    pub(super) fn salt(&self) -> [u8; 8] {
        self.salt
    }
}

/// Makes the header page tell of this segment, with a right checksum.
pub(super) fn page(bytes: &mut [u8], seed: &Seed) {
    if bytes.len() >= PAGE_BYTES {
        put(bytes, 36, &seed.segment);
        put(bytes, 64, &seed.salt);
        let crc = crc32fast::hash(&bytes[..PAGE_BYTES - 4]);
        put(bytes, PAGE_BYTES - 4, &crc.to_le_bytes());
    }
}

/// Gives every frame from the page's end on its magic and right checksums; `in_order` its number too. A frame whose
/// lengths lead nowhere ends where the next one could begin.
pub(super) fn frames(bytes: &mut [u8], seed: &Seed, in_order: bool) {
    let (mut at, mut lsn) = (PAGE_BYTES, seed.base_lsn);
    while bytes.len() >= at + HEADER_BYTES {
        let body_len = u64::from_le_bytes(array(bytes, at + 56));
        let meta_len = u64::from(u32::from_le_bytes(array(bytes, at + 64)));
        let meta = range(bytes.len(), at + HEADER_BYTES, 0, meta_len);
        if let Some(meta) = &meta {
            let crc = crc32fast::hash(&bytes[meta.clone()]);
            put(bytes, at + 68, &crc.to_le_bytes());
        }
        if in_order {
            put(bytes, at + 8, &lsn.to_le_bytes());
        }
        put(bytes, at, &FRAME_MAGIC);
        let mut covered = [&seed.salt[..], &seed.segment, &(at as u64).to_le_bytes()].concat();
        covered.extend_from_slice(&bytes[at + 8..at + HEADER_BYTES]);
        put(bytes, at + 4, &crc32fast::hash(&covered).to_le_bytes());
        let body = meta.and_then(|meta| range(bytes.len(), meta.end.next_multiple_of(UNIT_BYTES), 0, body_len));
        at = body.map_or(at + HEADER_BYTES, |body| body.end.next_multiple_of(UNIT_BYTES));
        lsn += 1;
    }
}

/// Gives a sealed segment's trailer its magic, this segment's numbers and right checksums. Returns the payload's, which
/// the manifest has too.
pub(crate) fn trailer(bytes: &mut [u8], seed: &Seed) -> [u8; 4] {
    let Some(at) = bytes.len().checked_sub(TRAILER_BYTES) else { return [0; 4] };
    put(bytes, at, &[0xf5, 0x52, 0x6f, 0x6c, 0x46, 0x74, 0x72, 0x1a, 1, 0, 0, 0]);
    put(bytes, at + 12, &seed.segment);
    put(bytes, at + 16, &seed.salt);
    let payload_offset = u64::from_le_bytes(array(bytes, at + 24));
    let payload_len = u64::from_le_bytes(array(bytes, at + 32));
    if let Some(payload) = range(at, 0, payload_offset, payload_len) {
        let crc = crc32fast::hash(&bytes[payload]);
        put(bytes, at + 40, &crc.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes[at..at + 60]);
    put(bytes, at + 60, &crc.to_le_bytes());
    array(bytes, at + 40)
}

/// Makes the manifest's row of the segment with this salt say that it is sealed, of this length.
pub(crate) fn row(manifest: &mut [u8], seed: &Seed, len: usize, footer_crc: [u8; 4]) {
    let rows = (64..manifest.len().saturating_sub(56)).step_by(8);
    let row = rows.into_iter().find(|at| manifest[*at..].starts_with(&seed.salt()));
    let row = row.expect("the manifest lists the segment");
    put(manifest, row + 24, &(len as u64).to_le_bytes());
    put(manifest, row + 44, &footer_crc);
    put(manifest, row + 50, &1_u16.to_le_bytes());
}

/// Makes a manifest's magic, payload length and checksum right.
pub(crate) fn manifest(bytes: &mut [u8]) {
    let Some(payload_len) = bytes.len().checked_sub(68) else { return };
    put(bytes, 0, &[0xf5, 0x52, 0x6f, 0x6c, 0x4d, 0x61, 0x6e, 0x1a]);
    put(bytes, 32, &(payload_len as u64).to_le_bytes());
    let crc = crc32fast::hash(&bytes[..64 + payload_len]);
    put(bytes, 64 + payload_len, &crc.to_le_bytes());
}

/// `len` bytes, `skip` behind `start`, where they lie below `end`.
fn range(end: usize, start: usize, skip: u64, len: u64) -> Option<Range<usize>> {
    let first = start.checked_add(usize::try_from(skip).ok()?)?;
    let behind = first.checked_add(usize::try_from(len).ok()?)?;
    (behind <= end).then_some(first..behind)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}
