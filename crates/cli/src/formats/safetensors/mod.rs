//! safetensors: every column one flat tensor, with the places at which each rollout's values begin.
//!
//! Knows nothing of stores.
//!
//! Always true: tensors of wider values come before those of narrower ones, so that each is aligned for its type.

pub(super) mod read;
mod tensors;
pub(super) mod write;

use super::seal;

/// Greatest length of a header, in bytes: the format's own limit.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// Bytes before the header: its length.
const LENGTH_BYTES: u64 = 8;

/// What a header begins with, up to the digits of the checksum.
fn header_start() -> String {
    format!("{{\"__metadata__\":{{\"{}\":\"", seal::NAME)
}
