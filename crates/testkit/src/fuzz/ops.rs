//! Sequences of operations with faults and power cuts, against the reference model (D1, D2, D3, D8, D9, D11).
//!
//! A failed operation is allowed to have happened or not, and nothing else; all others have happened. After each step the
//! store is compared with the model, whole.

use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
use rollstore::{Error, ErrorKind, Reason, Rewind, RolloutStore, inspect};

use crate::fuzz::lossy::Lossy;
use crate::fuzz::{Input, seeds};
use crate::model::{Model, Op, Part, Row, Rule, Swept};
use crate::settings::random;
use crate::state::StoreState;
use crate::store::{self, DIR};

/// Where checkpoints are written.
const CHECKPOINT: &str = "/run/checkpoint";

/// Ids below this are used, so that operations meet.
const IDS: u64 = 24;

/// Steps of one input at most: a longer one tells no more.
const STEPS_MAX: usize = 200;

/// Runs the operations that the bytes say.
///
/// # Panics
/// Where the store differs from the model.
pub fn ops(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut run = Run::begin();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        run.step(&mut input);
    }
    run.reopen();
    run.check_sound();
}

/// What a long run went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ran {
    /// Power cuts.
    pub crashes: u64,
    /// Of those, the ones in the middle of a recovery.
    pub within_recovery: u64,
}

/// Runs so many operations that follow from the seed; now and then the power goes, and goes again within the recovery.
///
/// # Panics
/// Where the store differs from the model.
#[must_use]
pub fn long_run(seed: u64, steps: u64) -> Ran {
    /// More than any operation takes.
    const STEP_BYTES: usize = 96;
    let mut run = Run::begin();
    for step in 0..steps {
        let bytes = seeds::random_bytes(random(seed, step), STEP_BYTES);
        let mut input = Input::new(&bytes);
        if input.below(8) == 0 {
            run.armed = Some((input.below(96), Fault::PowerCut));
            run.image = image(&mut input);
            run.crash(image(&mut input));
        } else {
            run.step(&mut input);
        }
    }
    run.reopen();
    run.check_sound();
    run.ran
}

/// A store under test and what is known of it.
struct Run {
    disk: SimDisk,
    store: Option<RolloutStore>,
    /// What was acknowledged.
    model: Model,
    /// What else the next open may find, since something failed.
    pending: Vec<Pending>,
    /// What a power cut may take back.
    lossy: Lossy,
    /// Whether the power went since the last open.
    power_was_cut: bool,
    /// Every second opening is a Buffered one.
    openings: u64,
    /// What may stand at the checkpoint's path; the last one is the newest.
    checkpoints: Vec<Option<Model>>,
    /// The highest versions ever seen.
    issued: (u64, u64),
    /// Whether something failed since the last open, so that the store may have stopped.
    failed: bool,
    /// Strikes the next operation: how many disk operations from its begin, and what.
    armed: Option<(u64, Fault)>,
    /// What a power cut in the middle of an operation leaves.
    image: CrashImage,
    ran: Ran,
}

/// What may have happened, though it failed.
enum Pending {
    Op(Op),
    Restore(Box<Model>),
}

impl Run {
    fn begin() -> Self {
        let disk = SimDisk::new();
        let store = store::open_in_turn(&disk).unwrap_or_else(|error| panic!("a new store: {error}"));
        Self {
            disk,
            store: Some(store),
            model: Model::default(),
            pending: Vec::new(),
            lossy: Lossy::default(),
            power_was_cut: false,
            openings: 0,
            checkpoints: vec![None],
            issued: (0, 0),
            failed: false,
            armed: None,
            image: CrashImage { seed: 0, style: ImageStyle::NothingUnsynced },
            ran: Ran::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(20) {
            16 | 17 => {
                let bytes = input.one_of(&[u64::MAX, u64::MAX, 40 << 10, 1]);
                self.operate(Op::Compact(bytes));
            }
            18 | 19 => {
                let which = input.one_of(&[Swept::All, Swept::Old]);
                let op = Op::Sweep { which, step: self.near_clock(input), rollouts: input.below(6) };
                self.operate(op);
            }
            0..=5 => {
                let parts = (0..=input.below(5)).map(|_| self.part(input)).collect();
                self.operate(Op::Batch(parts));
            }
            6 => {
                let op = Op::Recompute { step: self.near_clock(input), rollouts: input.below(6) };
                self.operate(op);
            }
            7 => {
                let ids = (0..=input.below(4)).map(|_| self.live_or_not(input)).collect();
                let op = Op::Serve { ids, step: self.near_clock(input) };
                self.operate(op);
            }
            8 => {
                let later = input.one_of(&[Rewind::Keep, Rewind::Drop]);
                let op = Op::Rewind { step: self.near_clock(input).saturating_sub(input.below(4)), later };
                self.operate(op);
            }
            9 => self.checkpoint(),
            10 => self.restore(),
            11 => {
                let struck = self.arm();
                let closed = self.store.take().map_or(Ok(()), RolloutStore::close);
                self.closed(&closed);
                self.settle_fault(closed.err().as_ref(), struck);
                self.reopen();
            }
            12 => self.crash(image(input)),
            13 => {
                // Killed: what was written is there, durable or not.
                self.store.take().into_iter().for_each(RolloutStore::abandon);
                self.disk = self.disk.kill();
                self.reopen();
            }
            14 => self.check_sound(),
            _ => {
                let faults =
                    [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::PowerCut, Fault::PowerCut, Fault::Eio];
                self.armed = Some((input.below(32), input.one_of(&faults)));
                self.image = image(input);
            }
        }
    }

    /// A step about where the trainer is; now and then one that it cannot be at.
    fn near_clock(&self, input: &mut Input<'_>) -> u64 {
        let clock = self.model.clock().unwrap_or(0);
        match input.below(16) {
            0 => clock.saturating_sub(3),
            1 => clock + 20_000,
            2 => clock.saturating_sub(1),
            ahead => clock + ahead / 4,
        }
    }

    fn live_or_not(&self, input: &mut Input<'_>) -> u64 {
        let live: Vec<u64> = self.model.state().order.iter().map(|id| id.get()).collect();
        if live.is_empty() || input.below(8) == 0 { input.below(IDS) } else { input.one_of(&live) }
    }

    /// A partial rollout with its created step; now and then an id that is none.
    fn begun_or_not(&self, input: &mut Input<'_>) -> (u64, u64) {
        let begun: Vec<(u64, u64)> = self.model.partials().collect();
        if begun.is_empty() || input.below(8) == 0 { (input.below(IDS), 0) } else { input.one_of(&begun) }
    }

    fn part(&self, input: &mut Input<'_>) -> Part {
        match input.below(20) {
            0..=4 => Part::Insert(self.row(input.below(IDS), input)),
            5 => Part::Replace(self.row(self.live_or_not(input), input)),
            6 => {
                let ids = (0..input.below(4)).map(|_| self.live_or_not(input)).collect();
                Part::Retire { ids, reason: input.one_of(&Reason::ALL) }
            }
            7 | 8 => {
                let last = self.model.label().unwrap_or(0);
                let label = input.one_of(&[None, None, Some(last), Some(last + 1), Some(last / 2)]);
                Part::Advance { step: self.near_clock(input), label }
            }
            9 => Part::AdvanceKl,
            12 | 13 => {
                let rule = match input.below(3) {
                    0 => Rule::CreatedBefore(self.near_clock(input).saturating_sub(input.below(4))),
                    1 => Rule::VersionBefore(self.model.versions().0.saturating_sub(input.below(2))),
                    _ => Rule::Groups(vec![input.below(IDS / 4), input.below(IDS / 4)]),
                };
                Part::RetireWhere { rule, reason: input.one_of(&Reason::ALL) }
            }
            14 => Part::Begin { id: input.below(IDS), created_step: self.near_clock(input) },
            15 | 16 => Part::Append { id: self.begun_or_not(input).0, tokens: input.one_of(&[1, 16, 40, 0, 3000]) },
            17 => {
                let (id, created_step) = self.begun_or_not(input);
                let row = self.row(id, input);
                let created_step = if input.below(16) == 0 { row.created_step } else { created_step };
                Part::Finish(Row { created_step, ..row })
            }
            18 => Part::Abandon((0..input.below(3)).map(|_| self.begun_or_not(input).0).collect()),
            10 => Part::Cursor(vec![input.byte(); usize::from(input.byte())]),
            _ => Part::ApplyDue { step: self.near_clock(input), rollouts: input.below(6) },
        }
    }

    fn row(&self, id: u64, input: &mut Input<'_>) -> Row {
        let version = match input.below(16) {
            0..=8 => Some(self.model.versions().0),
            9 => Some(self.issued.0),
            10 | 11 => Some(self.model.versions().0.saturating_sub(1)),
            12 => Some(Row::NEVER_ISSUED),
            _ => None,
        };
        let tokens = input.one_of(&[1, 16, 40, 0, 3000]);
        let (has_sampler, has_prompt) = (input.coin(), false);
        Row { id, created_step: self.near_clock(input), tokens, version, has_sampler, has_prompt }
    }

    fn store(&self) -> &RolloutStore {
        self.store.as_ref().expect("a store is open between steps")
    }

    /// Aims the fault that waits at the operations from here on.
    fn arm(&mut self) -> bool {
        let Some((ahead, fault)) = self.armed.take() else { return false };
        self.disk.fail_at(self.disk.operation_count() + ahead, fault);
        true
    }

    /// Takes a fault back that did not strike, and checks that an error is one that a fault explains.
    fn settle_fault(&mut self, error: Option<&Error>, struck: bool) {
        self.disk.heal();
        let Some(error) = error else { return };
        let explained = match error.kind() {
            // The closure reads the rollouts that it computes for.
            ErrorKind::Io | ErrorKind::Full | ErrorKind::Compute => struck,
            ErrorKind::Poisoned => struck || self.failed,
            _ => false,
        };
        assert!(explained, "no fault explains: {error}");
        self.failed = true;
    }

    fn is_dead(&self) -> bool {
        self.disk.list("/".as_ref()).is_err()
    }

    /// Runs an operation on store and model.
    fn operate(&mut self, op: Op) {
        let struck = self.arm();
        let done = op.run(self.store());
        self.disk.heal();
        let found = (self.store().ref_version(), self.store().kl_ref_version());
        let expected = self.model.after(&op, found);
        // A sweep that failed sets rollouts aside until the store is opened again, which the model does not know of.
        let forgets = matches!(op, Op::Sweep { .. }) && done.is_err();
        match (done, expected) {
            (Ok(()), Ok(next)) => {
                // Whatever failed before did not happen, or the store would not write.
                if matches!(op, Op::Batch(_) | Op::Rewind { .. }) || next.state() != self.model.state() {
                    self.pending.clear();
                }
                self.adopt(next, &format!("{op:?}"));
            }
            (Ok(()), Err(kind)) => panic!("{op:?} went through; expected {kind:?}"),
            (Err(error), Err(kind)) if error.kind() == kind => {}
            (Err(error), expected) => {
                // A store that stopped before cannot have done it.
                let stopped_before = error.kind() == ErrorKind::Poisoned && self.failed && !struck;
                self.settle_fault(Some(&error), struck);
                if expected.is_ok() && !stopped_before {
                    self.pending.push(Pending::Op(op));
                }
            }
        }
        if self.is_dead() {
            self.crash(self.image);
            return;
        }
        // Reads go on, and show what was acknowledged, whatever failed (D11).
        let shown = StoreState::of(self.store()).unwrap_or_else(|error| panic!("cannot be read: {error}"));
        self.check_shown(&shown.without_lsns(), found);
        if forgets {
            self.reopen();
        }
    }

    fn check_shown(&mut self, shown: &StoreState, found: (u64, u64)) {
        // `get_or_compute` may fail to read what it stored.
        if let Some(Pending::Op(op @ Op::Serve { .. })) = self.pending.last()
            && let Ok(next) = self.model.after(op, found)
            && next.state() == *shown
        {
            self.pending.clear();
            self.model = next;
        }
        let expected = self.model.state();
        assert!(*shown == expected, "an open store: found / expected\n{}", shown.diff(&expected));
    }

    /// Takes a state for acknowledged. Versions that it issued must be new.
    fn adopt(&mut self, next: Model, what: &str) {
        let (before, now) = (self.model.versions(), next.versions());
        assert!(now.0 == before.0 || now.0 > self.issued.0, "{what}: ref version {} is given twice", now.0);
        assert!(now.1 == before.1 || now.1 > self.issued.1, "{what}: KL version {} is given twice", now.1);
        self.issued = (self.issued.0.max(now.0), self.issued.1.max(now.1));
        let before = std::mem::replace(&mut self.model, next);
        if let Some(store) = &self.store {
            self.lossy.committed(store, before);
        }
    }

    fn checkpoint(&mut self) {
        let struck = self.arm();
        let made = self.store().checkpoint(CHECKPOINT);
        self.settle_fault(made.as_ref().err(), struck);
        if made.is_ok() {
            self.checkpoints.clear();
        }
        self.checkpoints.push(Some(self.model.clone()));
        if self.is_dead() {
            self.crash(self.image);
        }
        self.check_checkpoint();
    }

    /// The checkpoint is one of those that may stand there, complete, or there is none (D8).
    fn check_checkpoint(&mut self) -> Option<Model> {
        let opened = store::options(Arc::new(self.disk.clone())).read_only(true).open(CHECKPOINT);
        let found = match opened {
            Ok(store) => StoreState::of(&store).unwrap_or_else(|error| panic!("the checkpoint: {error}")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                assert!(self.checkpoints.contains(&None), "the checkpoint is gone: {error}");
                return None;
            }
            Err(error) => panic!("the checkpoint does not open: {error}"),
        };
        let found = found.without_lsns();
        let mut allowed = self.checkpoints.iter().rev().flatten();
        let known = allowed.find(|model| model.state() == found);
        let Some(known) = known else {
            let diffs = self.checkpoints.iter().flatten().map(|model| found.diff(&model.state()));
            panic!("the checkpoint: found / allowed\n{}", diffs.collect::<Vec<_>>().join("or\n"));
        };
        Some(known.clone())
    }

    fn restore(&mut self) {
        let Some(saved) = self.check_checkpoint() else { return };
        let closed = self.store.take().map_or(Ok(()), RolloutStore::close);
        self.closed(&closed);
        self.settle_fault(closed.err().as_ref(), false);
        let struck = self.arm();
        let restored = store::options(Arc::new(self.disk.clone())).restore(CHECKPOINT, DIR);
        self.settle_fault(restored.as_ref().err(), struck);
        if restored.is_ok() {
            self.model = saved;
            self.pending.clear();
        } else {
            self.pending.push(Pending::Restore(Box::new(saved)));
        }
        self.reopen();
    }

    /// Cuts the power and opens what is left.
    fn crash(&mut self, image: CrashImage) {
        self.ran.crashes += 1;
        self.power_was_cut = true;
        self.store.iter().for_each(|store| self.lossy.look(store));
        // The store must not write once more when it goes.
        let after = self.disk.crash(image);
        self.store.take().into_iter().for_each(RolloutStore::abandon);
        self.disk = after;
        self.reopen();
    }

    /// Opens the store: what was acknowledged is there, and what was under way is there whole or not at all.
    fn reopen(&mut self) {
        if let Some(store) = self.store.take() {
            self.lossy.look(&store);
            let closed = store.close();
            self.closed(&closed);
            self.settle_fault(closed.err().as_ref(), false);
        }
        let struck = self.arm();
        self.openings += 1;
        let mut opened = self.open();
        self.settle_fault(opened.as_ref().err(), struck || self.is_dead());
        if self.is_dead() {
            (self.ran.crashes, self.ran.within_recovery) = (self.ran.crashes + 1, self.ran.within_recovery + 1);
            let after = self.disk.crash(self.image);
            opened.into_iter().for_each(RolloutStore::abandon);
            self.disk = after;
            self.power_was_cut = true;
            opened = self.open();
        } else if opened.is_err() {
            opened = self.open();
        }
        let store = opened.unwrap_or_else(|error| panic!("does not open: {error}"));
        let found = StoreState::of(&store).unwrap_or_else(|error| panic!("cannot be read: {error}"));
        let versions = (found.ref_version, found.kl_ref_version);
        let found = found.without_lsns();
        let mut allowed = vec![self.model.clone()];
        if std::mem::take(&mut self.power_was_cut) {
            allowed.extend(self.lossy.take());
        }
        self.lossy.forget();
        for pending in self.pending.drain(..) {
            match pending {
                Pending::Op(op) => allowed.extend(self.model.after(&op, versions)),
                Pending::Restore(saved) => allowed.push(*saved),
            }
        }
        self.store = Some(store);
        let Some(known) = allowed.iter().find(|model| model.state() == found) else {
            let diffs = allowed.iter().map(|model| found.diff(&model.state()));
            panic!("reopened: found / allowed\n{}", diffs.collect::<Vec<_>>().join("or\n"));
        };
        if known.versions() != self.model.versions() {
            self.issued = (self.issued.0.max(known.versions().0), self.issued.1.max(known.versions().1));
        }
        (self.model, self.failed) = (known.clone(), false);
    }

    /// What closed well is durable.
    fn closed(&mut self, closed: &rollstore::Result<()>) {
        if closed.is_ok() {
            self.lossy.forget();
        }
    }

    fn open(&self) -> rollstore::Result<RolloutStore> {
        match self.openings % 2 {
            0 => store::open_in_turn(&self.disk),
            _ => store::open_buffered_in_turn(&self.disk),
        }
    }

    /// No byte of store and checkpoint is damaged. What was committed is durable from here on.
    fn check_sound(&mut self) {
        let synced = self.store().sync();
        assert!(synced.is_ok() || self.failed, "{synced:?}");
        self.check_checkpoint();
        let verified = self.store().verify().unwrap_or_else(|error| panic!("verify: {error}"));
        assert!(verified.is_sound(), "the store: {:?}", verified.findings);
        if self.disk.entry_kind(CHECKPOINT.as_ref()).is_ok_and(|kind| kind.is_some()) {
            let verified = inspect::verify_on(&self.disk, CHECKPOINT.as_ref());
            let verified = verified.unwrap_or_else(|error| panic!("verify of the checkpoint: {error}"));
            assert!(verified.is_sound(), "the checkpoint: {:?}", verified.findings);
        }
    }
}

fn image(input: &mut Input<'_>) -> CrashImage {
    CrashImage { seed: u64::from(input.short()), style: input.one_of(&ImageStyle::ALL) }
}
