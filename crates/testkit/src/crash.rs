//! Power cuts at every operation of a workload, and what must be found after each.
//!
//! The process is killed at each of them too: the next one finds what was written, durable or not.
//!
//! A workload says which states it had acknowledged. It runs once to learn its operations, once to learn its states, and
//! then once for each operation, at which the power goes. For each of several images of what the medium kept, the store
//! is opened again and must show the last acknowledged state or the one that was under way, whole. Images of a point that
//! are the same, byte for byte, are looked at once.
//!
//! Operations are numbered as they begin. Stores flush their index in turn, so that each run takes the same operations.
//!
//! Always true:
//! - The states that a crash may leave are read from a run without faults, never from the run that crashed.
//! - After a crash the store is written to again, and what it acknowledges then survives too, under numbers that nothing
//!   acknowledged before had, on whatever branch of its history.
//! - A run that is cut comes to the operation that was learned under this number, or the sweep fails.

mod after;
mod end;
mod run;
pub mod small;

use std::collections::BTreeSet;
use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::path::PathBuf;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, Op, OpKind, SimDisk};

use crate::settings::{self, random};
use crate::state::StoreState;

use after::Allowed;
use end::{Crash, End, Repeat};
use run::Numbers;
pub use run::Run;

/// What a sweep went through; tests assert on it, so that none passes by looking at nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Operations at which the power was cut.
    pub points: u64,
    /// Disks that were opened after a first crash: different images of the same power cut, and those of killed processes.
    pub images: u64,
    /// Pairs of a power cut and what it left: of one cut, no two with the same names and bytes.
    pub distinct: u64,
    /// Of the images, the ones that showed the acknowledged state and not the one under way.
    pub lost: u64,
    /// Of the images, the ones that showed the state under way, whole.
    pub kept: u64,
    /// Of the images, the ones that showed a state before the acknowledged one: what a Buffered store may lose.
    pub older: u64,
    /// Power cuts within a recovery.
    pub within_recovery: u64,
}

/// A workload and how its crashes are drawn.
pub struct Sweep<'a> {
    workload: &'a dyn Fn(&mut Run) -> rollstore::Result<()>,
    begin: SimDisk,
    first: StoreState,
    used: Numbers,
    saved: Option<(PathBuf, Option<StoreState>)>,
    styles: &'a [ImageStyle],
    seeds: u64,
    depth: u32,
    within_every: u64,
    every: u64,
    goes_on_every: u64,
    repeat: Repeat,
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("styles", &self.styles).field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

impl<'a> Sweep<'a> {
    /// A sweep over every style of image, from an empty disk.
    #[must_use]
    pub fn of(workload: &'a dyn Fn(&mut Run) -> rollstore::Result<()>) -> Self {
        Self {
            workload,
            begin: SimDisk::new(),
            first: StoreState::default(),
            used: Numbers::default(),
            saved: None,
            styles: &ImageStyle::ALL,
            seeds: settings::scale(),
            depth: 0,
            within_every: 1,
            every: 1,
            goes_on_every: 1,
            repeat: Repeat::of_this_test(),
        }
    }

    /// Begins each run on a copy of this disk, whose store shows `state`. The disk itself is dead from then on.
    #[must_use]
    pub fn from(self, disk: &SimDisk, state: StoreState) -> Self {
        Self { begin: disk.clone(), used: Numbers::seen_in(&state), first: state, ..self }
    }

    /// Looks at the checkpoint at this path too, which shows `state` at first, or is not there. See [`Run::save`].
    #[must_use]
    pub fn saving(self, path: impl Into<PathBuf>, state: Option<StoreState>) -> Self {
        Self { saved: Some((path.into(), state)), ..self }
    }

    /// Draws so many images of each style that chooses among several, times the scale.
    #[must_use]
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds: seeds * settings::scale(), ..self }
    }

    /// Cuts the power again at each operation of the recovery, and, for some of them, of the recovery after that, so many
    /// deep.
    #[must_use]
    pub fn within_recovery(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// Does so behind one of so many images alone; a greater scale takes more of them.
    #[must_use]
    pub fn within_every(self, every: u64) -> Self {
        Self { within_every: (every / settings::scale()).max(1), ..self }
    }

    /// Takes one of so many operations alone, another one for each seed; a greater scale takes more of them.
    #[must_use]
    pub fn every(self, every: u64) -> Self {
        Self { every: (every / settings::scale()).max(1), ..self }
    }

    /// Goes on writing behind one of so many images alone, for workloads whose states take long to read.
    #[must_use]
    pub fn goes_on_every(self, every: u64) -> Self {
        Self { goes_on_every: every, ..self }
    }

    /// How a failure is had again, where it is not by the running test's name alone.
    #[must_use]
    fn repeated_by(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// Cuts the power at each operation that changes the disk.
    ///
    /// # Panics
    /// Where a crash leaves a state that it must not.
    #[must_use]
    pub fn run(self) -> Swept {
        let mut whole = Run::new(self.begin.kill(), false);
        (self.workload)(&mut whole).unwrap_or_else(|error| panic!("without faults: {error}"));
        let trace = whole.disk.trace();
        let mut learned = Run::new(self.begin.kill(), true);
        (self.workload)(&mut learned).unwrap_or_else(|error| panic!("without faults: {error}"));
        let states: Vec<&StoreState> = [&self.first].into_iter().chain(&learned.states).collect();
        let initial = self.saved.as_ref().and_then(|(_, state)| state.as_ref());
        let saved: Vec<Option<&StoreState>> =
            [initial].into_iter().chain(learned.saved_states.iter().map(Some)).collect();

        let mut swept = Swept::default();
        let first = settings::seed() % self.every;
        let wanted = |op: &&Op| op.kind.changes_disk() && op.number >= whole.first_point;
        let taken = |op: &&Op| match settings::point() {
            Some(point) => op.number == point,
            None => op.number % self.every == first,
        };
        for op in trace.iter().filter(wanted).filter(taken) {
            swept.points += 1;
            let disk = self.begin.kill();
            disk.fail_at(op.number, Fault::PowerCut);
            let mut run = Run::new(disk.clone(), false);
            let ended = (self.workload)(&mut run);
            let cut = disk.list("".as_ref()).is_err();
            assert!(!cut || ended.is_err() || op.number + 1 >= disk.operation_count(), "an Ok after the power was cut");
            let at = disk.trace().into_iter().find(|found| found.number == op.number);
            let same = at.as_ref().is_some_and(|at| (at.kind, &at.path) == (op.kind, &op.path));
            assert!(same, "the run took another way: {at:?} instead of {op:?}");
            let used = run.acknowledged.checked_sub(1).map_or(self.used, |last| learned.numbers[last].max(self.used));
            let allowed = Allowed::between(&states, run.durable, run.acknowledged, &saved, run.saved).above(used);
            self.crash_at(op, &disk, &allowed, &mut swept);
        }
        swept
    }

    /// Looks at every image of one power cut, and at what a killed process leaves there.
    fn crash_at(&self, op: &Op, disk: &SimDisk, allowed: &Allowed<'_>, swept: &mut Swept) {
        let ends = self.images(op.number).into_iter().map(End::PowerCut).chain([End::Kill]);
        let mut seen = BTreeSet::new();
        for (place, end) in (0..).zip(ends) {
            if settings::image().is_some_and(|image| image != place) {
                continue;
            }
            let after = end.after(disk);
            if let End::PowerCut(_) = end {
                if !seen.insert(after.fingerprint()) {
                    continue;
                }
                swept.distinct += 1;
            }
            let crash = Crash { op, image: place, end, depth: 0, repeat: &self.repeat };
            let found = self.check(disk, &after, crash, self.depth, allowed, swept);
            swept.images += 1;
            swept.lost += u64::from(found != *allowed.under_way());
            swept.kept += u64::from(found != *allowed.acknowledged());
            swept.older += u64::from(found != *allowed.acknowledged() && found != *allowed.under_way());
        }
    }

    /// The images to look at after a cut at this operation.
    fn images(&self, point: u64) -> Vec<CrashImage> {
        let choosing = |style: ImageStyle| !matches!(style, ImageStyle::NothingUnsynced | ImageStyle::Everything);
        let of_style = |(place, style): (u64, &ImageStyle)| {
            let style = *style;
            let seeds = if choosing(style) { self.seeds } else { 1 };
            (0..seeds).map(move |at| {
                let seed = random(settings::seed(), (point << 20) + (place << 16) + at);
                CrashImage { seed, style }
            })
        };
        (0..).zip(self.styles).flat_map(of_style).collect()
    }
}

impl Add for Swept {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            points: self.points + other.points,
            images: self.images + other.images,
            distinct: self.distinct + other.distinct,
            lost: self.lost + other.lost,
            kept: self.kept + other.kept,
            older: self.older + other.older,
            within_recovery: self.within_recovery + other.within_recovery,
        }
    }
}

impl Sum for Swept {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// The operations of a trace that change what a crash may leave, for tests that aim faults by themselves.
pub fn changing(trace: &[Op]) -> impl Iterator<Item = &Op> {
    trace.iter().filter(|op| op.kind.changes_disk() && op.kind != OpKind::Lock)
}
