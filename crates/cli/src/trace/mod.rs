//! Traces: recorded trainer runs, one JSON object a line.
//!
//! May touch trace files, read-only. Knows nothing of stores.
//!
//! Always true:
//! - R1. An error names the file, the line and what is wrong with it.
//! - R2. Memory is bounded by the longest line that is accepted, whatever the file holds.
//! - R3. The log-probs of an event are as many as its tokens, and bit for bit those of the file.

mod event;
mod hex;
mod reader;

pub use event::{Access, At, Event, Evict, Generate, Line, Put, Version};
pub use hex::Logps;
pub use reader::{LINE_BYTES_MAX, Position, TraceError, TraceReader};
