//! What the tests of rollstore share: stores to begin with, states to compare, faults to inject.
//!
//! May use the public API alone, like any program that embeds the store.

pub mod child;
