//! What the index says of one rollout.
//!
//! May touch `ids` and `format::entry`. Plain values: nothing here knows how they are found or kept.
//!
//! Always true:
//! - E1. `old_lsn` is `Lsn::NONE` exactly while the old logps are missing, which is while `has` lacks OLD.
//! - E2. While the old logps are missing or lie in the insert frame, `old` equals `insert`.
//! - E3. `Extra::kl` is there exactly when `has` contains `KL_REF`.

use crate::format::entry::Has;
use crate::ids::{Location, Lsn, RolloutId};

/// What the index says of one rollout: which frames hold it, and what scans ask of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: RolloutId,
    /// The frame with the immutable columns.
    pub(crate) insert: Location,
    /// The frame with the newest old logps.
    pub(crate) old: Location,
    /// The incarnation.
    pub(crate) insert_lsn: Lsn,
    /// The number of the frame with the newest old logps; `Lsn::NONE` while they are missing.
    pub(crate) old_lsn: Lsn,
    pub(crate) created_step: u64,
    /// Step from which the old logps count as fresh.
    pub(crate) born_step: u64,
    /// Version of the old logps, or, while they are missing, the version current at the insert.
    pub(crate) ref_version: u64,
    /// Prompt and completion tokens.
    pub(crate) token_count: u32,
    /// Length of the insert frame in 64-byte units, within one part in 256.
    pub(crate) insert_units: u32,
    /// Length of the frame with the newest old logps, likewise; that of the insert where they lie there or are missing.
    pub(crate) old_units: u32,
    /// The rollouts that share its prompt.
    pub(crate) group: Option<u64>,
    pub(crate) has: Has,
}

/// What few rollouts need beside their entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    /// The newest KL reference logps.
    pub(crate) kl: Option<KlEntry>,
    /// The first old logps computed, where the insert had neither old nor sampler logps: they are the behaviour logps.
    pub(crate) first_old: Option<FirstOld>,
}

/// Where the newest KL reference logps lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KlEntry {
    pub(crate) at: Location,
    pub(crate) lsn: Lsn,
    /// Length of the frame in 64-byte units.
    pub(crate) units: u32,
    /// Version of the KL reference model.
    pub(crate) version: u64,
}

/// Where the first computed old logps lie. The number keeps replay order-free: the lowest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstOld {
    pub(crate) at: Location,
    pub(crate) lsn: Lsn,
    /// Length of the frame in 64-byte units.
    pub(crate) units: u32,
}

impl Extra {
    pub(super) fn is_empty(&self) -> bool {
        self.kl.is_none() && self.first_old.is_none()
    }
}
