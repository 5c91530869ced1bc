//! The locks and threads that the store's own protocol is made of: who writes, who syncs, who publishes, who flushes.
//!
//! Built with `--cfg shuttle`, which `cargo xtask shuttle` alone sets, they belong to a scheduler that tries many orders
//! of their steps, from a seed. In any other build they are those of `parking_lot` and `std`.

#[cfg(shuttle)]
mod scheduled;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

#[cfg(shuttle)]
pub(crate) use scheduled::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle::thread;
