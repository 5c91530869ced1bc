//! Why a rollout's life ended.

use std::fmt;

/// Why a rollout was retired; counted per reason for the life of the lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was consumed by training.
    Trained,
    /// It was too stale to train on.
    Stale,
    /// A newer rollout took its place.
    Superseded,
    /// Its buffer was full or moved on.
    Evicted,
    /// It belonged to an abandoned future.
    Rewound,
    /// Anything else.
    Other,
}

impl Reason {
    /// Every reason, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Trained, Self::Stale, Self::Superseded, Self::Evicted, Self::Rewound, Self::Other];

    /// The reason's name in lower case, as the CLI prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trained => "trained",
            Self::Stale => "stale",
            Self::Superseded => "superseded",
            Self::Evicted => "evicted",
            Self::Rewound => "rewound",
            Self::Other => "other",
        }
    }

    /// The reason's number on disk, and its place among the counters.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Trained => 0,
            Self::Stale => 1,
            Self::Superseded => 2,
            Self::Evicted => 3,
            Self::Rewound => 4,
            Self::Other => 5,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
