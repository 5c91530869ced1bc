//! Frame descriptors: what the arrays of a frame are, and all that is not an array.
//!
//! May touch `archive`, `dtype`, `fault`, `counters`, limits. Knows nothing of the arrays' values.
//!
//! Always true:
//! - M1. One type for each schema number, never edited: a change is a new type under a new number.
//! - M2. Archives hold plain structs, primitives, vectors and strings; what may be absent has a bit that says so.
//! - M3. A descriptor that was read describes arrays that lie within its frame's body, apart and in order.

mod columns;
mod control;
pub(crate) mod directory;
mod rollout;

pub(crate) use columns::ColumnMeta;
pub(crate) use control::{ArchivedControlMeta, ControlColumn, ControlMeta, control_meta, encode_control};
pub(crate) use rollout::{
    ArchivedRolloutMeta, ColumnCode, ColumnRef, ProvenanceMeta, RolloutMeta, SpanMeta, encode_rollout, rollout_meta,
};

#[cfg(test)]
mod tests;
