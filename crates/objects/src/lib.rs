//! Checkpoints of a [rollstore] in object storage: S3 and what speaks its language, Google Cloud Storage, Azure, a
//! directory.
//!
//! Calls block, and need no runtime of the caller's; inside one they work too. Credentials come from the environment alone, and are
//! in no error, log or object.
//!
//! | to | see |
//! |---|---|
//! | save a store, sending only what is new | [`checkpoint()`] |
//! | save a checkpoint that was taken before | [`send`] |
//! | bring one back | [`restore()`] |
//! | know which there are | [`list`], [`find`] |
//! | check every byte | [`verify`] |
//! | end older ones | [`retain()`], [`retain_only`] |
//! | set sizes, hear of progress | [`Options`] |
//!
//! Rooms, each of which knows those behind it alone: `checkpoint`, `restore`, `retain`, `look` · `upload`, `fetch`, `lease` · `record`,
//! `remote`, `local` · `connect`, `failure` · `place`, `options`, `runtime`. What lies where, and why nothing that is needed is ever
//! deleted, is in docs/objects.md.

mod checkpoint;
mod connect;
mod failure;
mod fetch;
mod lease;
mod local;
mod look;
mod options;
mod place;
mod record;
mod remote;
mod restore;
mod retain;
mod runtime;
mod upload;

pub use checkpoint::{Uploaded, checkpoint, send};
pub use look::{Checkpoint, Finding, Verification, find, list, verify};
pub use options::{ANNOTATION_BYTES_MAX, Options, PART_BYTES, PART_BYTES_MIN, PARTS_MAX, Progress};
pub use place::is_url;
pub use restore::{Restored, restore};
pub use retain::{Retained, retain, retain_only};

/// A name that no other has.
fn random_name() -> String {
    format!("{:016x}", rand::random::<u64>())
}
