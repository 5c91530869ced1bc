//! How peers of plain bytes hold a record: the key is its id, the value is born step, version, values; an index row is its
//! key alone.

#![cfg_attr(not(feature = "peers"), allow(dead_code, reason = "the peers of plain bytes are not built"))]

use crate::content::Record;
use crate::outcome::Outcome;

/// Bytes before the values.
pub(super) const HEADER_BYTES: usize = 16;

/// A record's key, or the bound of a scan.
pub(super) fn key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// The key of an index row: by version or born step, then id.
pub(super) fn index_key(by: u64, id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&by.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The id in an index row's key.
pub(super) fn id_of(index_key: &[u8]) -> Outcome<u64> {
    let id = index_key.last_chunk().ok_or("an index key is too short")?;
    Ok(u64::from_be_bytes(*id))
}

/// What stands before the values.
pub(super) fn header(record: &Record<'_>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&record.born_step.to_le_bytes());
    header[8..].copy_from_slice(&record.version.to_le_bytes());
    header
}

/// Born step and version of a value.
pub(super) fn parse_header(value: &[u8]) -> Outcome<(u64, u64)> {
    let header = value.first_chunk::<HEADER_BYTES>().ok_or("a value is too short")?;
    let [born, version] = [0, 8].map(|at| header[at..].first_chunk().copied().map_or(0, u64::from_le_bytes));
    Ok((born, version))
}

/// The values' bytes.
pub(super) fn values(value: &[u8]) -> &[u8] {
    value.get(HEADER_BYTES..).unwrap_or_default()
}

/// The whole value in one piece, for peers that cannot be handed it in two.
pub(super) fn value(record: &Record<'_>, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&header(record));
    into.extend_from_slice(bytemuck::cast_slice(record.values));
}
