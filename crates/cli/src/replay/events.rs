//! What each event of a trainer does to the store.
//!
//! May touch the store through its batches. Knows nothing of lines and files.

use std::collections::{HashMap, HashSet};

use rollstore::{NewRollout, Reason, Results, Rollout, RolloutId};

use super::engine::{Engine, PendingPut, count, counted};
use super::progress::Progress;
use super::static_schedule::{self, Live};
use crate::args::Mode;
use crate::exit::{Failure, Outcome};
use crate::trace::{Access, Evict, Position, Version};

impl Engine<'_> {
    /// Inserts the rollouts of one generate, as one batch.
    pub(super) fn insert_all(&mut self, position: Position, puts: &[PendingPut]) -> Outcome {
        let next = Progress { position, ..self.progress };
        let next = counted(next, |totals| totals.inserted += count(puts.len()));
        let store = self.store()?;
        let (ref_version, kl_ref_version) = (store.ref_version(), store.kl_ref_version());
        let mut batch = store.batch();
        batch.cursor(&next.to_cursor()?);
        let inserted = puts.iter().try_for_each(|put| batch.insert(new_rollout(put, ref_version, kl_ref_version)));
        inserted.and_then(|()| batch.commit()).map_err(|error| {
            // The error names the rollout, which names the line: of two puts of one id, the second is at fault.
            let at_fault = puts.iter().rfind(|put| error.rollout() == Some(RolloutId::new(put.put.id)));
            self.line = at_fault.or(puts.last()).map_or(self.line, |put| put.line);
            Failure::from(error)
        })?;
        self.progress = next;
        Ok(())
    }

    /// The trainer uses rollouts: in refresh mode what is due is computed first, which stores the event's values.
    ///
    /// This is `get_or_compute` taken apart, so that its commit can carry the record of the replay too.
    pub(super) fn access(&mut self, next: Progress, step: u64, access: &Access) -> Outcome {
        let ids: Vec<RolloutId> = access.ids.iter().copied().map(RolloutId::new).collect();
        let rollouts = ids.iter().map(|id| self.live(*id)).collect::<Outcome<Vec<_>>>()?;
        let lp_of: HashMap<RolloutId, &[f32]> =
            ids.iter().zip(&access.lp).rev().map(|(id, lp)| (*id, lp.0.as_slice())).collect();

        let store = self.store()?;
        let mut batch = store.batch();
        let mut computed: HashMap<RolloutId, &[f32]> = HashMap::new();
        let mut tokens = 0;
        if self.settings.mode == Mode::Refresh {
            let plan = store.plan_for(&ids, step)?;
            let mut results = Results::new();
            for (id, lp) in plan.ids().filter_map(|id| lp_of.get_key_value(&id)) {
                results.push(*id, lp.to_vec());
                computed.insert(*id, lp);
            }
            tokens = plan.token_count();
            if !plan.is_empty() {
                batch.apply(plan, results)?;
            }
        }

        let mut next = next;
        let recomputed = count(computed.len());
        next.totals.access_rows += count(ids.len());
        next.totals.served_rows += count(ids.len()) - recomputed;
        next.totals.add_recomputed(recomputed, tokens);
        for (id, rollout) in ids.iter().zip(&rollouts) {
            match computed.get(id) {
                Some(values) => next.totals.add_values(values),
                None => next.totals.add_values(rollout.old_logps()?),
            }
        }
        let committed = self.commit(batch, next)?;
        let applied: u64 = committed.applied.iter().map(|applied| applied.computed).sum();
        expect("rollouts recomputed", recomputed, applied)?;
        self.check_computed(&computed)
    }

    /// An optimizer step was made; the static schedule gets its turn.
    pub(super) fn version(&mut self, next: Progress, step: u64, version: Version) -> Outcome {
        let store = self.store()?;
        let mut next = next;
        // The version that is current already is told again: no advance for the store, none for the counts.
        if store.ref_version_of(version.v) != Some(store.ref_version()) {
            next.totals.add_advance();
            if static_schedule::is_due(version.v, self.settings.every) {
                let stats = store.stats()?;
                let live = Live { rows: stats.live, tokens: stats.tokens };
                static_schedule::recompute_all(&mut next.totals, live);
            }
        }
        let mut batch = store.batch();
        batch.advance_ref_version(step, Some(version.v));
        self.commit(batch, next).map(|_| ())
    }

    /// Rollouts leave the buffer, since newer ones take their place.
    pub(super) fn evict(&mut self, next: Progress, evict: &Evict) -> Outcome {
        let ids: Vec<RolloutId> = evict.ids.iter().copied().map(RolloutId::new).collect();
        let store = self.store()?;
        let mut live = HashSet::new();
        for id in &ids {
            if store.get(*id)?.is_some() {
                live.insert(*id);
            }
        }
        let next = counted(next, |totals| totals.retired += count(live.len()));
        let mut batch = store.batch();
        batch.retire(&ids, Reason::Superseded);
        let committed = self.commit(batch, next)?;
        expect("rollouts retired", count(live.len()), committed.retired)
    }

    /// A checkpoint is taken. A kill before the commit makes it be taken again, in place of the first.
    pub(super) fn save(&mut self, next: Progress) -> Outcome {
        self.store()?.checkpoint(&self.place.checkpoint)?;
        self.commit_record(counted(next, |totals| totals.checkpoints += 1))
    }

    fn live(&self, id: RolloutId) -> Outcome<Rollout> {
        self.store()?.get(id)?.ok_or_else(|| Failure::could_not_look(format!("rollout {id} is not live")))
    }

    /// Checks that the store returns what it was given, bit for bit.
    fn check_computed(&self, computed: &HashMap<RolloutId, &[f32]>) -> Outcome {
        for (id, values) in computed {
            let rollout = self.live(*id)?;
            let stored = rollout.old_logps()?.iter().map(|value| value.to_bits());
            if !stored.eq(values.iter().map(|value| value.to_bits())) {
                return Err(Failure::Found(format!("rollout {id}: the old logps read back are not those just stored")));
            }
        }
        Ok(())
    }
}

/// Everything that a put holds, as the rollout to insert.
fn new_rollout(pending: &PendingPut, ref_version: u64, kl_ref_version: u64) -> NewRollout<'_> {
    let put = &pending.put;
    let mut rollout = NewRollout::new(put.id, pending.step).completion_ids(put.completion.as_slice());
    if let Some(prompt) = &put.prompt {
        rollout = rollout.prompt_ids(prompt.as_slice());
    }
    if let Some(group) = put.group {
        rollout = rollout.group(group);
    }
    if let Some(reward) = put.reward {
        rollout = rollout.reward(reward);
    }
    if let Some(advantage) = put.adv {
        rollout = rollout.advantage(advantage);
    }
    if let Some(old) = &put.old_lp {
        rollout = rollout.old_logps(old.0.as_slice(), ref_version);
    }
    if let Some(sampler) = &put.sampler_lp {
        rollout = rollout.sampler_logps(sampler.0.as_slice());
    }
    if let Some(kl_ref) = &put.ref_lp {
        rollout = rollout.kl_ref_logps(kl_ref.0.as_slice(), kl_ref_version);
    }
    rollout
}

/// Checks a count of the store against the one that was recorded with it.
fn expect(what: &str, recorded: u64, told: u64) -> Outcome {
    if recorded == told {
        return Ok(());
    }
    Err(Failure::Found(format!("{what}: the store says {told}, expected {recorded}")))
}
