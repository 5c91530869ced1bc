//! A sequence played on a copy of the prepared store, beside the reference model.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Reason, RolloutStore};

use super::Word;
use crate::crash::Run;
use crate::model::{Model, Op, Part, Row, Rule};
use crate::state::{StoreState, assert_same};
use crate::store::{self, DIR};

/// Where the checkpoint is.
pub(super) const SAVED: &str = "/saved";

/// Tokens of a rollout whose frame is about as large as a segment.
const LARGE_TOKENS: usize = 8_000;

/// The store that every sequence begins with.
pub(super) struct Prepared {
    pub(super) disk: SimDisk,
    pub(super) state: StoreState,
    pub(super) saved_state: StoreState,
    model: Model,
    saved_model: Model,
}

/// A store and its model, in the middle of a sequence.
struct Play<'a> {
    run: &'a mut Run,
    store: RolloutStore,
    model: Model,
    saved: Model,
}

fn row(id: u64, created_step: u64, version: Option<u64>) -> Row {
    Row { id, created_step, tokens: store::TOKENS, version, has_sampler: id % 2 == 1 }
}

fn advance(step: u64) -> Op {
    Op::Batch(vec![Part::Advance { step, label: None }])
}

impl Prepared {
    pub(super) fn new() -> Self {
        let mut run = Run::new(SimDisk::new(), true);
        let store = run.open().unwrap_or_else(|error| panic!("a new store: {error}"));
        let model = Model::default();
        let mut play = Play { store, saved: model.clone(), model, run: &mut run };
        let mut prepare = || {
            play.operate(&Op::Batch((0..4).map(|id| Part::Insert(row(id, 0, Some(0)))).collect()))?;
            play.operate(&advance(1))?;
            play.operate(&Op::Batch(vec![Part::Insert(row(4, 1, Some(1))), Part::Insert(row(5, 1, None))]))?;
            play.checkpoint()?;
            play.operate(&Op::Batch(vec![Part::Retire { ids: vec![0], reason: Reason::Trained }]))?;
            play.operate(&Op::Batch(vec![Part::Replace(row(1, 2, Some(1))), Part::Cursor(b"two".to_vec())]))?;
            play.operate(&advance(2))?;
            play.operate(&advance(3))?;
            play.operate(&Op::Recompute { step: 3, rollouts: 1 })?;
            play.operate(&Op::Batch(vec![Part::Insert(row(6, 3, Some(3)))]))
        };
        prepare().unwrap_or_else(|error| panic!("without faults: {error}"));
        let Play { store, model, saved, .. } = play;
        let state = StoreState::of(&store).unwrap_or_else(|error| panic!("{error}"));
        store.close().unwrap_or_else(|error| panic!("{error}"));
        let disk = run.disk.kill();
        let saved_state = run.saved_states.pop().unwrap_or_default();
        Self { disk, state, saved_state, model, saved_model: saved }
    }

    /// Plays the words. The power is cut within the last one alone.
    pub(super) fn play(&self, words: &[Word], run: &mut Run) -> rollstore::Result<()> {
        let store = run.open()?;
        let mut play = Play { run, store, model: self.model.clone(), saved: self.saved_model.clone() };
        for (place, word) in (0..).zip(words) {
            if place + 1 == words.len() as u64 {
                play.run.cut_from_here();
            }
            play = play.word(*word, place)?;
        }
        play.store.abandon();
        Ok(())
    }
}

impl Play<'_> {
    fn word(mut self, word: Word, place: u64) -> rollstore::Result<Self> {
        let (clock, version) = (self.model.clock().unwrap_or(0), self.model.versions().0);
        let id = 1_000 + place * 10;
        match word {
            Word::Batch => {
                let cursor = Part::Cursor(format!("behind operation {place}").into_bytes());
                let inserts = [Some(version), Some(version), None].into_iter().zip(id..);
                let parts = inserts.map(|(version, id)| Part::Insert(row(id, clock, version)));
                self.operate(&Op::Batch(parts.chain([cursor]).collect()))?;
            }
            Word::Retire => {
                let ids = self.model.ids().take(2).collect();
                self.operate(&Op::Batch(vec![Part::Retire { ids, reason: Reason::Stale }]))?;
            }
            Word::RetireLine => {
                let rule = Rule::CreatedBefore(clock);
                self.operate(&Op::Batch(vec![Part::RetireWhere { rule, reason: Reason::Evicted }]))?;
            }
            Word::Compact => self.operate(&Op::Compact(u64::MAX))?,
            Word::Recompute => self.operate(&Op::Recompute { step: clock, rollouts: 2 })?,
            Word::Advance => self.operate(&advance(clock + 1))?,
            Word::Seal => {
                let large = Row { tokens: LARGE_TOKENS, ..row(id, clock, Some(version)) };
                self.operate(&Op::Batch(vec![Part::Insert(large)]))?;
            }
            Word::FlushIndex => {
                self.store.flush_index()?;
                self.acknowledge()?;
            }
            Word::Checkpoint => self.checkpoint()?,
            Word::Restore => {
                self.store.close()?;
                store::options(Arc::new(self.run.disk().clone())).restore(SAVED, DIR)?;
                self.run.acknowledge_closed()?;
                self.store = self.run.open()?;
                self.model = self.saved.clone();
                self.acknowledge()?;
            }
            Word::Reopen => {
                self.store.close()?;
                self.store = self.run.open()?;
                self.acknowledge()?;
            }
            Word::Rewind(later) => self.operate(&Op::Rewind { step: clock.saturating_sub(1), later })?,
            Word::Hasty => {
                if self.run.learns() {
                    self.operate(&advance(clock + 1))?;
                } else {
                    self.run.acknowledge(&self.store)?;
                    advance(clock + 1).run(&self.store)?;
                }
            }
        }
        Ok(self)
    }

    /// Runs an operation on store and model.
    fn operate(&mut self, op: &Op) -> rollstore::Result<()> {
        op.run(&self.store)?;
        let found = (self.store.ref_version(), self.store.kl_ref_version());
        let next = self.model.after(op, found);
        self.model = next.unwrap_or_else(|kind| panic!("{op:?} went through; expected {kind:?}"));
        self.acknowledge()
    }

    fn acknowledge(&mut self) -> rollstore::Result<()> {
        self.run.acknowledge(&self.store)?;
        if self.run.learns() {
            let found = StoreState::of(&self.store)?.without_lsns();
            assert_same(&found, &self.model.state(), "without faults, against the model");
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> rollstore::Result<()> {
        self.run.save(&self.store, SAVED)?;
        self.saved = self.model.clone();
        self.acknowledge()
    }
}
