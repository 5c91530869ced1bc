//! Partial rollouts in a batch: what an operation on them means, decided in commit order.

use crate::error::{Error, ErrorKind, Result};
use crate::format::entry::FrameEntry;
use crate::ids::{Lsn, RolloutId};
use crate::index::{MemoryIndex, Partial};
use crate::limits;
use crate::log::event::{Event, Incarnation, PARTIAL_ENDED};
use crate::planted::{Bug, planted};
use crate::store::prepare::Prepared;
use crate::store::stage::{Outcome, Stage};
use crate::store::standing::Standing;

/// Which pieces of a rollout there are: the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    begin_lsn: Lsn,
    last_lsn: Lsn,
}

/// Which partial rollouts are given up.
#[derive(Debug)]
pub(crate) enum Abandon {
    Ids(Vec<RolloutId>),
    CreatedAfter(u64),
}

/// A partial rollout as a later operation sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pieces: Pieces,
    count: usize,
    created_step: u64,
    prompt_len: u64,
    len: u64,
    is_whole: bool,
}

impl Pieces {
    pub(crate) fn of(partial: &Partial) -> Self {
        Self { begin_lsn: partial.begin_lsn(), last_lsn: partial.last_lsn() }
    }
}

impl Open {
    pub(crate) fn of(partial: &Partial) -> Self {
        Self {
            pieces: Pieces::of(partial),
            count: partial.pieces().len(),
            created_step: partial.created_step(),
            prompt_len: partial.prompt_len(),
            len: partial.len(),
            is_whole: partial.gap().is_none(),
        }
    }

    /// With one more piece.
    fn with(self, piece: &FrameEntry) -> Self {
        let pieces = Pieces { last_lsn: piece.lsn, ..self.pieces };
        Self { pieces, count: self.count + 1, len: self.len + u64::from(piece.token_count), ..self }
    }

    /// Refuses a piece with which the rollout could not become a record.
    fn check_room(&self, id: RolloutId, more: u64) -> Result<()> {
        /// What a token takes of the record: its id and its log-prob.
        const TOKEN_BYTES: u64 = 8;
        const PROMPT_TOKEN_BYTES: u64 = 4;
        let tokens = self.len.saturating_add(more);
        let bytes = tokens.saturating_mul(TOKEN_BYTES).saturating_add(self.prompt_len * PROMPT_TOKEN_BYTES);
        let max = limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX;
        if bytes > max {
            let what =
                format!("rollout {id} would hold {bytes} bytes with these tokens, the limit of a record is {max}");
            return Err(Error::invalid(what).of(id));
        }
        if self.count > limits::SPANS_MAX {
            let (count, max) = (self.count, limits::SPANS_MAX);
            let what =
                format!("rollout {id} was appended to {} times, the limit is {max}; append more at a time", count - 1);
            return Err(Error::invalid(what).of(id));
        }
        Ok(())
    }
}

impl<'b> Stage<'b, '_> {
    pub(in crate::store) fn begin(&mut self, prepared: &'b Prepared<'_>) -> Result<Outcome> {
        self.check_new(prepared)?;
        let lsn = self.next_lsn;
        let entry = FrameEntry { lsn, insert_lsn: lsn, ..prepared.entry };
        let open = Open {
            pieces: Pieces { begin_lsn: lsn, last_lsn: lsn },
            count: 1,
            created_step: entry.created_step,
            prompt_len: u64::from(entry.token_count),
            len: 0,
            is_whole: true,
        };
        self.stands(entry.id, Standing::Open(open));
        self.frame(prepared, entry);
        Ok(Outcome::Done)
    }

    pub(in crate::store) fn append(&mut self, prepared: &'b Prepared<'_>) -> Result<Outcome> {
        let id = prepared.entry.id;
        let open = self.open_partial(id)?;
        if !open.is_whole {
            let what = format!("a piece of partial rollout {id} is missing; abandon it and generate it again");
            return Err(Error::new(ErrorKind::Damaged, what).of(id));
        }
        open.check_room(id, u64::from(prepared.entry.token_count))?;
        // The sampler was interrupted before it made any.
        if prepared.entry.token_count == 0 {
            return Ok(Outcome::Done);
        }
        let entry = FrameEntry {
            lsn: self.next_lsn,
            insert_lsn: open.pieces.begin_lsn,
            born_step: open.created_step,
            created_step: open.created_step,
            ref_version: open.len,
            ..prepared.entry
        };
        self.stands(id, Standing::Open(open.with(&entry)));
        self.frame(prepared, entry);
        Ok(Outcome::Done)
    }

    /// Inserts the whole rollout, made of the pieces that were `read`, and ends them.
    pub(in crate::store) fn finish(&mut self, prepared: &'b Prepared<'_>, read: Pieces) -> Result<Outcome> {
        let id = prepared.entry.id;
        if self.open_partial(id)?.pieces != read && !planted(Bug::FinishWhatWasRead) {
            let what = format!("partial rollout {id} changed since this finish read it; finish it again");
            return Err(Error::invalid(what).of(id));
        }
        self.end_partials(&[id]);
        self.insert_new(prepared)
    }

    /// Ends partial rollouts; ids that are none are passed over.
    pub(in crate::store) fn abandon(&mut self, which: &Abandon) -> u64 {
        match which {
            Abandon::Ids(ids) => self.end_partials(ids),
            Abandon::CreatedAfter(step) => {
                let later = |created_step: u64| created_step > *step;
                let published = |index: &MemoryIndex| {
                    let partials = index.partials.iter().filter(|(_, partial)| later(partial.created_step()));
                    partials.map(|(id, _)| id).collect()
                };
                let ids = self.where_standing(
                    published,
                    |standing| matches!(standing, Standing::Open(open) if later(open.created_step)),
                );
                self.end_partials(&ids)
            }
        }
    }

    fn end_partials(&mut self, ids: &[RolloutId]) -> u64 {
        let mut victims = Vec::with_capacity(ids.len());
        for id in ids {
            let Standing::Open(open) = self.standing(*id) else { continue };
            victims.push(Incarnation { id: *id, insert_lsn: open.pieces.begin_lsn });
            self.stands(*id, Standing::Nothing);
        }
        let count = victims.len() as u64;
        if count > 0 {
            self.control(Event::Retire { victims, reason: PARTIAL_ENDED, unused: 0 });
        }
        count
    }

    fn open_partial(&self, id: RolloutId) -> Result<Open> {
        match self.standing(id) {
            Standing::Open(open) => Ok(open),
            Standing::Live(_) => Err(Error::invalid(format!("rollout {id} is whole already")).of(id)),
            Standing::Nothing => Err(not_open(id)),
        }
    }
}

/// The error for an id under which nothing is being generated.
pub(super) fn not_open(id: RolloutId) -> Error {
    Error::not_found(format!("rollout {id} is no open partial rollout; begin it")).of(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(count: usize, prompt_len: u64, len: u64) -> Open {
        let pieces = Pieces { begin_lsn: Lsn::new(1), last_lsn: Lsn::new(2) };
        Open { pieces, count, created_step: 0, prompt_len, len, is_whole: true }
    }

    #[test]
    fn what_could_never_be_finished_is_refused_when_it_is_appended() {
        let most = (limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX) / 8;
        let id = RolloutId::new(7);
        assert!(open(2, 0, most - 5).check_room(id, 5).is_ok());
        assert!(open(2, 10, most - 10).check_room(id, 5).is_ok());
        for refused in [open(2, 0, most - 5).check_room(id, 6), open(2, 11, most - 10).check_room(id, 5)] {
            let refused = refused.unwrap_err();
            assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::Invalid, Some(id)));
            assert!(refused.to_string().contains("the limit of a record is"), "{refused}");
        }
        assert!(open(limits::SPANS_MAX, 0, 10).check_room(id, 1).is_ok());
        let refused = open(limits::SPANS_MAX + 1, 0, 10).check_room(id, 1).unwrap_err();
        assert!(refused.to_string().contains("append more at a time"), "{refused}");
    }
}
