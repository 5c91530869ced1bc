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

/// What the command that repeats a failure says besides its point and image.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    /// Settings, each with a blank behind it.
    pub(super) settings: String,
    /// Names the test for `cargo test`.
    pub(super) test: String,
}

impl Repeat {
    /// Repeats the test function that this thread runs.
    pub(super) fn of_this_test() -> Self {
        Self { settings: String::new(), test: thread::current().name().unwrap_or_default().to_owned() }
    }
}

/// A crash, for the message of a failure: which it was and how it is had again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crash<'a> {
    /// The operation at which the run ended.
    pub(super) op: &'a Op,
    /// The place of its end among those looked at.
    pub(super) image: u64,
    pub(super) end: End,
    pub(super) depth: u32,
    pub(super) repeat: &'a Repeat,
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, image, end, depth, repeat: Repeat { settings, test } } = self;
        let (seed, scale, point) = (settings::seed(), settings::scale(), op.number);
        writeln!(f, "stopped at operation {point} ({:?} {}), {end:?}", op.kind, op.path.display())?;
        if *depth > 0 {
            writeln!(f, "and {depth} times more within recovery")?;
        }
        write!(f, "again: ROLLSTORE_TEST_SEED={seed} ")?;
        if scale > 1 {
            // Images are counted through, and a greater scale draws more of them.
            write!(f, "ROLLSTORE_TEST_SCALE={scale} ")?;
        }
        write!(f, "{settings}ROLLSTORE_TEST_POINT={point} ROLLSTORE_TEST_IMAGE={image} cargo test -p rollstore {test}")
    }
}
