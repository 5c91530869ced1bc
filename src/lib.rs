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
pub use format::dtype::{DType, Element, NarrowOverflow, narrow_bf16, narrow_f16};
pub use ids::{Lsn, RolloutId};
