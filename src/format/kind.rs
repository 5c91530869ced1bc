//! What a frame is: its kind, its flags and the schema of its descriptor.
//!
//! May touch nothing.
//!
//! Always true:
//! - K1. A number, once given to a kind, a flag or a schema, is never given to another.
//! - K2. A reader may pass over an unknown kind only where the kind's own number says so.

/// The bit in a kind's number that lets a reader who does not know the kind pass over the frame.
///
/// Set only where nothing is lost with the frame. `State` has it not: a writer that passed over one would hand out ids
/// that were handed out before.
pub(crate) const IGNORABLE: u16 = 0x8000;

/// What a frame records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A new rollout: every column that it was given.
    Insert,
    /// New values of recomputable columns of one incarnation.
    Update,
    /// An end of life for listed incarnations.
    Retire,
    /// An end of life for every rollout created before a step and written before this frame.
    RetireLine,
    /// A new version of `π_old` or of the KL reference.
    Advance,
    /// The trainer's opaque position.
    Cursor,
    /// A return to an older step: a new lineage.
    Rewind,
    /// How far a named sweep over the rollouts has come.
    Sweep,
    /// A part of a rollout that is still being generated.
    Piece,
    /// Reserved: no writer writes it. A rollout that was written in parts ends as such by a Retire.
    Finish,
    /// What no other record carries: counters, the id ceiling, ids that were used.
    State,
    /// Nothing: fills space.
    Pad,
    /// A kind of a newer format that may be passed over; the number has the [`IGNORABLE`] bit.
    Ignorable(u16),
}

impl FrameKind {
    /// The number on disk.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Insert => 1,
            Self::Update => 2,
            Self::Retire => 3,
            Self::RetireLine => 4,
            Self::Advance => 5,
            Self::Cursor => 6,
            Self::Rewind => 7,
            Self::Sweep => 8,
            Self::Piece => 9,
            Self::Finish => 10,
            Self::State => 11,
            Self::Pad => 1 | IGNORABLE,
            Self::Ignorable(code) => code,
        }
    }

    /// The kind with this number; `None` where it is unknown and must not be passed over.
    pub(crate) const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::Insert,
            2 => Self::Update,
            3 => Self::Retire,
            4 => Self::RetireLine,
            5 => Self::Advance,
            6 => Self::Cursor,
            7 => Self::Rewind,
            8 => Self::Sweep,
            9 => Self::Piece,
            10 => Self::Finish,
            11 => Self::State,
            0x8001 => Self::Pad,
            code if code & IGNORABLE != 0 => Self::Ignorable(code),
            _ => return None,
        })
    }

    /// Whether the frame belongs to one rollout: it is then limited to a record's size and described by schema 1.
    pub(crate) const fn is_rollout(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Piece | Self::Finish)
    }

    /// The schema of the frame's descriptor; `None` where this format does not know the kind.
    pub(crate) const fn schema(self) -> Option<u16> {
        match self {
            Self::Insert | Self::Update | Self::Piece | Self::Finish => Some(SCHEMA_ROLLOUT),
            Self::Retire
            | Self::RetireLine
            | Self::Advance
            | Self::Cursor
            | Self::Rewind
            | Self::Sweep
            | Self::State => Some(SCHEMA_CONTROL),
            Self::Pad => Some(SCHEMA_NONE),
            Self::Ignorable(_) => None,
        }
    }

    /// The name, for reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Retire => "retire",
            Self::RetireLine => "retire line",
            Self::Advance => "advance",
            Self::Cursor => "cursor",
            Self::Rewind => "rewind",
            Self::Sweep => "sweep",
            Self::Piece => "piece",
            Self::Finish => "finish",
            Self::State => "state",
            Self::Pad => "pad",
            Self::Ignorable(_) => "unknown, ignorable",
        }
    }
}

/// No descriptor: the frame's descriptor is empty.
pub(crate) const SCHEMA_NONE: u16 = 0;
/// The descriptor is a [`super::meta::RolloutMeta`].
pub(crate) const SCHEMA_ROLLOUT: u16 = 1;
/// The descriptor is a [`super::meta::ControlMeta`].
pub(crate) const SCHEMA_CONTROL: u16 = 2;

/// A set of facts about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FrameFlags(pub(crate) u16);

impl FrameFlags {
    /// The first frame of its batch.
    pub(crate) const BATCH_BEGIN: Self = Self(1);
    /// The last frame of its batch.
    pub(crate) const BATCH_END: Self = Self(1 << 1);
    /// A copy by compaction: the frame keeps the number that it had in another segment.
    pub(crate) const MOVED: Self = Self(1 << 2);
    /// The rollout had been asked for when this was written.
    pub(crate) const USED: Self = Self(1 << 3);
    /// Bits that this format knows.
    pub(crate) const KNOWN: Self = Self::BATCH_BEGIN.with(Self::BATCH_END).with(Self::MOVED).with(Self::USED);

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
