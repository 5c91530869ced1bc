//! Ends of life: which rollouts a retirement ends, as of its place in the batch.

use std::collections::HashSet;

use super::{Outcome, Stage};
use crate::error::Result;
use crate::ids::RolloutId;
use crate::index::MemoryIndex;
use crate::limits;
use crate::log::event::{Event, Incarnation};
use crate::reason::Reason;
use crate::store::retirement::Retirement;
use crate::store::standing::{Live, Standing};

impl Stage<'_, '_> {
    pub(super) fn retire(&mut self, which: &Retirement, reason: Reason) -> Result<Outcome> {
        let ids = match which {
            Retirement::CreatedBefore(step) => {
                self.core.rules.check_created(self.staged.state.clock, *step)?;
                return Ok(Outcome::Retired(self.retire_line(*step, reason)));
            }
            Retirement::Ids(ids) => return Ok(Outcome::Retired(self.retire_ids(ids, reason))),
            Retirement::CreatedAfter(step) => {
                self.live_where(|index| index.created_after(*step), |live| live.created_step > *step)
            }
            Retirement::VersionBefore(version) => {
                let is_older = |older: u64| older < *version;
                self.live_where(|index| index.select(None, is_older), |live| is_older(live.ref_version))
            }
            Retirement::Groups(groups) => {
                let of_groups = |index: &MemoryIndex| groups.iter().flat_map(|group| index.group(*group)).collect();
                self.live_where(of_groups, |live| live.group.is_some_and(|group| groups.contains(&group)))
            }
        };
        Ok(Outcome::Retired(self.retire_ids(&ids, reason)))
    }

    /// Ends what was created before a step, by one record.
    fn retire_line(&mut self, created_before: u64, reason: Reason) -> u64 {
        let ids =
            self.live_where(|index| index.created_before(created_before), |live| live.created_step < created_before);
        let lines = &self.staged.state.retire_lines;
        let reaches_below_all = lines.iter().all(|line| line.created_before > created_before);
        if reaches_below_all && lines.len() >= limits::RETIRE_LINES_MAX {
            return self.retire_ids(&ids, reason);
        }
        let (mut count, mut unused) = (0, 0);
        for (_, used) in ids.into_iter().filter_map(|id| self.end(id)) {
            count += 1;
            unused += u64::from(!used);
        }
        if count > 0 {
            self.control(Event::RetireLine { created_before, reason: reason.code(), count, unused });
        }
        count
    }

    pub(super) fn retire_ids(&mut self, ids: &[RolloutId], reason: Reason) -> u64 {
        let mut seen = HashSet::with_capacity(ids.len());
        let mut victims = Vec::with_capacity(ids.len());
        let mut unused = 0;
        for id in ids.iter().filter(|id| seen.insert(**id)) {
            if let Some((victim, used)) = self.end(*id) {
                unused += u64::from(!used);
                victims.push(victim);
            }
        }
        let count = victims.len() as u64;
        if count > 0 {
            self.control(Event::Retire { victims, reason: reason.code(), unused });
        }
        count
    }

    /// Ends a live rollout. Tells whether anyone had asked for it.
    fn end(&mut self, id: RolloutId) -> Option<(Incarnation, bool)> {
        let live = self.live(id)?;
        let victim = Incarnation { id, insert_lsn: live.insert_lsn };
        self.stands(id, Standing::Nothing);
        Some((victim, live.used || self.core.usage.is_used(victim)))
    }

    /// The standing rule: the clock may have moved.
    pub(super) fn retire_by_rule(&mut self) {
        let bound =
            self.staged.state.clock.zip(self.core.rules.retire_after).map(|(clock, after)| clock.checked_sub(after));
        if let Some(bound) = bound.flatten() {
            self.retire_line(bound, Reason::Evicted);
        }
    }

    /// The live rollouts that `wanted` takes, ascending. `published` finds those among what readers see by now.
    fn live_where(
        &self,
        published: impl Fn(&MemoryIndex) -> Vec<RolloutId>,
        wanted: impl Fn(&Live) -> bool,
    ) -> Vec<RolloutId> {
        self.where_standing(published, |standing| matches!(standing, Standing::Live(live) if wanted(live)))
    }

    /// The ids under which something stands that `wanted` takes, likewise.
    pub(in crate::store) fn where_standing(
        &self,
        published: impl Fn(&MemoryIndex) -> Vec<RolloutId>,
        wanted: impl Fn(&Standing) -> bool,
    ) -> Vec<RolloutId> {
        let mut ids = published(&self.core.published.read().index);
        ids.extend(self.overlay.ids().chain(self.staged.changes.0.keys()));
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| wanted(&self.standing(*id)));
        ids
    }
}
