//! An embedded, crash-safe store for the rollouts of RL post-training and their per-token log-probs.
//!
//! It lives inside the trainer's process and keeps on disk what generation paid for. It knows which log-probs are out of
//! their window or stale, recomputes only those, when they are used or under a budget, and comes back after a crash
//! exactly where the trainer is.
//!
//! # How do I begin?
//! ```
//! # let dir = tempfile::tempdir()?;
//! use rollstore::{NewRollout, Results, RolloutStore, ServedFrom};
//!
//! let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
//! store.insert(NewRollout::new(1, 100).completion_ids(&[5, 6, 7][..]).old_logps(&[-0.5; 3][..], 0))?;
//! store.advance_ref_version(100, None)?; // the weights changed: one record, and every rollout is stale
//!
//! let served = store.get_or_compute(&[1.into()], 101, |work| {
//!     let logps = work.ids().map(|id| (id, vec![-0.25; 3])); // your model, for what is not fresh
//!     Ok::<_, std::convert::Infallible>(logps.collect::<Results>())
//! })?;
//! assert_eq!((served[0].old_logps()?, served[0].source()), (&[-0.25; 3][..], ServedFrom::Computed));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where is what I need?
//!
//! | to | see |
//! |---|---|
//! | open, create, read beside a writer | [`RolloutStore::options`], [`Options`] |
//! | put in what was sampled | [`NewRollout`], [`RolloutStore::insert`] |
//! | keep what an interrupted generation made | [`RolloutStore::begin_partial`], [`RolloutStore::append`], [`RolloutStore::finish`] |
//! | make one commit of a whole step | [`WriteBatch`] |
//! | use log-probs, computing what is not fresh | [`RolloutStore::get_or_compute`] |
//! | compute ahead of need, within a limit | [`RolloutStore::recompute`], [`Budget`] |
//! | compute everything once, whatever the restarts | [`RolloutStore::sweep`], [`Query`], [`Order`] |
//! | compute elsewhere | [`RolloutStore::plan_for`], [`RolloutStore::plan_due`], [`Plan`], [`RolloutStore::apply`] |
//! | say that the weights changed | [`RolloutStore::weight_update`], [`RolloutStore::advance_ref_version`] |
//! | read one, read many | [`RolloutStore::get`] and [`Rollout`], [`RolloutStore::gather`] |
//! | ask who is fresh, and why not | [`RolloutStore::needs_recompute`], [`RolloutStore::stale`], [`Rollout::staleness`] |
//! | learn why nothing is fresh, and what another bound would do | [`RolloutStore::diagnose`], [`RolloutStore::would_recompute`] |
//! | take rollouts over into a new store, as they are | [`Options::clocks`], [`Options::past`], [`NewRollout::as_it_stood`] |
//! | end rollouts | [`RolloutStore::retire`], [`Reason`] |
//! | save and go back | [`RolloutStore::checkpoint`], [`RolloutStore::restore`], [`RolloutStore::rewind`] |
//! | know how it goes | [`RolloutStore::stats`] |
//! | read the log, learn what became of a rollout, compare two stores | [`inspect`] |
//! | check every byte, make a damaged store usable | [`inspect`], [`RolloutStore::repair`] |
//! | know what to do about an error | [`ErrorKind`] |
//!
//! The [guide] leads from zero to a training loop, [durability] numbers what is promised after a crash, and [architecture]
//! is the map of the code.
//!
//! [guide]: https://github.com/rollstore/rollstore/blob/main/docs/guide.md
//! [durability]: https://github.com/rollstore/rollstore/blob/main/docs/durability.md
//! [architecture]: https://github.com/rollstore/rollstore/blob/main/docs/architecture.md

#[cfg(not(target_endian = "little"))]
compile_error!(
    "rollstore reads its arrays in place and they lie on disk little-endian: big-endian machines are not supported"
);

pub mod disk;
mod error;
mod format;
mod ids;
mod index;
pub mod inspect;
pub mod limits;
mod log;
mod planted;
mod reason;
mod recovery;
mod rules;
mod state;
mod store;
mod sync;

pub use error::{Damage, Error, ErrorKind, Result};
pub use format::dtype::{DType, Element, NarrowOverflow, narrow_bf16, narrow_f16};
pub use ids::{Lsn, RolloutId};
pub use reason::Reason;
pub use rules::Staleness;
pub use store::batch::{Committed, WriteBatch};
pub use store::budget::Budget;
pub use store::clocks::{Clocks, VersionLine};
pub use store::column::{Ask, Column, ColumnValues, ColumnView, LogpKind, Provenance};
pub use store::column_info::ColumnInfo;
pub use store::compact::{CompactBudget, Compacted};
pub use store::complete::CompleteGroups;
pub use store::diagnose::{Diagnosis, Help};
pub use store::gather::{Flat, GatherInto, PadSide, Padded, Stale};
pub use store::last_checkpoint::LastCheckpoint;
pub use store::new_rollout::{NewRollout, VersionSpan};
pub use store::options::{Durability, Options, Reads};
pub use store::owner::{LockKind, TakeOver};
pub use store::partials::{OpenPartial, Partial};
pub use store::past::Past;
pub use store::plan::{Applied, Plan, Results};
pub use store::recompute::{Recomputed, Served, ServedFrom};
pub use store::repair::Repaired;
pub use store::retirement::Retirement;
pub use store::stats::{Stats, StatsCounters};
pub use store::sweep::aside::SetAside;
pub use store::sweep::query::{Order, Query};
pub use store::sweep::{Sweep, SweepStatus, Swept};
pub use store::view::Rollout;
pub use store::weights::WeightUpdate;
pub use store::writable::Writable;
pub use store::{Checkpointed, Rewind, RolloutStore};

/// The code in the documents runs with the documentation's tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/guide.md")]
    struct Guide;
}
