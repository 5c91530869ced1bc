//! Append-only segments: the log that is also the value store.
//!
//! May touch `disk` and `format`. Knows nothing of windows, staleness, clocks or the index.
//!
//! Always true:
//! - L1. Only the newest segment is written to; a sealed or cut one never changes again.
//! - L2. Only the newest segment may end in a torn frame.
//! - L3. Within a log segment, frames follow each other without a gap, and so do their LSNs.
//! - L4. No byte is returned whose checksum was not checked once by this process, or computed by it.

pub(crate) mod active;
pub(crate) mod check;
pub(crate) mod event;
pub(crate) mod frame;
pub(crate) mod places;
pub(crate) mod scan;
pub(crate) mod seal;
pub(crate) mod segment;
pub(crate) mod source;
