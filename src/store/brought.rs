//! A rollout that comes from another store: what it went through there is given, where a new one has gone through nothing.
//!
//! Knows nothing of where it comes from.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::entry::{EntryKind, Has};
use crate::ids::Lsn;
use crate::store::column::{Column, ColumnValues};
use crate::store::new_rollout::NewRollout;
use crate::store::prepare::Prepared;

/// What a rollout went through in another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stood {
    born_step: u64,
    ref_version: u64,
    was_asked: bool,
}

impl<'a> NewRollout<'a> {
    /// The rollout as it stood in another store, whose [`Clocks`](crate::Clocks) this one has: the step from which its old
    /// log-probs count as fresh, and the version that stands for them, or was current at its insert while there are none.
    pub fn as_it_stood(mut self, born_step: u64, ref_version: u64) -> Self {
        self.stood = Some(Stood { born_step, ref_version, was_asked: false });
        self
    }

    /// The same, where it was also [asked for](crate::RolloutStore::was_asked) there: when it ends, it was not unused. Without
    /// [`as_it_stood`](Self::as_it_stood) before, nothing happens.
    pub fn as_asked(mut self, was_asked: bool) -> Self {
        self.stood = self.stood.map(|stood| Stood { was_asked, ..stood });
        self
    }

    /// The first old log-probs that it ever had, where [`old_logps`](Self::old_logps) are ones that were computed later:
    /// [`behaviour_logps`](crate::Rollout::behaviour_logps) of a rollout whose sampler reported none.
    ///
    /// It is written as an insert and a computation, and counted as such: the clock rises to the born step.
    pub fn first_old_logps(mut self, logps: impl Into<Cow<'a, [f32]>>) -> Self {
        self.first_old = Some(logps.into());
        self
    }

    /// What is wrong with the first old log-probs, if they are given.
    pub(crate) fn check_first_old(&self) -> Result<()> {
        let Some(first) = &self.first_old else { return Ok(()) };
        let newer = self.count(&Column::OldLogps);
        if self.stood.is_none() || newer != first.len() || self.count(&Column::SamplerLogps) != 0 {
            return Err(self.refuse(format_args!(
                "{} first old_logps are given beside {newer} newer ones; they need as many, as_it_stood, and no sampler_logps",
                first.len()
            )));
        }
        Ok(())
    }

    /// Takes out the old log-probs that were computed later: the first ones stand in their place.
    pub(crate) fn take_later(&mut self) -> Option<Prepared<'a>> {
        let (first, stood) = (self.first_old.take()?, self.stood?);
        let (_, values) = self.columns.iter_mut().find(|(column, _)| *column == Column::OldLogps)?;
        let later = std::mem::replace(values, ColumnValues::F32(first));
        let ColumnValues::F32(later) = later else { return None };
        let Stood { born_step, ref_version, .. } = stood;
        Some(Prepared::update(EntryKind::OldLogps, self.id, Lsn::NONE, born_step, ref_version, later))
    }
}

impl Stood {
    /// Gives the insert what it went through.
    pub(crate) fn tell(self, prepared: &mut Prepared<'_>) {
        prepared.entry.born_step = self.born_step;
        prepared.old_versions = vec![self.ref_version];
        if self.was_asked {
            prepared.entry.has = prepared.entry.has.with(Has::USED);
        }
    }
}
