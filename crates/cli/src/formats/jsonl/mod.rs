//! JSON Lines: an object a rollout, and the mark in the last line.
//!
//! Knows nothing of stores.

pub(super) mod read;
pub(super) mod write;

use super::seal;

/// What the last line begins with, up to the digits of the checksum.
fn mark_start() -> String {
    format!("{{\"{}\":\"", seal::NAME)
}

/// What stands between the digits and the mark.
const MARK_MIDDLE: &str = "\",\"rollstore\":";
