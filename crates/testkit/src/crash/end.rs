//! How a run ends, and how that is said where a test fails.

use std::{fmt, thread};

use rollstore::disk::sim::{CrashImage, Op, SimDisk};

use crate::settings;

/// How a run ends at its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The power goes, and this is what the medium kept.
    PowerCut(CrashImage),
    /// The process is killed: the next one finds everything written, durable or not.
    Kill,
}

impl End {
    /// The disk that the next process finds.
    pub(super) fn after(self, dead: &SimDisk) -> SimDisk {
        match self {
            Self::PowerCut(image) => dead.crash(image),
            Self::Kill => dead.kill(),
        }
    }
}

/// A crash, for the message of a failure: which it was and how it is had again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crash<'a> {
    pub(super) point: u64,
    pub(super) op: &'a Op,
    pub(super) end: End,
    pub(super) depth: u32,
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point, op, end, depth } = self;
        let (seed, current) = (settings::seed(), thread::current());
        let name = current.name().unwrap_or_default();
        writeln!(f, "stopped at operation {point} ({:?} {}), {end:?}", op.kind, op.path.display())?;
        if *depth > 0 {
            writeln!(f, "and {depth} times more within recovery")?;
        }
        write!(f, "again: ROLLSTORE_TEST_SEED={seed} ROLLSTORE_TEST_POINT={point} cargo test -p rollstore {name}")
    }
}
