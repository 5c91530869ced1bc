//! The native half of the Python package `rollstore`: it converts and calls the store.
//!
//! May touch `rollstore`'s public interface, the command line's entry, `PyO3` and `NumPy`. Holds no rule of the store; forms of
//! input (lists, padded, torch) are made one in Python, before they come here.
//!
//! Always true:
//! - B1. The interpreter lock is not held while the store works.
//! - B2. What was written by Python code is never read without the lock: arrays that come here belong to the package alone.
//! - B3. Every error is an exception of the package, or the caller's own; a panic is one too.

mod arrays;
mod batch;
mod buffers;
mod call;
mod cli;
mod compute;
mod errors;
mod gather;
mod insert;
mod names;
#[cfg_attr(not(feature = "object-store"), path = "objects_absent.rs")]
mod objects;
mod open;
mod partials;
mod plan;
mod request;
mod scans;
mod shards;
mod stats;
mod store;
mod upkeep;
mod values;
mod view;
mod weights;

/// The native half of `rollstore`. Not for direct use.
#[pyo3::pymodule(gil_used = false)]
mod _rollstore {
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::cli::run_cli;
    #[pymodule_export]
    use crate::insert::id_from_key;
    #[pymodule_export]
    use crate::names::column_name;
    #[pymodule_export]
    use crate::objects::{find_checkpoint, list_checkpoints, restore_from, retain_only, send_checkpoint};
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::shards::{make_shards, shards_of};
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::upkeep::{restore, verify};
    #[pymodule_export]
    use crate::view::Rollout;
    #[pymodule_export]
    use crate::weights::WeightUpdate;
}
