//! Where a recovery may begin within a segment that was being written to, and what the store was there.
//!
//! May touch `manifest`, `fault` and ids. Who keeps it and who believes it is not known here.
//!
//! Always true:
//! - R1. The state reflects every frame up to the named one, which ends a batch, and none beyond.

use super::manifest::StateSnapshot;
use crate::ids::{Location, Lsn};

/// How the log ends with a whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchEnd {
    /// The last frame of the batch.
    pub(crate) last: Location,
    /// CRC-32 of that frame's encoded header: a log that went another way has another.
    pub(crate) header_crc: u32,
    /// The lowest incarnation that a frame of the segment, up to here, belongs to; [`Lsn::NONE`] where none does.
    pub(crate) min_insert_lsn: Lsn,
}

/// What a manifest would say if the segment had been sealed behind this batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    pub(crate) end: BatchEnd,
    pub(crate) state: StateSnapshot,
}
