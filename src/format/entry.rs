//! What one rollout frame means to the index: the value that a commit, a footer and a scan all tell it in.

use crate::ids::{Lsn, RolloutId};

/// What a rollout frame did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A rollout came to be.
    Insert,
    /// Its old logps were computed again.
    OldLogps,
    /// Its KL reference logps were computed again.
    KlRefLogps,
    /// A part of a rollout that is still being generated: what is known of it first, or some of its tokens.
    Piece,
}

/// One rollout frame, without its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameEntry {
    pub(crate) kind: EntryKind,
    pub(crate) id: RolloutId,
    /// The frame's own number.
    pub(crate) lsn: Lsn,
    /// The number of the insert that this frame belongs to: the rollout's incarnation. Of a piece, that of the first piece.
    pub(crate) insert_lsn: Lsn,
    /// Offset of the frame in its segment, in 64-byte units.
    pub(crate) offset_units: u32,
    /// Length of the frame, padding included, in 64-byte units.
    pub(crate) frame_units: u32,
    /// Step from which the old logps count as fresh.
    pub(crate) born_step: u64,
    /// Version of the old logps, or, while they are missing, the version current at the insert. Of a piece, the completion
    /// tokens in front of it, so that a lost piece is noticed.
    pub(crate) ref_version: u64,
    /// Step at which the rollout was sampled (inserts and pieces).
    pub(crate) created_step: u64,
    /// Version of the KL reference logps in this frame, where it has some. Of a piece, the sampler's version of its tokens.
    pub(crate) kl_version: u64,
    /// Prompt and completion tokens (inserts and pieces).
    pub(crate) token_count: u32,
    /// The group that the rollout belongs to, if any (inserts only).
    pub(crate) group: Option<u64>,
    /// Which logp columns lie in this frame, and whether the rollout was ever asked for.
    pub(crate) has: Has,
}

/// A set of facts about a rollout frame or an index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Has(pub(crate) u16);

impl Has {
    pub(crate) const OLD: Self = Self(1);
    pub(crate) const SAMPLER: Self = Self(1 << 1);
    pub(crate) const KL_REF: Self = Self(1 << 2);
    /// The rollout was given to a plan, a gather or `get_or_compute` at least once.
    pub(crate) const USED: Self = Self(1 << 3);
    /// Bits that a frame or an index row may carry.
    pub(crate) const KNOWN: Self = Self(0b1111);

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
