//! Read-only reports over the files of a store: what a person or a tool asks of one, damaged or not.
//!
//! Sits beside `store`, knows nothing of it, and uses the readers of `recovery` and `log` alone. Never writes, takes no
//! lock, goes on past damage.

mod content;
mod diff;
mod history;
mod log;
mod opened;
mod parts;
mod report;
mod said;
mod segments;
mod verify;
pub(crate) mod walk;

pub use diff::{Changed, Differences, RolloutChange, diff};
pub use history::{Fate, History, HistoryFrame, history};
pub use log::{Log, LogItem, log};
pub use parts::{Parts, SegmentPart, parts};
pub use report::{
    Bin, Buffer, BufferCounters, Count, Drift, Histogram, Past, Report, Schedule, States, StepCounts, WORST_ROLLOUTS,
    WORST_TOKENS, WorstRollout, report,
};
pub use said::{LogFrame, Said};
pub use segments::{SegmentLife, SegmentReport, Segments, segments};
pub use verify::{Finding, Verification, verify, verify_on};
