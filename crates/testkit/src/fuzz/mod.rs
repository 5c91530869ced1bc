//! Fuzz targets: what must hold for any bytes at all, one function for each target.
//!
//! `fuzz/` calls these with libFuzzer's inputs, and an ordinary test with the inputs kept in `fuzz/corpus/` and with random
//! ones, on a stable compiler. All of it happens on simulated disks.
//!
//! Always true:
//! - No bytes make the store panic, hang, or fail in another way than by an error that names damage or a newer format.
//! - A target's answer follows from its input: what differs from run to run (salts, uuids) is not part of it.

mod frame;
mod input;
mod judge;
mod look;
mod lossy;
mod manifest;
pub mod ops;
mod planted;
pub(crate) mod seal;
pub mod seeds;
mod segment;

pub use frame::frame;
pub use input::Input;
pub use manifest::manifest;
pub use ops::ops;
pub use segment::segment;

/// What must hold for any bytes: panics where it does not.
pub type Target = fn(&[u8]);

/// The targets of this crate, by name. The command line's own is `trace`.
pub const TARGETS: [(&str, Target); 4] = [("segment", segment), ("manifest", manifest), ("frame", frame), ("ops", ops)];
