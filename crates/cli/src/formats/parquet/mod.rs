//! Parquet: a row a rollout, arrays as lists, and the mark in the key-value metadata of the footer.
//!
//! Knows nothing of stores.

mod guard;
pub(super) mod read;
mod schema;
pub(super) mod write;

use super::seal;

/// What the mark is called in the footer.
const MARK: &str = "rollstore";

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// The bytes of a footer before the digits of the checksum: the name, and a string of eight bytes as the footer's encoding
/// begins it.
fn digits_start() -> Vec<u8> {
    const STRING_OF_EIGHT: [u8; 2] = [0x18, 8];
    [seal::NAME.as_bytes(), &STRING_OF_EIGHT].concat()
}

/// Where the digits stand in a footer: behind the last such bytes, since what a footer says of columns comes before.
fn digits_in(footer: &[u8]) -> Option<usize> {
    let start = digits_start();
    let at = footer.windows(start.len()).rposition(|window| window == start)? + start.len();
    (at + seal::DIGITS <= footer.len()).then_some(at)
}
