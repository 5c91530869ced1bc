//! Read-only reports over the files of a store: what a person or a tool asks of one, damaged or not.
//!
//! Sits beside `store`, knows nothing of it, and uses the readers of `recovery` and `log` alone. Never writes, takes no
//! lock, goes on past damage.

mod verify;
pub(crate) mod walk;

pub use verify::{Finding, Verification, verify, verify_on};
