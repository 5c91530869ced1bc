//! Ends of life: which rollouts a retirement ends, as of its place in the batch.

use super::{Outcome, Stage};
use crate::error::Result;
use crate::ids::RolloutId;
use crate::index::MemoryIndex;
use crate::limits;
use crate::log::event::{Event, Incarnation};
use crate::reason::Reason;
use crate::store::retirement::Retirement;
use crate::store::standing::{Live, Standing};

/// A live rollout that is to end: a retirement may end millions.
#[derive(Debug, Clone, Copy)]
struct Victim {
    rollout: Incarnation,
    asked: bool,
}

impl Victim {
    fn new(id: RolloutId, live: &Live) -> Self {
        Self { rollout: Incarnation { id, insert_lsn: live.insert_lsn }, asked: live.asked }
    }
}

/// The slots of the ids that `find` gives.
fn by_id(find: impl Fn(&MemoryIndex) -> Vec<RolloutId>) -> impl Fn(&MemoryIndex) -> Vec<u32> {
    move |index| find(index).into_iter().filter_map(|id| index.find(id)).collect()
}

impl Stage<'_, '_> {
    pub(super) fn retire(&mut self, which: &Retirement, reason: Reason) -> Result<Outcome> {
        let live = match which {
            Retirement::CreatedBefore(step) => {
                self.core.rules.check_created(self.staged.state.clock, *step)?;
                return Ok(Outcome::Retired(self.retire_line(*step, reason)));
            }
            Retirement::Ids(ids) => return Ok(Outcome::Retired(self.retire_ids(ids, reason))),
            Retirement::CreatedAfter(step) => {
                self.live_where(by_id(|index| index.created_after(*step)), |live| live.created_step > *step)
            }
            Retirement::VersionBefore(version) => {
                let is_older = |older: u64| older < *version;
                self.live_where(by_id(|index| index.select(None, is_older)), |live| is_older(live.ref_version))
            }
            Retirement::Groups(groups) => {
                let of_groups = |index: &MemoryIndex| groups.iter().flat_map(|group| index.group(*group)).collect();
                self.live_where(by_id(of_groups), |live| live.group.is_some_and(|group| groups.contains(&group)))
            }
        };
        Ok(Outcome::Retired(self.retire_live(&live, reason)))
    }

    /// Ends what was created before a step, by one record.
    fn retire_line(&mut self, created_before: u64, reason: Reason) -> u64 {
        let ended = self
            .live_where(|index| index.slots_created_before(created_before), |live| live.created_step < created_before);
        let lines = &self.staged.state.retire_lines;
        let reaches_below_all = lines.iter().all(|line| line.created_before > created_before);
        if reaches_below_all && lines.len() >= limits::RETIRE_LINES_MAX {
            return self.retire_live(&ended, reason);
        }
        self.end(&ended);
        let (count, unused) = (ended.len() as u64, self.unused(&ended));
        if count > 0 {
            self.control(Event::RetireLine { created_before, reason: reason.code(), count, unused });
        }
        count
    }

    pub(super) fn retire_ids(&mut self, ids: &[RolloutId], reason: Reason) -> u64 {
        self.staged.changes.0.reserve_ends(ids.len());
        let mut ended = Vec::with_capacity(ids.len());
        for id in ids {
            // An id that is given again is not live by then.
            if let Some(live) = self.live(*id) {
                self.stands(*id, Standing::Nothing);
                ended.push(Victim::new(*id, &live));
            }
        }
        self.retired(&ended, reason)
    }

    fn retire_live(&mut self, live: &[Victim], reason: Reason) -> u64 {
        self.end(live);
        self.retired(live, reason)
    }

    fn retired(&mut self, ended: &[Victim], reason: Reason) -> u64 {
        if !ended.is_empty() {
            let victims = ended.iter().map(|victim| victim.rollout).collect();
            self.control(Event::Retire { victims, reason: reason.code(), unused: self.unused(ended) });
        }
        ended.len() as u64
    }

    /// Ends live rollouts.
    fn end(&mut self, live: &[Victim]) {
        self.staged.changes.0.reserve_ends(live.len());
        live.iter().for_each(|victim| self.stands(victim.rollout.id, Standing::Nothing));
    }

    /// How many of these nobody asked for.
    fn unused(&self, ended: &[Victim]) -> u64 {
        let index = &self.core.published.read().index;
        // What a batch left that is not published yet may have been asked for behind that batch.
        let is_asked = |victim: &Victim| victim.asked || index.is_asked(victim.rollout.id, victim.rollout.insert_lsn);
        ended.iter().filter(|victim| !is_asked(victim)).count() as u64
    }

    /// The standing rule: the clock may have moved.
    pub(super) fn retire_by_rule(&mut self) {
        let bound =
            self.staged.state.clock.zip(self.core.rules.retire_after).map(|(clock, after)| clock.checked_sub(after));
        if let Some(bound) = bound.flatten() {
            self.retire_line(bound, Reason::Evicted);
        }
    }

    /// The live rollouts that `wanted` takes, ascending by id. `published` finds the slots of those among what readers see by
    /// now.
    fn live_where(&self, published: impl Fn(&MemoryIndex) -> Vec<u32>, wanted: impl Fn(&Live) -> bool) -> Vec<Victim> {
        let index = &self.core.published.read().index;
        let slots = published(index);
        let mut victims = Vec::with_capacity(slots.len());
        let seen = slots.into_iter().map(|slot| {
            let (id, insert_lsn) = index.incarnation_at(slot);
            Victim { rollout: Incarnation { id, insert_lsn }, asked: index.is_asked_at(slot) }
        });
        victims.extend(seen.filter(|victim| self.changed(victim.rollout.id).is_none()));
        for id in self.changed_ids() {
            match self.standing_in(index, *id) {
                Standing::Live(live) if wanted(&live) => victims.push(Victim::new(*id, &live)),
                Standing::Live(_) | Standing::Open(_) | Standing::Nothing => {}
            }
        }
        victims.sort_unstable_by_key(|victim| victim.rollout.id);
        victims.dedup_by_key(|victim| victim.rollout.id);
        victims
    }

    /// The ids under which something stands that `wanted` takes, likewise.
    pub(in crate::store) fn where_standing(
        &self,
        published: impl Fn(&MemoryIndex) -> Vec<RolloutId>,
        wanted: impl Fn(&Standing) -> bool,
    ) -> Vec<RolloutId> {
        let mut ids = published(&self.core.published.read().index);
        ids.extend(self.changed_ids());
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| wanted(&self.standing(*id)));
        ids
    }

    /// The ids that this batch changed, or one that is not yet published; some perhaps twice.
    fn changed_ids(&self) -> impl Iterator<Item = &RolloutId> {
        self.overlay.ids().chain(self.staged.changes.0.ids())
    }
}
