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
        let (ref_version, kl_ref_version) = (self.store()?.ref_version(), self.store()?.kl_ref_version());
        let mut line = self.line;
        let inserted = self.commit(next, |batch| {
            for pending in puts {
                line = pending.line;
                batch.insert(new_rollout(pending, ref_version, kl_ref_version))?;
            }
            Ok(())
        });
        self.line = line;
        inserted.map(|_| ())
    }

    /// The trainer uses rollouts: in refresh mode what is due is computed first, which stores the event's values.
    ///
    /// This is `get_or_compute` taken apart, so that its commit can carry the record of the replay too.
    pub(super) fn access(&mut self, next: Progress, step: u64, access: &Access) -> Outcome {
        let ids: Vec<RolloutId> = access.ids.iter().copied().map(RolloutId::new).collect();
        let rollouts = ids.iter().map(|id| self.live(*id)).collect::<Outcome<Vec<_>>>()?;
        let lp_of: HashMap<RolloutId, &[f32]> =
            ids.iter().zip(&access.lp).rev().map(|(id, lp)| (*id, lp.0.as_slice())).collect();

        let mut computed: HashMap<RolloutId, &[f32]> = HashMap::new();
        let mut work = None;
        let mut tokens = 0;
        if self.settings.mode == Mode::Refresh {
            let plan = self.store()?.plan_for(&ids, step)?;
            let mut results = Results::new();
            for (id, lp) in plan.ids().filter_map(|id| lp_of.get_key_value(&id)) {
                results.push(*id, lp.to_vec());
                computed.insert(*id, lp);
            }
            tokens = plan.token_count();
            work = (!plan.is_empty()).then_some((plan, results));
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
        let committed =
            self.commit(next, |batch| work.map_or(Ok(()), |(plan, results)| Ok(batch.apply(plan, results)?)))?;
        let applied: u64 = committed.applied.iter().map(|applied| applied.computed).sum();
        expect("rollouts recomputed", recomputed, applied)?;
        self.check_computed(&computed)
    }

    /// An optimizer step was made; the static schedule gets its turn.
    pub(super) fn version(&mut self, next: Progress, step: u64, version: Version) -> Outcome {
        let mut next = next;
        // The version that is current already is told again: no advance for the store, none for the counts.
        if self.store()?.ref_version_of(version.v) != Some(self.store()?.ref_version()) {
            next.totals.add_advance();
            if static_schedule::is_due(version.v, self.settings.every) {
                let live = self.live_now()?;
                static_schedule::recompute_all(&mut next.totals, live);
            }
        }
        self.commit(next, |batch| Ok(batch.advance_ref_version(step, Some(version.v))?))?;
        Ok(())
    }

    /// Rollouts leave the buffer, since newer ones take their place.
    pub(super) fn evict(&mut self, next: Progress, evict: &Evict) -> Outcome {
        let ids: Vec<RolloutId> = evict.ids.iter().copied().map(RolloutId::new).collect();
        let mut live = HashSet::new();
        for id in &ids {
            if self.store()?.get(*id)?.is_some() {
                live.insert(*id);
            }
        }
        let next = counted(next, |totals| totals.retired += count(live.len()));
        let committed = self.commit(next, |batch| Ok(batch.retire(&ids, Reason::Superseded)?))?;
        expect("rollouts retired", count(live.len()), committed.retired)
    }

    /// A checkpoint is taken. A kill before the commit makes it be taken again, in place of the first.
    pub(super) fn save(&mut self, next: Progress) -> Outcome {
        self.store()?.checkpoint(&self.place.checkpoint)?;
        self.commit(counted(next, |totals| totals.checkpoints += 1), |_| Ok(()))?;
        Ok(())
    }

    fn live(&self, id: RolloutId) -> Outcome<Rollout> {
        self.store()?.get(id)?.ok_or_else(|| Failure::could_not_look(format!("rollout {id} is not live")))
    }

    fn live_now(&self) -> Outcome<Live> {
        let ids = self.store()?.ids();
        let mut live = Live { rows: count(ids.len()), tokens: 0 };
        for id in ids {
            live.tokens += self.live(id)?.token_count();
        }
        Ok(live)
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
