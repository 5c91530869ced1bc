//! From id to entry, from step and version to ids: served from memory, kept on disk by redb.
//!
//! May touch `disk` and `format::entry`. Knows nothing of windows, lag, staleness or clocks: a caller selects by a
//! bound on the born step and by a predicate over versions.
//!
//! Always true:
//! - I1. The index is derived: what is on disk may be deleted at any time, and is then rebuilt from the log.
//! - I2. Applying the same frames in any order gives the same index, and applying one twice changes nothing.
//! - I3. A scan visits the rollouts that it returns and no others.
//! - I4. A file that is not exactly what was flushed last, for this store and epoch, is rejected: never a wrong answer,
//!   never a panic.

mod asked;
mod backend;
mod changed;
mod entry;
mod frame_size;
mod guard;
mod hash;
mod keyed;
mod live;
mod memory;
mod meta;
mod on_disk;
mod partials;
mod postings;
mod replay;
mod row;
mod slab;
#[cfg(test)]
mod testing;

pub(crate) use entry::{Entry, KlEntry};
pub(crate) use hash::BuildIdHasher;
#[cfg(test)]
pub(crate) use memory::Changes;
pub(crate) use memory::MemoryIndex;
pub(crate) use meta::{Identity, IndexMeta};
pub(crate) use on_disk::{DiskIndex, Expected, FileOptions, Part, Rejected, open};
pub(crate) use partials::Partial;
pub(crate) use replay::Replay;
#[cfg(test)]
pub(crate) use row::Row;
