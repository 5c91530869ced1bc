//! What one part of a batch makes of a state.

use rollstore::{ErrorKind, Reason};

use super::op::{Part, Row, Rule};
use super::passes::Planned;
use super::{Live, Model, Partial, Refused, STEP_JUMP_MAX};
use crate::store;

impl Model {
    pub(super) fn part(&mut self, part: &Part, plan: Option<&Planned>) -> Result<(), Refused> {
        match part {
            Part::Insert(row) => self.insert(row),
            Part::Replace(row) => match self.retire(&[row.id], Reason::Superseded) {
                0 => Err(ErrorKind::NotFound),
                _ => self.insert(row),
            },
            Part::Begin { id, created_step } => self.begin(*id, *created_step),
            Part::Append { id, tokens } => self.append(*id, *tokens),
            Part::Finish(row) => self.finish(row),
            Part::Abandon(ids) => {
                ids.iter().for_each(|id| drop(self.partials.remove(id)));
                Ok(())
            }
            Part::Retire { ids, reason } => {
                self.retire(ids, *reason);
                Ok(())
            }
            Part::RetireWhere { rule, reason } => self.retire_where(rule, *reason),
            Part::Advance { step, label } => {
                self.check_acted(*step)?;
                if self.ref_clock.advance(*label)? {
                    self.act(*step);
                }
                Ok(())
            }
            Part::AdvanceKl => self.kl_clock.advance(None).map(drop),
            Part::Cursor(cursor) => {
                self.cursor = Some(cursor.clone());
                Ok(())
            }
            Part::ApplyDue { .. } => {
                if let Some(plan) = plan {
                    self.store_results(plan);
                }
                Ok(())
            }
        }
    }

    fn insert(&mut self, row: &Row) -> Result<(), Refused> {
        self.check_new(row.id, row.created_step)?;
        self.insert_new(row)
    }

    fn check_new(&self, id: u64, created_step: u64) -> Result<(), Refused> {
        let is_taken = self.rollouts.contains_key(&id) || self.partials.contains_key(&id);
        if is_taken || self.clock.is_some_and(|clock| created_step > clock + STEP_JUMP_MAX) {
            return Err(ErrorKind::Invalid);
        }
        Ok(())
    }

    fn begin(&mut self, id: u64, created_step: u64) -> Result<(), Refused> {
        self.check_new(id, created_step)?;
        self.partials.insert(id, Partial { created_step, tokens: 0, spans: Vec::new() });
        Ok(())
    }

    fn append(&mut self, id: u64, tokens: usize) -> Result<(), Refused> {
        if self.rollouts.contains_key(&id) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.get_mut(&id).ok_or(ErrorKind::NotFound)?;
        if tokens > 0 {
            let (version, count) = store::sampled_by(partial.tokens, tokens);
            match partial.spans.last_mut() {
                Some((last, before)) if *last == version => *before += count,
                _ => partial.spans.push((version, count)),
            }
            partial.tokens += tokens;
        }
        Ok(())
    }

    /// What a finish says at once, from what was committed before it.
    pub(super) fn check_finish(&self, part: &Part, before: &[Part]) -> Result<(), Refused> {
        let Part::Finish(row) = part else { return Ok(()) };
        let is_piece = |part: &Part| match part {
            Part::Begin { id, .. } | Part::Append { id, .. } => *id == row.id,
            _ => false,
        };
        if before.iter().any(is_piece) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.get(&row.id).ok_or(ErrorKind::NotFound)?;
        if partial.created_step == row.created_step { Ok(()) } else { Err(ErrorKind::Invalid) }
    }

    fn finish(&mut self, row: &Row) -> Result<(), Refused> {
        if self.rollouts.contains_key(&row.id) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.remove(&row.id).ok_or(ErrorKind::NotFound)?;
        self.insert_new(&Row {
            tokens: partial.tokens + row.tokens,
            has_sampler: true,
            has_prompt: true,
            ..row.clone()
        })
    }

    fn insert_new(&mut self, row: &Row) -> Result<(), Refused> {
        if row.version.is_some_and(|version| version >= Row::NEVER_ISSUED) {
            return Err(ErrorKind::Invalid);
        }
        self.next_stamp += 1;
        let live = Live {
            born_step: row.created_step,
            ref_version: row.version.unwrap_or_else(|| self.ref_clock.current()),
            has_old: row.version.is_some(),
            first_old: row.version,
            insert_stamp: self.next_stamp,
            old_stamp: if row.version.is_some() { self.next_stamp } else { 0 },
            row: row.clone(),
        };
        self.rollouts.insert(row.id, live);
        self.inserted += 1;
        Ok(())
    }

    pub(super) fn retire(&mut self, ids: &[u64], reason: Reason) -> u64 {
        let ended = ids.iter().filter(|id| self.rollouts.remove(id).is_some()).count() as u64;
        if ended > 0 {
            *self.retired.entry(reason.name()).or_default() += ended;
        }
        ended
    }

    fn retire_where(&mut self, rule: &Rule, reason: Reason) -> Result<(), Refused> {
        let ends = |live: &Live| match rule {
            Rule::CreatedBefore(step) => live.row.created_step < *step,
            Rule::VersionBefore(version) => live.ref_version < *version,
            Rule::Groups(groups) => groups.contains(&(live.row.id / 4)),
        };
        if let Rule::CreatedBefore(step) = rule
            && self.clock.is_some_and(|clock| *step > clock + STEP_JUMP_MAX)
        {
            return Err(ErrorKind::Invalid);
        }
        let ids: Vec<u64> = self.rollouts.iter().filter(|(_, live)| ends(live)).map(|(id, _)| *id).collect();
        self.retire(&ids, reason);
        Ok(())
    }
}
