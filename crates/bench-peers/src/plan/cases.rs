//! The cases: what a full run consists of.

use crate::peers::{Kind, Scope};
use crate::work::{DayShape, Lengths, OpenFrom, POLICIES, Shape, Work};

/// Values of all records of workload W: 400 MB.
const W_VALUES: u64 = 100_000 * 1024;

/// One case: work that is done by several peers and compared.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
    /// Whether others than rollstore do it.
    peers: Who,
    /// Rounds that are enough: what is counted and not timed needs one.
    pub(super) rounds_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Everyone,
    Stores,
    RollstoreAlone,
}

/// A piece of work; its figures' names get the prefix.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) prefix: &'static str,
    pub(super) work: Work,
    pub(super) only_rollstore: bool,
}

impl Part {
    fn of(work: Work) -> Self {
        Self { prefix: "", work, only_rollstore: false }
    }
}

impl Case {
    fn new(name: &str, title: &str, peers: Who, parts: Vec<Part>) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), parts, peers, rounds_max: u64::MAX }
    }

    fn records(name: &str, title: &str, shape: Shape) -> Self {
        Self::new(name, title, Who::Everyone, vec![Part::of(Work::Records(shape))])
    }

    fn alone(name: &str, title: &str, work: Work) -> Self {
        Self::new(name, title, Who::RollstoreAlone, vec![Part::of(work)])
    }

    fn open(name: &str, title: &str, shape: &Shape) -> Self {
        let reopen = |from| Work::Reopen(shape.clone(), from);
        let parts = vec![
            Part::of(Work::Fill(shape.clone())),
            Part::of(reopen(OpenFrom::AllFiles)),
            Part { prefix: "log_alone_", work: reopen(OpenFrom::LogAlone), only_rollstore: true },
        ];
        Self::new(name, title, Who::Stores, parts)
    }

    pub(super) fn is_for(&self, peer: Kind) -> bool {
        match self.peers {
            Who::Everyone => true,
            Who::Stores => peer.scope == Scope::All,
            Who::RollstoreAlone => peer.name == "rollstore",
        }
    }
}

/// Every case; with `quick`, so small that all run in seconds.
pub(super) fn all(quick: bool) -> Vec<Case> {
    let part = if quick { 100 } else { 1 };
    let values = W_VALUES / part;
    let w = Shape { threads: vec![4, 16], ..Shape::of(values, 1024) };
    let random = Shape { random_ids: true, ..Shape::of(values, 1024) };
    // The mean of these lengths is about 3,650 tokens.
    let long_tail = Shape { lengths: Lengths::LogNormal, batch: 128, ..Shape::of(values, 3650) };
    let small = |count: u64| Shape { reads: 1_000_000 / part, ..Shape::of(count / part * 64, 64) };
    let day = if quick {
        DayShape { steps: 12, rollouts: 64, tokens: 64 }
    } else {
        DayShape { steps: 100, rollouts: 1024, tokens: 4096 }
    };
    let cold = Shape { reads: 2000 / part, ..Shape::of(values / 2, 1024) };
    let mut cases = vec![
        Case::records("w", "workload W: 4 KiB records", w.clone()),
        Case::records("w-random", "workload W with random ids", random),
        Case::records("12k", "records of 12 KiB", Shape::of(values, 3 * 1024)),
        Case::records("96k", "records of 96 KiB", Shape::of(values, 24 * 1024)),
        Case::records("768k", "records of 768 KiB", Shape::of(values, 192 * 1024)),
        Case::records("log-normal", "lengths from 128 to 32 K tokens", long_tail),
        Case::records("10k", "10,000 records of 256 B", small(10_000)),
        Case::records("100k", "100,000 records of 256 B", small(100_000)),
        Case::records("1m", "1,000,000 records of 256 B", small(1_000_000)),
        Case::new(
            "cold",
            "reads of a store that memory does not hold",
            Who::Everyone,
            vec![Part::of(Work::Cold(cold))],
        ),
        Case::open("open-100k", "open after kill -9, 100,000 records of 4 KiB", &w),
        Case::open("open-1m", "open after kill -9, 1,000,000 records of 256 B", &small(1_000_000)),
        Case::alone("advance-1k", "an advance beside 1,000 rollouts", Work::Advance(small(1000))),
        Case::alone("advance-1m", "an advance beside 1,000,000 rollouts", Work::Advance(small(1_000_000))),
        Case::alone("beside", "8 readers beside a writer", Work::Beside(Shape::of(values / 2, 1024))),
        Case::alone("day", "the trainer's day", Work::Day(day)),
    ];
    cases.extend(POLICIES.map(|policy| {
        let (name, title) = (policy.case(), policy.title());
        Case { rounds_max: 1, ..Case::alone(&name, &title, Work::Saved(policy)) }
    }));
    cases
}
