//! After a crash: what is found, what a second crash within the recovery leaves, and that writing goes on.

use std::path::Path;
use std::sync::Arc;

use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, Op, SimDisk};
use rollstore::{ErrorKind, RolloutStore};

use crate::settings::{self, random};
use crate::state::{StoreState, assert_same};
use crate::store;

use super::end::{Crash, End};
use super::run::{Numbers, last_segment};
use super::{Sweep, Swept};

/// What may be found after a crash.
pub(super) struct Allowed<'a> {
    /// After a power cut: the last state that was durable, those acknowledged behind it, and the one under way.
    power_cut: &'a [&'a StoreState],
    /// After a kill: the last acknowledged one and the one under way.
    kill: &'a [&'a StoreState],
    /// The same of the checkpoint.
    saved: [Option<&'a StoreState>; 2],
    /// Numbers that are used up.
    used: Numbers,
}

impl<'a> Allowed<'a> {
    /// Of all states of a workload, those from the last durable one to the one behind the last acknowledged one.
    pub(super) fn between(
        states: &'a [&'a StoreState],
        durable: usize,
        acknowledged: usize,
        saved: &[Option<&'a StoreState>],
        saved_count: usize,
    ) -> Self {
        let next = |count: usize, len: usize| (count + 1).min(len - 1);
        let under_way = next(acknowledged, states.len());
        Self {
            power_cut: &states[durable..=under_way],
            kill: &states[acknowledged..=under_way],
            saved: [saved[saved_count], saved[next(saved_count, saved.len())]],
            used: Numbers::default(),
        }
    }

    /// Numbers up to these were acknowledged once.
    pub(super) fn above(self, used: Numbers) -> Self {
        Self { used, ..self }
    }

    pub(super) fn acknowledged(&self) -> &'a StoreState {
        self.kill[0]
    }

    pub(super) fn under_way(&self) -> &'a StoreState {
        self.kill[self.kill.len() - 1]
    }

    /// The states that this end may leave.
    fn states(&self, end: End) -> &'a [&'a StoreState] {
        match end {
            End::PowerCut(_) => self.power_cut,
            End::Kill => self.kill,
        }
    }
}

impl Sweep<'_> {
    /// Opens a disk as it is found after its crash, compares, and goes on writing. Returns what was found.
    pub(super) fn check(
        &self,
        dead: &SimDisk,
        disk: &SimDisk,
        crash: Crash<'_>,
        depth: u32,
        allowed: &Allowed<'_>,
        swept: &mut Swept,
    ) -> StoreState {
        let store = store::open_in_turn(disk).unwrap_or_else(|error| panic!("{crash}\ndoes not open: {error}"));
        let recovery = disk.trace();
        let found = StoreState::of(&store).unwrap_or_else(|error| panic!("{crash}\ncannot be read: {error}"));
        let states = allowed.states(crash.end);
        if !states.contains(&&found) {
            let diffs: Vec<String> = states.iter().map(|allowed| found.diff(allowed)).collect();
            panic!("{crash}\nfound / allowed:\n{}", diffs.join("or\n"));
        }
        if let Some((path, _)) = &self.saved {
            check_saved(disk, path, allowed, crash);
        }
        if self.goes_on(crash) {
            go_on(store, disk, crash, allowed.used);
        } else {
            store.abandon();
        }
        let chosen = match crash.end {
            End::PowerCut(image) => image.seed,
            End::Kill => crash.op.number,
        };
        if crash.depth < depth && (crash.depth > 0 || chosen.is_multiple_of(self.within_every)) {
            // What a power cut left is durable. What a killed process left may still be lost before it was ever served.
            let found = [&found];
            let (power_cut, kill) = match crash.end {
                End::PowerCut(_) => (&found[..], &found[..]),
                End::Kill => (allowed.power_cut, allowed.kill),
            };
            self.crash_within(dead, crash, &recovery, depth, &Allowed { power_cut, kill, ..*allowed }, swept);
        }
        found
    }

    /// Whether to write on behind this crash: it takes longer than all else, and behind one within a recovery it shows
    /// what it showed behind the one before.
    fn goes_on(&self, crash: Crash<'_>) -> bool {
        let every = if crash.depth == 0 { self.goes_on_every } else { self.goes_on_every.max(4) };
        match crash.end {
            End::PowerCut(image) => image.seed.is_multiple_of(every),
            End::Kill => crash.op.number.is_multiple_of(every) || self.goes_on_every == 1,
        }
    }

    /// Cuts the power at each operation of a recovery: the next one must come to the same state.
    fn crash_within(
        &self,
        dead: &SimDisk,
        crash: Crash<'_>,
        recovery: &[Op],
        depth: u32,
        allowed: &Allowed<'_>,
        swept: &mut Swept,
    ) {
        for op in recovery.iter().filter(|op| op.kind.changes_disk()) {
            let disk = crash.end.after(dead);
            disk.fail_at(op.number, Fault::PowerCut);
            if let Ok(store) = store::open_in_turn(&disk) {
                store.abandon();
            }
            swept.within_recovery += 1;
            // One image a cut: their styles take turns. One cut in eight goes deeper: all of them would never end.
            let turn = random(settings::seed(), (crash.op.number << 20) + (op.number << 4) + u64::from(crash.depth));
            let style = self.styles[usize::try_from(turn).unwrap_or_default() % self.styles.len()];
            let end = if turn.is_multiple_of(5) { End::Kill } else { End::PowerCut(CrashImage { seed: turn, style }) };
            let depth = if turn.is_multiple_of(8) { depth } else { 0 };
            self.check(&disk, &end.after(&disk), Crash { end, depth: crash.depth + 1, ..crash }, depth, allowed, swept);
        }
    }
}

/// The checkpoint is complete, and one of those that may stand there; absent, where none was acknowledged (D8).
fn check_saved(disk: &SimDisk, path: &Path, allowed: &Allowed<'_>, crash: Crash<'_>) {
    let opened = store::options(Arc::new(disk.clone())).read_only(true).open(path);
    let found = match opened {
        Ok(saved) => Some(
            StoreState::of(&saved).unwrap_or_else(|error| panic!("{crash}\nthe checkpoint cannot be read: {error}")),
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{crash}\nthe checkpoint does not open: {error}"),
    };
    if allowed.saved.contains(&found.as_ref()) {
        return;
    }
    let Some(found) = found else { panic!("{crash}\nthe checkpoint is gone") };
    let diffs: Vec<String> = allowed.saved.iter().flatten().map(|allowed| found.diff(allowed)).collect();
    panic!("{crash}\nthe checkpoint: found / allowed:\n{}", diffs.join("or\n"));
}

/// Writes to a recovered store: what it acknowledges must survive a power cut and one more reopen, and no number in it
/// was used before.
fn go_on(store: RolloutStore, disk: &SimDisk, crash: Crash<'_>, used: Numbers) {
    let fail = |error: rollstore::Error| -> StoreState { panic!("{crash}\nthen: {error}") };
    let written = || {
        let (step, version) = (store.clock().unwrap_or(0), store.ref_version());
        let mut batch = store.batch();
        let id = store.allocate_ids(1)?.next().unwrap_or(0.into());
        batch.insert(store::rollout(id.get(), step, version))?;
        batch.cursor(b"behind the crash");
        batch.commit()?;
        let inserted = store.get(id)?.map(|view| view.insert_lsn());
        assert!(inserted > Some(used.lsn), "{crash}\nthen: LSN {inserted:?} is given twice, {used:?}");
        let version = store.advance_ref_version(step, None)?;
        assert!(version > used.ref_version, "{crash}\nthen: ref version {version} is given twice, {used:?}");
        let version = store.advance_kl_ref_version(None)?;
        assert!(version > used.kl_version, "{crash}\nthen: KL version {version} is given twice, {used:?}");
        StoreState::of(&store)
    };
    let written = written().unwrap_or_else(fail);
    let segment = last_segment(disk);
    assert!(segment > used.segment, "{crash}\nthen: segment {segment} is given twice, {used:?}");
    store.abandon();

    for style in [ImageStyle::NothingUnsynced, ImageStyle::TornSectors] {
        let disk = disk.crash(CrashImage { seed: crash.op.number, style });
        let reopened = || {
            let store = store::open_in_turn(&disk)?;
            let state = StoreState::of(&store)?;
            store.close()?;
            Ok(state)
        };
        let when = format_args!("{crash}\nthen written to and cut again, {style:?}");
        assert_same(&reopened().unwrap_or_else(fail), &written, when);
        assert_same(&reopened().unwrap_or_else(fail), &written, format_args!("{when}, closed and opened again"));
    }
}
