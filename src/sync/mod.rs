//! The locks, threads and pace that the store's own protocol is made of: who writes, who syncs, who publishes, who flushes.
//!
//! Built with `--cfg shuttle`, which `cargo xtask shuttle` alone sets, they belong to a scheduler that tries many orders
//! of their steps, from a seed. In any other build they are those of `std`.
//!
//! Always true: no lock keeps its waiters in a table of the process. A forked child would inherit that table with threads
//! in it that it does not have, and wake or follow those (`tests/forked_child.rs`).

mod locks;
mod pace;

#[cfg(shuttle)]
use shuttle::sync as base;
#[cfg(not(shuttle))]
use std::sync as base;

#[cfg(shuttle)]
pub(crate) use shuttle::thread;
#[cfg(not(shuttle))]
pub(crate) use std::thread;

pub(crate) use locks::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use pace::{Hurry, PORTION_BYTES, Pace};
