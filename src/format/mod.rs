//! Bytes to values and back: pure, total, and the same on every machine.

pub(crate) mod entry;
