//! An embedded, crash-safe store for the rollouts of RL post-training and their per-token log-probs.

#[cfg(not(target_endian = "little"))]
compile_error!(
    "rollstore reads its arrays in place and they lie on disk little-endian: big-endian machines are not supported"
);

pub mod disk;
mod error;
mod format;
mod ids;
mod index;
pub mod limits;

pub use error::{Damage, Error, ErrorKind, Result};
pub use ids::{Lsn, RolloutId};
