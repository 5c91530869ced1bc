//! What the tests of rollstore share: stores to begin with, states to compare, faults to inject.
//!
//! May use the public API alone, like any program that embeds the store.

pub mod bytes;
pub mod child;
pub mod cores;
pub mod crash;
pub mod fuzz;
pub mod grouping;
pub mod hooked;
pub mod model;
pub mod scratch;
pub mod settings;
pub mod shards;
pub mod state;
pub mod store;
pub mod values;
pub mod yielding;
