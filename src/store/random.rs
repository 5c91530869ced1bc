//! Random numbers for names that must not repeat: salts, uuids, tokens. Not for secrets.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A number that no other call gives again. `RandomState` keys come from the operating system; the clock and the process
/// are mixed in, since a thread draws its keys only once and counts on from there.
pub(crate) fn u64() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(since.as_nanos());
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Sixteen such bytes.
pub(crate) fn uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    let (low, high) = bytes.split_at_mut(8);
    low.copy_from_slice(&u64().to_le_bytes());
    high.copy_from_slice(&u64().to_le_bytes());
    bytes
}
