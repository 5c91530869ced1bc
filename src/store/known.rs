//! Rows of a gather that were read before: found through the index, without opening a rollout.
//!
//! Always true:
//! - N1. It serves all rows, each checked by this process before, or none: whatever is refused, stale or new goes the way of
//!   a view.

use std::sync::Arc;

use crate::error::Result;
use crate::format::dtype::Element;
use crate::format::entry::Has;
use crate::format::meta::ColumnCode;
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::index::Entry;
use crate::log::event::Incarnation;
use crate::log::frame::checked_column;
use crate::log::segment::Segment;
use crate::store::RolloutStore;
use crate::store::column::{Ask, Column};
use crate::store::core::Published;
use crate::store::gather::Stale;
use crate::store::snapshot::ROUND;

/// Rows of one column, of which the index told the frames.
pub(super) struct KnownRows {
    code: ColumnCode,
    segments: Vec<Arc<Segment>>,
    rows: Vec<Row>,
    pub(super) fresh: u64,
    /// Rollouts that no one had asked for.
    pub(super) first_time: Vec<Incarnation>,
}

/// The frame that holds one row.
struct Row {
    /// Place among the segments.
    segment: usize,
    at: Location,
    id: RolloutId,
    lsn: Lsn,
    /// For old log-probs, the version that made them.
    version: Option<u64>,
}

impl KnownRows {
    /// The rows, in the order asked; `None` where any of them was not read before, or is of another type.
    pub(super) fn values<T: Element>(&self) -> Option<Vec<&[T]>> {
        let row = |row: &Row| {
            let segment = self.segments.get(row.segment)?;
            let column = checked_column(segment, row.at, (row.id, row.lsn), self.code, row.version)?;
            if column.dtype != T::DTYPE {
                return None;
            }
            bytemuck::try_cast_slice(column.bytes).ok()
        };
        self.rows.iter().map(row).collect()
    }

    fn push(&mut self, published: &Published, entry: &Entry, column: &Column) -> Option<()> {
        let (at, lsn, version) = match column {
            Column::OldLogps if entry.has.contains(Has::OLD) => (entry.old, entry.old_lsn, Some(entry.ref_version)),
            Column::PromptIds | Column::CompletionIds | Column::LossMask | Column::SamplerLogps => {
                (entry.insert, entry.insert_lsn, None)
            }
            _ => return None,
        };
        let segment = self.segment(published, at.segment)?;
        self.rows.push(Row { segment, at, id: entry.id, lsn, version });
        Some(())
    }

    /// The place of a segment among those that rows lie in: few, and the last one most often.
    fn segment(&mut self, published: &Published, id: SegmentId) -> Option<usize> {
        let known = self.segments.iter().rposition(|segment| segment.id == id);
        known.or_else(|| {
            self.segments.push(published.segment(id).ok()?);
            Some(self.segments.len() - 1)
        })
    }
}

impl RolloutStore {
    /// The rows of a gather, if each of them may be served and lies in a column of a code of its own; `None` otherwise.
    pub(super) fn known_rows(
        &self,
        ids: &[RolloutId],
        ask: &Ask,
        step: u64,
        stale: Stale,
    ) -> Result<Option<KnownRows>> {
        self.core.check_open()?;
        let (Some(code), None) = (ask.column.code(), ask.kind) else { return Ok(None) };
        let published = self.core.published.read();
        let is_old = ask.column == Column::OldLogps;
        let rows = Vec::with_capacity(ids.len());
        let mut known = KnownRows { code, segments: Vec::new(), rows, fresh: 0, first_time: Vec::new() };
        let mut slots = Vec::with_capacity(ROUND);
        for round in ids.chunks(ROUND) {
            slots.clear();
            slots.extend(round.iter().map_while(|id| published.index.find(*id)));
            if slots.len() < round.len() {
                return Ok(None);
            }
            for slot in &slots {
                let (insert, old) = published.index.frames_at(*slot);
                published.prefetch(if is_old { old } else { insert });
            }
            for slot in &slots {
                let entry = published.index.entry(*slot);
                let is_fresh =
                    !is_old || self.core.rules.staleness(&published.state.ref_clock, &entry, step).is_fresh();
                if (!is_fresh && stale == Stale::Error) || known.push(&published, &entry, &ask.column).is_none() {
                    return Ok(None);
                }
                known.fresh += u64::from(is_fresh);
                if !published.index.is_asked_at(*slot) {
                    known.first_time.push(Incarnation { id: entry.id, insert_lsn: entry.insert_lsn });
                }
            }
        }
        Ok(Some(known))
    }
}
