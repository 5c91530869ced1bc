//! A rollout as readers hold it: one committed state, arrays in place.

use crate::error::{Error, ErrorKind, Result};
use crate::format::dtype::Element;
use crate::format::entry::Has;
use crate::format::meta::RolloutMeta;
use crate::ids::{Lsn, RolloutId};
use crate::index::Entry;
use crate::log::frame::{Frame, RawColumn};
use crate::rules::{Rules, Staleness};
use crate::store::column::{Ask, Column, ColumnView};
use crate::store::new_rollout::VersionSpan;
use crate::store::snapshot::Part;

/// A view of one rollout. Arrays are read where they lie: slices borrow from the mapped segment, which stays mapped as
/// long as the view lives, whatever becomes of the store or the file's name. Where the store reads copies, they borrow
/// from the view's own copy.
///
/// The view shows the rollout as of the call that made it.
#[derive(Debug)]
pub struct Rollout {
    pub(super) entry: Entry,
    /// The version of the KL reference log-probs, where there are any.
    pub(super) kl_version: Option<u64>,
    pub(super) rules: Rules,
    /// Advances of the ref version since that of the old logps; `None` for one of an abandoned future.
    pub(super) lag: Option<u64>,
    pub(super) insert: Frame,
    /// Where newer log-probs lie; opened when asked for.
    pub(super) old: Option<Box<Part>>,
    pub(super) kl: Option<Box<Part>>,
    pub(super) first_old: Option<Box<Part>>,
}

impl Rollout {
    /// The rollout's id.
    #[must_use]
    pub fn id(&self) -> RolloutId {
        self.entry.id
    }

    /// The step at which it was sampled; never changes.
    #[must_use]
    pub fn created_step(&self) -> u64 {
        self.entry.created_step
    }

    /// The step from which its old logps count as fresh.
    #[must_use]
    pub fn born_step(&self) -> u64 {
        self.entry.born_step
    }

    /// The version of the weights that made the old logps; while they are missing, the one current at the insert.
    #[must_use]
    pub fn ref_version(&self) -> u64 {
        self.entry.ref_version
    }

    /// The version of the KL reference that made its log-probs; `None` where the rollout has none.
    #[must_use]
    pub fn kl_ref_version(&self) -> Option<u64> {
        self.kl_version
    }

    /// LSN of the insert: the rollout's incarnation.
    #[must_use]
    pub fn insert_lsn(&self) -> Lsn {
        self.entry.insert_lsn
    }

    /// Prompt and completion tokens: what a forward pass costs.
    #[must_use]
    pub fn token_count(&self) -> u32 {
        self.entry.token_count
    }

    /// The flags of the old logps at `step`, by the window and lag of the store.
    #[must_use]
    pub fn staleness(&self, step: u64) -> Staleness {
        self.rules.staleness_of(self.lag, &self.entry, step)
    }

    /// The group of rollouts that share a prompt.
    #[must_use]
    pub fn group(&self) -> Option<u64> {
        let meta = self.insert.meta().ok()?;
        meta.has(RolloutMeta::GROUP).then(|| meta.group.to_native())
    }

    /// The reward.
    #[must_use]
    pub fn reward(&self) -> Option<f32> {
        let meta = self.insert.meta().ok()?;
        meta.has(RolloutMeta::REWARD).then(|| meta.reward.to_native())
    }

    /// The advantage.
    #[must_use]
    pub fn advantage(&self) -> Option<f32> {
        let meta = self.insert.meta().ok()?;
        meta.has(RolloutMeta::ADVANTAGE).then(|| meta.advantage.to_native())
    }

    /// The string key, for a rollout that was inserted by one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let meta = self.insert.meta().ok()?;
        meta.has(RolloutMeta::KEY).then(|| meta.key.as_str())
    }

    /// The caller's own bytes; empty where none were given.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        self.insert.meta().map_or(&[], |meta| meta.metadata.as_slice())
    }

    /// The versions that the sampler went through, with their numbers of tokens.
    #[must_use]
    pub fn version_spans(&self) -> Vec<VersionSpan> {
        let Ok(meta) = self.insert.meta() else { return Vec::new() };
        meta.spans.iter().map(|span| (span.version.to_native(), span.token_count.to_native())).collect()
    }

    /// Token ids of the prompt. Shape `[prompt_token_count]`.
    ///
    /// # Errors
    /// `NotFound` where the rollout has none, `Damaged` where the checksum fails on first touch, `Io`.
    pub fn prompt_ids(&self) -> Result<&[u32]> {
        self.typed(&Column::PromptIds)
    }

    /// Token ids of the completion. Shape `[token_count]`.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn completion_ids(&self) -> Result<&[u32]> {
        self.typed(&Column::CompletionIds)
    }

    /// 1 where a completion token counts in the loss. Shape `[token_count]`.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn loss_mask(&self) -> Result<&[u8]> {
        self.typed(&Column::LossMask)
    }

    /// Log-probs under `π_old`, in nats. Shape `[token_count]`. Never NaN where the loss mask is 1. They may be stale:
    /// [`Rollout::staleness`] says so.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`]; `NotFound` while they are missing.
    pub fn old_logps(&self) -> Result<&[f32]> {
        self.typed(&Column::OldLogps)
    }

    /// Log-probs that the inference engine reported, in nats, bit for bit. Shape `[token_count]`; NaN = not reported.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn sampler_logps(&self) -> Result<&[f32]> {
        self.typed(&Column::SamplerLogps)
    }

    /// Log-probs under the KL reference model, in nats. Shape `[token_count]`.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn kl_ref_logps(&self) -> Result<&[f32]> {
        self.typed(&Column::KlRefLogps)
    }

    /// Log-probs under the policy that sampled: the sampler's, or, where none were given, the first old logps that the
    /// rollout ever had. A recompute never changes them.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn behaviour_logps(&self) -> Result<&[f32]> {
        if self.has(&Column::SamplerLogps) {
            return self.sampler_logps();
        }
        let frame = match &self.first_old {
            Some(part) => part.frame(self.entry.id)?,
            None => &self.insert,
        };
        match Column::OldLogps.find_in(frame.meta()?) {
            Some(found) => cast(&frame.read(&found)?, &Column::OldLogps, self.entry.id),
            None => Err(self.absent("behaviour logps")),
        }
    }

    /// Whether the behaviour log-probs are neither the sampler's nor the old ones as they are now: the sampler reported none,
    /// and the old ones were computed again.
    #[must_use]
    pub fn keeps_first_old_logps(&self) -> bool {
        let in_insert = || self.insert.meta().is_ok_and(|meta| Column::OldLogps.find_in(meta).is_some());
        let first_lsn = match &self.first_old {
            Some(part) => Some(part.lsn()),
            None => in_insert().then_some(self.entry.insert_lsn),
        };
        !self.has(&Column::SamplerLogps) && first_lsn.is_some_and(|first| first != self.entry.old_lsn)
    }

    /// Whether the rollout has a column.
    #[must_use]
    pub fn has(&self, column: &Column) -> bool {
        match column {
            Column::OldLogps => self.entry.has.contains(Has::OLD),
            Column::KlRefLogps => self.kl_version.is_some(),
            _ => self.insert.meta().is_ok_and(|meta| column.find_in(meta).is_some()),
        }
    }

    /// The values of any column.
    ///
    /// # Errors
    /// As for [`Rollout::prompt_ids`].
    pub fn values(&self, column: &Column) -> Result<ColumnView<'_>> {
        let raw = self.raw(column)?;
        view(&raw, column, self.entry.id)
    }

    /// The values of a column as `T`, checked against the kind of log-probs asked for.
    ///
    /// # Errors
    /// `Invalid` for another type, or a kind that the column is not known to have.
    pub fn get<T: Element>(&self, ask: impl Into<Ask>) -> Result<&[T]> {
        let Ask { column, kind } = ask.into();
        if let Some(kind) = kind {
            self.check_kind(&column, kind)?;
        }
        self.typed(&column)
    }

    pub(super) fn frame_of(&self, column: &Column) -> Result<&Frame> {
        let part = match column {
            Column::OldLogps => &self.old,
            Column::KlRefLogps => &self.kl,
            _ => &None,
        };
        let frame = part.as_ref().map_or(Ok(&self.insert), |part| part.frame(self.entry.id))?;
        if *column == Column::OldLogps {
            frame.check_version(self.entry.ref_version)?;
        }
        Ok(frame)
    }

    fn raw(&self, column: &Column) -> Result<RawColumn<'_>> {
        let frame = self.frame_of(column)?;
        let found = match column.code() {
            Some(code) => frame.column(code),
            None => column.find_in(frame.meta()?),
        };
        match found {
            Some(found) => frame.read(&found),
            None => Err(self.absent(column.name())),
        }
    }

    fn typed<T: Element>(&self, column: &Column) -> Result<&[T]> {
        cast(&self.raw(column)?, column, self.entry.id)
    }

    fn absent(&self, what: &str) -> Error {
        let id = self.entry.id;
        let hint = if what == "old_logps" { "; a plan computes them" } else { "" };
        Error::new(ErrorKind::NotFound, format!("rollout {id} has no {what}{hint}")).of(id)
    }
}

fn view<'a>(raw: &RawColumn<'a>, column: &Column, id: RolloutId) -> Result<ColumnView<'a>> {
    ColumnView::cast(raw.dtype, raw.bytes).ok_or_else(|| {
        let (bytes, dtype) = (raw.bytes.len(), raw.dtype);
        Error::invalid(format!("rollout {id}: {column} holds {bytes} bytes, which are no aligned {dtype} values"))
            .of(id)
    })
}

pub(super) fn cast<'a, T: Element>(raw: &RawColumn<'a>, column: &Column, id: RolloutId) -> Result<&'a [T]> {
    view(raw, column, id)?.as_slice().ok_or_else(|| {
        let (found, asked) = (raw.dtype, T::DTYPE);
        Error::invalid(format!(
            "rollout {id}: {column} holds {found} values, {asked} ones were asked for; nothing is cast"
        ))
        .of(id)
    })
}
