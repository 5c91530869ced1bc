//! The rollouts of one run in several stores: which shard a rollout belongs to, and how their number is changed.
//!
//! # How do I make one store of a run's shards, or another number of them?
//! ```
//! # let dir = tempfile::tempdir()?;
//! use std::num::NonZeroU32;
//! use rollstore::{NewRollout, RolloutStore};
//! use rollstore_shards::Shards;
//! # let path = |name: &str| dir.path().join(name);
//!
//! for shard in 0..2 {
//!     let store = RolloutStore::options().window(8).open(path(&format!("rank-{shard}")))?;
//!     store.insert(NewRollout::new(shard, 0).old_logps(&[-0.5][..], 0))?;
//!     store.close()?;
//! }
//! let made = Shards::of([path("rank-0"), path("rank-1")]).merge(path("all"))?;
//! assert_eq!((made.before.rollouts, made.after.rollouts), (2, 2));
//!
//! // A directory of shards stands for all of them.
//! let made = Shards::of([path("all")]).reshard(NonZeroU32::new(3).unwrap(), path("three"))?;
//! let again = Shards::of([path("three")]).reshard(NonZeroU32::new(2).unwrap(), path("two"))?;
//! assert_eq!(made.after, again.after);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Router`] alone says where a rollout belongs; [`Shards`] reads the shards of a run and makes others of them. Their
//! promises are numbered there and in the modules behind them.

mod census;
mod counters;
mod error;
mod fill;
mod job;
mod place;
mod rollout;
mod route;
mod rows;
mod sources;
mod versions;

pub use census::{Census, VersionCount};
pub use error::{Conflict, Error, Result};
pub use job::{Made, OnConflict, Progress, Shards, Stage, TakeCursor};
pub use route::Router;
pub use sources::shard_name;
