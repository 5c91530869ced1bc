//! Bytes to values and back: pure, total, and the same on every machine.
//!
//! May touch `ids` and `limits`, and crc32fast, rkyv, bytemuck and half. Knows nothing of files, threads or errors of
//! this crate: a refusal is a [`fault::Fault`], to which the layer above adds the name of the file.
//!
//! Always true:
//! - B1. No bytes make a decoder panic, and none make it allocate more than a small multiple of their own number.
//! - B2. A length is believed only after the checksum that covers it.
//! - B3. What an encoder writes, its decoder gives back; a test holds the bytes themselves for each fixed layout.
//! - B4. Bytes that hold together but come from a newer format are `TooNew`, never damage.

#![warn(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        reason = "a test that goes out of bounds fails, as it should; the code itself is linted without the tests too"
    )
)]

mod archive;
pub(crate) mod checkpointed;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod dtype;
pub(crate) mod entry;
pub(crate) mod fault;
pub(crate) mod footer;
pub(crate) mod frame;
pub(crate) mod kind;
pub(crate) mod manifest;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod resume;
pub(crate) mod segment;
#[cfg(test)]
mod testing;

/// The version of the format that this code reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Incompatible features that this code understands: none yet. A file with any other bit set is `TooNew`.
pub(crate) const INCOMPATIBLE_FEATURES: u64 = 0;

/// Compatible features that this code understands. Bits beyond these are kept and passed over.
pub(crate) const COMPATIBLE_FEATURES: u64 = segment::BUFFERED;
