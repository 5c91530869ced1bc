//! An embedded, crash-safe store for the rollouts of RL post-training and their per-token log-probs.

#![warn(clippy::unwrap_used)]

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
mod log;
mod reason;
mod recovery;
mod state;
mod store;

pub use error::{Damage, Error, ErrorKind, Result};
pub use format::dtype::{DType, Element, NarrowOverflow, narrow_bf16, narrow_f16};
pub use ids::{Lsn, RolloutId};
pub use reason::Reason;
pub use store::batch::{Committed, WriteBatch};
pub use store::budget::Budget;
pub use store::column::{Ask, Column, ColumnValues, ColumnView, LogpKind, Provenance};
pub use store::gather::{Flat, GatherInto, PadSide, Padded, Stale};
pub use store::new_rollout::{NewRollout, VersionSpan};
pub use store::options::{Options, Reads};
pub use store::plan::{Applied, Plan, Results};
pub use store::recompute::{Recomputed, Served, ServedFrom};
pub use store::rules::Staleness;
pub use store::stats::{Stats, StatsCounters};
pub use store::view::{ColumnInfo, Rollout};
pub use store::{Checkpointed, Rewind, RolloutStore};
