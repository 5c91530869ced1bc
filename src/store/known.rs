//! Rows of a gather that were read before: found through the index and the segments' places, without opening a rollout.
//!
//! Always true:
//! - N1. It serves all rows as they were checked, or none: whatever is refused, stale or new goes the way of a view.

use std::sync::Arc;

use crate::error::Result;
use crate::format::dtype::Element;
use crate::format::entry::Has;
use crate::format::meta::ColumnCode;
use crate::ids::{RolloutId, SegmentId};
use crate::index::Entry;
use crate::log::event::Incarnation;
use crate::log::places::{HeldPlaces, Wanted};
use crate::log::segment::Segment;
use crate::store::RolloutStore;
use crate::store::column::{Ask, Column};
use crate::store::core::Published;
use crate::store::gather::Stale;

/// Rows of one column, of which the index told the frames.
pub(super) struct KnownRows {
    segments: Vec<Arc<Segment>>,
    /// Place among the segments, and what to look for in it.
    rows: Vec<(usize, Wanted)>,
    pub(super) fresh: u64,
    /// Rollouts that are asked for the first time since the last tally.
    pub(super) first_time: Vec<Incarnation>,
}

impl KnownRows {
    /// The rows, in the order asked; `None` where any of them was not read before, or is of another type.
    pub(super) fn values<T: Element>(&self) -> Option<Vec<&[T]>> {
        let held: Vec<HeldPlaces<'_>> = self.segments.iter().map(|segment| segment.places()).collect();
        let row = |(segment, wanted): &(usize, Wanted)| {
            let (dtype, range) = held.get(*segment)?.find(*wanted)?;
            if dtype != T::DTYPE {
                return None;
            }
            bytemuck::try_cast_slice(self.segments.get(*segment)?.mapped(range)?).ok()
        };
        self.rows.iter().map(row).collect()
    }

    fn push(&mut self, published: &Published, entry: &Entry, column: &Column, code: ColumnCode) -> Option<()> {
        let (at, lsn, ref_version) = match column {
            Column::OldLogps if entry.has.contains(Has::OLD) => (entry.old, entry.old_lsn, Some(entry.ref_version)),
            Column::PromptIds | Column::CompletionIds | Column::LossMask | Column::SamplerLogps => {
                (entry.insert, entry.insert_lsn, None)
            }
            _ => return None,
        };
        let segment = self.segment(published, at.segment)?;
        self.rows.push((segment, Wanted { offset_units: at.offset_units, code, lsn, ref_version }));
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
    /// The rows of a gather, if each of them may be served and lies in a column that has a place of its own; `None` otherwise.
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
        let mut known = KnownRows { segments: Vec::new(), rows, fresh: 0, first_time: Vec::new() };
        for id in ids {
            let Some(entry) = published.index.get(*id) else { return Ok(None) };
            let is_fresh = !is_old || self.core.rules.staleness(&published.state.ref_clock, &entry, step).is_fresh();
            if (!is_fresh && stale == Stale::Error) || known.push(&published, &entry, &ask.column, code).is_none() {
                return Ok(None);
            }
            known.fresh += u64::from(is_fresh);
            if !entry.has.contains(Has::USED) {
                known.first_time.push(Incarnation { id: *id, insert_lsn: entry.insert_lsn });
            }
        }
        Ok(Some(known))
    }
}
