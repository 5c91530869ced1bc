//! Reading partial rollouts: the pieces, put together.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::meta::RolloutMeta;
use crate::ids::{Location, RolloutId};
use crate::index;
use crate::log::frame::Frame;
use crate::log::segment::Segment;
use crate::store::column::{Column, ColumnValues};
use crate::store::core::Published;
use crate::store::new_rollout::{NewRollout, VersionSpan};
use crate::store::partials::Partial;
use crate::store::partials::stage::Pieces;
use crate::store::view::cast;

/// What one committed state knows of a partial rollout: enough to read it after the lock was let go.
pub(super) struct Snapshot {
    id: RolloutId,
    partial: index::Partial,
    /// Where its pieces lie, one to one.
    segments: Vec<Arc<Segment>>,
}

impl Snapshot {
    /// Looks one up; `None` where nothing is being generated under this id.
    pub(super) fn of(published: &Published, id: RolloutId) -> Result<Option<Self>> {
        let Some(partial) = published.index.partials.get(id).cloned() else { return Ok(None) };
        let segments = partial.pieces().iter().map(|(segment, _)| published.segment(*segment));
        let segments = segments.collect::<Result<_>>().map_err(|error| error.of(id))?;
        Ok(Some(Self { id, partial, segments }))
    }

    pub(super) fn pieces(&self) -> Pieces {
        Pieces::of(&self.partial)
    }

    /// Reads all pieces and puts them together.
    pub(super) fn read(&self) -> Result<Partial> {
        let Self { id, partial, segments } = self;
        let mut read = Partial {
            id: *id,
            created_step: partial.created_step(),
            group: None,
            key: None,
            prompt_ids: None,
            completion_ids: Vec::new(),
            sampler_logps: Vec::new(),
            version_spans: partial.spans(),
        };
        let gap = partial.gap();
        for (piece, segment) in partial.pieces().iter().zip(segments) {
            let (segment_id, entry) = piece;
            let at = Location { segment: *segment_id, offset_units: entry.offset_units };
            if let Some((_, tokens)) = gap.filter(|(behind, _)| behind == piece) {
                let expected = format!("a piece of rollout {id} with {tokens} tokens in front of it");
                return Err(segment.damage(at.offset_bytes(), expected, "a later one; a piece is missing").of(*id));
            }
            let frame = Frame::open(Arc::clone(segment), at, *id, entry.lsn).map_err(|error| error.of(*id))?;
            read.add(&frame, entry.lsn == entry.insert_lsn)?;
        }
        Ok(read)
    }
}

impl Partial {
    fn add(&mut self, piece: &Frame, is_first: bool) -> Result<()> {
        let (id, meta) = (self.id, piece.meta().map_err(|error| error.of(self.id))?);
        if is_first {
            self.group = meta.has(RolloutMeta::GROUP).then(|| meta.group.to_native());
            self.key = meta.has(RolloutMeta::KEY).then(|| meta.key.as_str().to_owned());
            if let Some(column) = Column::PromptIds.find_in(meta) {
                self.prompt_ids = Some(cast(&piece.read(&column)?, &Column::PromptIds, id)?.to_vec());
            }
        }
        if let Some(column) = Column::CompletionIds.find_in(meta) {
            self.completion_ids.extend_from_slice(cast(&piece.read(&column)?, &Column::CompletionIds, id)?);
        }
        if let Some(column) = Column::SamplerLogps.find_in(meta) {
            self.sampler_logps.extend_from_slice(cast(&piece.read(&column)?, &Column::SamplerLogps, id)?);
        }
        Ok(())
    }

    /// The whole rollout: what was generated so far, and behind it what `rest` gives.
    pub(super) fn with(self, mut rest: NewRollout<'_>) -> Result<NewRollout<'_>> {
        let id = self.id;
        let refuse = |what: String| Err(Error::invalid(format!("rollout {id}: {what}")).of(id));
        if rest.created_step != self.created_step {
            let (begun, given) = (self.created_step, rest.created_step);
            return refuse(format!("finished with created step {given}, begun with {begun}"));
        }
        if let (Some(begun), Some(given)) = (self.group, rest.group)
            && begun != given
        {
            return refuse(format!("finished with group {given}, begun with {begun}"));
        }
        rest.group = rest.group.or(self.group);
        if let (Some(begun), Some(given)) = (&self.key, &rest.key)
            && begun != given
        {
            return refuse(format!("finished with key {given:?}, begun with {begun:?}"));
        }
        rest.key = rest.key.or(self.key);
        if let Some(prompt) = self.prompt_ids {
            rest = rest.prompt_ids(prompt);
        }
        let last_len = rest.count(&Column::CompletionIds);
        if !self.completion_ids.is_empty() {
            let (mut tokens, mut logps) = (self.completion_ids, self.sampler_logps);
            rest.columns.retain(|(column, values)| match (column, values) {
                (Column::CompletionIds, ColumnValues::U32(last)) => {
                    tokens.extend_from_slice(last);
                    false
                }
                (Column::SamplerLogps, ColumnValues::F32(last)) => {
                    logps.extend_from_slice(last);
                    false
                }
                _ => true,
            });
            rest.columns.push((Column::CompletionIds, ColumnValues::U32(Cow::Owned(tokens))));
            rest.columns.push((Column::SamplerLogps, ColumnValues::F32(Cow::Owned(logps))));
        }
        rest.version_spans = joined(self.version_spans, &rest.version_spans, last_len);
        Ok(rest)
    }
}

/// The spans of all tokens. A lone span without a count is of all of the last tokens.
fn joined(mut spans: Vec<VersionSpan>, last: &[VersionSpan], last_len: usize) -> Vec<VersionSpan> {
    for (version, count) in last {
        let is_of_all = last.len() == 1 && *count == 0 && !spans.is_empty();
        let count = if is_of_all { u32::try_from(last_len).unwrap_or(u32::MAX) } else { *count };
        match spans.last_mut().filter(|(before, _)| before == version) {
            Some((_, before)) => *before = before.saturating_add(count),
            None => spans.push((*version, count)),
        }
    }
    spans
}
