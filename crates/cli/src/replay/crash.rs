//! The end of the trainer's process in a trace, and its way back.
//!
//! May touch the store, its checkpoint and the note of a resume. Knows nothing of other events.

use rollstore::{Column, RolloutId, RolloutStore};

use super::engine::{Engine, counted, open_store};
use super::place::ResumeNote;
use super::progress::Progress;
use crate::exit::{Failure, Outcome};

/// All that a crash must not change.
#[derive(Debug, PartialEq, Eq)]
struct State {
    ref_version: u64,
    kl_ref_version: u64,
    clock: Option<u64>,
    cursor: Option<Vec<u8>>,
    rollouts: Vec<RolloutState>,
}

#[derive(Debug, PartialEq, Eq)]
struct RolloutState {
    id: RolloutId,
    born_step: u64,
    ref_version: u64,
    old_logps_crc32: Option<u32>,
}

impl Engine<'_> {
    /// The process ends without warning: the store is left as it is, opened again, and must hold what it held.
    pub(super) fn crash(&mut self, next: Progress) -> Outcome {
        let before = State::of(&self.store()?)?;
        if let Some(store) = self.open.take() {
            store.abandon();
        }
        self.open = Some(open_store(self.settings, self.place, None)?);
        before.compare(&State::of(&self.store()?)?)?;
        self.commit_record(counted(next, |totals| totals.crashes += 1))
    }

    /// The trainer comes back at its last checkpoint: the store does too, the replay's own counts go on.
    ///
    /// A kill may come at any point here. Until the restore, the store's record says that the resume is still to be
    /// done; after it, that record is the checkpoint's, and the note tells where to go on: see [`Engine::open`].
    pub(super) fn resume(&mut self, next: Progress, step: Option<u64>) -> Outcome {
        if self.progress.totals.checkpoints == 0 {
            return Err(Failure::could_not_look("nothing was saved to resume from"));
        }
        let then = counted(next, |totals| totals.restores += 1);
        self.place.write_note(&ResumeNote { lines_before: self.progress.position.lines, then })?;
        self.close()?;
        RolloutStore::restore(&self.place.checkpoint, &self.place.store)?;
        self.open = Some(open_store(self.settings, self.place, step)?);
        self.commit_record(then)?;
        self.place.remove_note()
    }
}

impl State {
    fn of(store: &RolloutStore) -> Outcome<Self> {
        let mut rollouts = Vec::with_capacity(store.len());
        for id in store.ids() {
            if let Some(rollout) = store.get(id)? {
                let old_logps_crc32 =
                    if rollout.has(&Column::OldLogps) { Some(crc32(rollout.old_logps()?)) } else { None };
                let (born_step, ref_version) = (rollout.born_step(), rollout.ref_version());
                rollouts.push(RolloutState { id, born_step, ref_version, old_logps_crc32 });
            }
        }
        Ok(Self {
            ref_version: store.ref_version(),
            kl_ref_version: store.kl_ref_version(),
            clock: store.clock(),
            cursor: store.cursor().map(|cursor| cursor.to_vec()),
            rollouts,
        })
    }

    /// Nothing acknowledged may be lost: every difference is named.
    fn compare(&self, after: &Self) -> Outcome {
        if self == after {
            return Ok(());
        }
        let lost = self.rollouts.iter().find(|rollout| !after.rollouts.contains(rollout));
        let told = match lost {
            Some(rollout) => format!("rollout {} is not what it was", rollout.id),
            None => format!(
                "ref version {} became {}, clock {:?} became {:?}, {} rollouts became {}",
                self.ref_version,
                after.ref_version,
                self.clock,
                after.clock,
                self.rollouts.len(),
                after.rollouts.len()
            ),
        };
        Err(Failure::Found(format!("the crash changed the store: {told}")))
    }
}

fn crc32(values: &[f32]) -> u32 {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    crc32fast::hash(&bytes)
}
