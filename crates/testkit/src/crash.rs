//! Power cuts at every operation of a workload, and what must be found after each.
//!
//! The process is killed at each of them too: the next one finds what was written, durable or not.
//!
//! A workload says which states it had acknowledged. It runs once to learn its operations, once to learn its states, and
//! then once for each operation, at which the power goes. For each of several images of what the medium kept, the store
//! is opened again and must show the last acknowledged state or the one that was under way, whole.
//!
//! Operations are numbered as they begin. The index is written by a thread of its own, so that its operations fall
//! between others than in the run before: over a sweep the cuts still fall everywhere, yet a repetition may have to be
//! tried more than once where the index has a part in it.
//!
//! Always true:
//! - The states that a crash may leave are read from a run without faults, never from the run that crashed.
//! - After each crash the store is written to again, and what it acknowledges then survives too.

mod end;
mod run;

use std::fmt;

use rollstore::RolloutStore;
use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, Op, OpKind, SimDisk};

use crate::settings::{self, random};
use crate::state::{StoreState, assert_same};
use crate::store;

use end::{Crash, End};
pub use run::Run;

/// What a sweep went through; tests assert on it, so that none passes by looking at nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Operations at which the power was cut.
    pub points: u64,
    /// Images that were opened after the cut, those of a killed process among them.
    pub images: u64,
    /// Of those, the ones that showed the acknowledged state and not the one under way.
    pub lost: u64,
    /// Of those, the ones that showed the state under way, whole.
    pub kept: u64,
    /// Power cuts within a recovery.
    pub within_recovery: u64,
}

/// A workload and how its crashes are drawn.
pub struct Sweep<'a> {
    workload: &'a dyn Fn(&mut Run) -> rollstore::Result<()>,
    styles: &'a [ImageStyle],
    seeds: u64,
    depth: u32,
    every: u64,
    goes_on_every: u64,
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("styles", &self.styles).field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

impl<'a> Sweep<'a> {
    /// A sweep over every style of image.
    #[must_use]
    pub fn of(workload: &'a dyn Fn(&mut Run) -> rollstore::Result<()>) -> Self {
        Self { workload, styles: &ImageStyle::ALL, seeds: settings::scale(), depth: 0, every: 1, goes_on_every: 1 }
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

    /// Cuts the power at each operation that changes the disk.
    ///
    /// # Panics
    /// Where a crash leaves a state that it must not.
    #[must_use]
    pub fn run(self) -> Swept {
        let whole = Run::new(SimDisk::new(), false);
        let trace = self.learn(whole);
        let mut states = vec![StoreState::default()];
        let mut learning = Run::new(SimDisk::new(), true);
        (self.workload)(&mut learning).unwrap_or_else(|error| panic!("without faults: {error}"));
        states.extend(learning.states.unwrap_or_default());

        let mut swept = Swept::default();
        let first = settings::seed() % self.every;
        let changing = trace.iter().filter(|op| op.kind.changes_disk() && op.number % self.every == first);
        for op in changing.filter(|op| settings::point().is_none_or(|point| point == op.number)) {
            swept.points += 1;
            let disk = SimDisk::new();
            disk.fail_at(op.number, Fault::PowerCut);
            let mut run = Run::new(disk.clone(), false);
            let ended = (self.workload)(&mut run);
            let cut = disk.list("".as_ref()).is_err();
            assert!(!cut || ended.is_err() || op.number + 1 >= disk.operation_count(), "an Ok after the power was cut");
            let under_way = (run.acknowledged + 1).min(states.len() - 1);
            let allowed = [&states[run.acknowledged], &states[under_way]];
            let images = self.images(op.number).into_iter().map(End::PowerCut);
            for end in images.chain([End::Kill]) {
                let crash = Crash { point: op.number, op, end, depth: 0 };
                let found = self.check(&disk, crash, &allowed, &mut swept);
                swept.images += 1;
                swept.lost += u64::from(found != *allowed[1]);
                swept.kept += u64::from(found != *allowed[0]);
            }
        }
        swept
    }

    fn learn(&self, mut run: Run) -> Vec<Op> {
        (self.workload)(&mut run).unwrap_or_else(|error| panic!("without faults: {error}"));
        run.disk.trace()
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

    /// Opens the disk after its crash, compares, and goes on writing. Returns what was found.
    fn check(&self, dead: &SimDisk, crash: Crash<'_>, allowed: &[&StoreState], swept: &mut Swept) -> StoreState {
        let disk = crash.end.after(dead);
        let store = store::open(&disk).unwrap_or_else(|error| panic!("{crash}\ndoes not open: {error}"));
        let found = StoreState::of(&store).unwrap_or_else(|error| panic!("{crash}\ncannot be read: {error}"));
        if !allowed.contains(&&found) {
            let diffs: Vec<String> = allowed.iter().map(|allowed| found.diff(allowed)).collect();
            panic!("{crash}\nfound / allowed:\n{}", diffs.join("or\n"));
        }
        let recovery = disk.trace();
        if self.goes_on(crash) {
            go_on(store, &disk, crash);
        } else {
            store.abandon();
        }
        if crash.depth < self.depth {
            // What a power cut left is durable. What a killed process left may still be lost before it was ever served.
            let allowed = if let End::Kill = crash.end { allowed } else { &[&found] };
            self.crash_within(dead, crash, &recovery, allowed, swept);
        }
        found
    }

    /// Whether to write on behind this crash: it takes longer than all else, and behind one within a recovery it shows
    /// what it showed behind the one before.
    fn goes_on(&self, crash: Crash<'_>) -> bool {
        let every = if crash.depth == 0 { self.goes_on_every } else { 4 };
        match crash.end {
            End::PowerCut(image) => image.seed.is_multiple_of(every),
            End::Kill => true,
        }
    }

    /// Cuts the power at each operation of a recovery: the next one must come to the same state.
    fn crash_within(
        &self,
        dead: &SimDisk,
        crash: Crash<'_>,
        recovery: &[Op],
        allowed: &[&StoreState],
        swept: &mut Swept,
    ) {
        for op in recovery.iter().filter(|op| op.kind.changes_disk()) {
            let disk = crash.end.after(dead);
            disk.fail_at(op.number, Fault::PowerCut);
            if let Ok(store) = store::open(&disk) {
                store.abandon();
            }
            swept.within_recovery += 1;
            // One image a cut: their styles take turns. One cut in eight goes deeper: all of them would never end.
            let turn = random(settings::seed(), (crash.point << 20) + (op.number << 4) + u64::from(crash.depth));
            let style = self.styles[usize::try_from(turn).unwrap_or_default() % self.styles.len()];
            let end = if turn.is_multiple_of(5) { End::Kill } else { End::PowerCut(CrashImage { seed: turn, style }) };
            let sweep = Sweep { depth: if turn.is_multiple_of(8) { self.depth } else { 0 }, ..*self };
            sweep.check(&disk, Crash { end, depth: crash.depth + 1, ..crash }, allowed, swept);
        }
    }
}

/// Writes to a recovered store: what it acknowledges must survive a power cut and one more reopen.
fn go_on(store: RolloutStore, disk: &SimDisk, crash: Crash<'_>) {
    let fail = |error: rollstore::Error| -> StoreState { panic!("{crash}\nthen: {error}") };
    let written = || {
        let (step, version) = (store.clock().unwrap_or(0), store.ref_version());
        let mut batch = store.batch();
        let id = store.allocate_ids(1)?.next().unwrap_or(0.into());
        batch.insert(store::rollout(id.get(), step, version))?;
        batch.cursor(b"behind the crash");
        batch.commit()?;
        StoreState::of(&store)
    };
    let written = written().unwrap_or_else(fail);
    store.abandon();

    for style in [ImageStyle::NothingUnsynced, ImageStyle::TornSectors] {
        let disk = disk.crash(CrashImage { seed: crash.point, style });
        let reopened = || {
            let store = store::open(&disk)?;
            let state = StoreState::of(&store)?;
            store.close()?;
            Ok(state)
        };
        let when = format_args!("{crash}\nthen written to and cut again, {style:?}");
        assert_same(&reopened().unwrap_or_else(fail), &written, when);
        assert_same(&reopened().unwrap_or_else(fail), &written, format_args!("{when}, closed and opened again"));
    }
}

/// The operations of a trace that change what a crash may leave, for tests that aim faults by themselves.
pub fn changing(trace: &[Op]) -> impl Iterator<Item = &Op> {
    trace.iter().filter(|op| op.kind.changes_disk() && op.kind != OpKind::Lock)
}
