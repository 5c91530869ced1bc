//! A rollout as readers hold it: one committed state, arrays in place.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::format::dtype::{DType, Element};
use crate::format::entry::Has;
use crate::format::meta::{ColumnCode, RolloutMeta};
use crate::ids::{Location, Lsn, RolloutId};
use crate::index::{Entry, Extra};
use crate::log::event::{Incarnation, value_count};
use crate::log::frame::{Frame, RawColumn};
use crate::log::segment::Segment;
use crate::state::State;
use crate::store::column::{Ask, Column, ColumnView, LogpKind, Provenance};
use crate::store::core::Published;
use crate::store::new_rollout::VersionSpan;
use crate::store::rules::{Rules, Staleness};

/// A view of one rollout. Arrays are read where they lie: slices borrow from the mapped segment, which stays mapped as
/// long as the view lives, whatever becomes of the store or the file's name. Where the store reads copies, they borrow
/// from the view's own copy.
///
/// The view shows the rollout as of the call that made it.
#[derive(Debug)]
pub struct Rollout {
    entry: Entry,
    extra: Extra,
    rules: Rules,
    state: Arc<State>,
    insert: Frame,
    /// Where newer log-probs lie; opened when asked for.
    old: Option<Box<Part>>,
    kl: Option<Box<Part>>,
    first_old: Option<Box<Part>>,
}

/// A frame beside the insert, opened when asked for. Few rollouts have one, so that views keep only room for a pointer.
#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    at: Location,
    lsn: Lsn,
    frame: OnceLock<Frame>,
}

impl Part {
    fn new(published: &Published, at: Location, lsn: Lsn) -> Result<Box<Self>> {
        Ok(Box::new(Self { segment: published.segment(at.segment)?, at, lsn, frame: OnceLock::new() }))
    }

    fn frame(&self, id: RolloutId) -> Result<&Frame> {
        if let Some(frame) = self.frame.get() {
            return Ok(frame);
        }
        let frame = Frame::open(&self.segment, self.at, id, self.lsn)?;
        Ok(self.frame.get_or_init(|| frame))
    }
}

/// What one committed state knows of a rollout: enough to open a view after the lock was let go.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) entry: Entry,
    pub(crate) extra: Extra,
    segment: Arc<Segment>,
    old: Option<Box<Part>>,
    kl: Option<Box<Part>>,
    first_old: Option<Box<Part>>,
}

impl Snapshot {
    /// Looks a rollout up; `None` where it is not live.
    pub(crate) fn of(published: &Published, id: RolloutId) -> Result<Option<Self>> {
        let Some(entry) = published.index.get(id) else { return Ok(None) };
        let extra = published.index.extra(id).copied().unwrap_or_default();
        let part = |at: Location, lsn| (at != entry.insert).then(|| Part::new(published, at, lsn)).transpose();
        Ok(Some(Self {
            entry,
            extra,
            segment: published.segment(entry.insert.segment)?,
            old: part(entry.old, entry.old_lsn)?,
            kl: extra.kl.map(|kl| part(kl.at, kl.lsn)).transpose()?.flatten(),
            first_old: extra.first_old.map(|first| part(first.at, first.lsn)).transpose()?.flatten(),
        }))
    }

    /// Looks up live rollouts; an id that is not live is an error.
    pub(crate) fn of_all(published: &Published, ids: &[RolloutId]) -> Result<Vec<Self>> {
        let find = |id: &RolloutId| {
            Self::of(published, *id)?.ok_or_else(|| Error::not_found(format!("rollout {id} is not live")).of(*id))
        };
        ids.iter().map(find).collect()
    }

    /// The rollout's incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { id: self.entry.id, insert_lsn: self.entry.insert_lsn }
    }

    /// Opens the view.
    pub(crate) fn open(self, state: &Arc<State>, rules: &Rules) -> Result<Rollout> {
        let Self { entry, extra, segment, old, kl, first_old } = self;
        let insert =
            Frame::open(&segment, entry.insert, entry.id, entry.insert_lsn).map_err(|error| error.of(entry.id))?;
        Ok(Rollout { entry, extra, rules: *rules, state: Arc::clone(state), insert, old, kl, first_old })
    }
}

/// What a column of a rollout is.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    /// The column.
    pub column: Column,
    /// The type of its values.
    pub dtype: DType,
    /// The number of its values.
    pub len: usize,
    /// The version of the weights that made it, for old and KL reference log-probs.
    pub version: Option<u64>,
    /// How it was made, where the caller said.
    pub provenance: Option<Provenance>,
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
        self.rules.staleness(&self.state.ref_clock, &self.entry, step)
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
        match frame.column(ColumnCode::OLD_LOGPS)? {
            Some(raw) => cast(&raw, &Column::OldLogps, self.entry.id),
            None => Err(self.absent("behaviour logps")),
        }
    }

    /// Whether the rollout has a column.
    #[must_use]
    pub fn has(&self, column: &Column) -> bool {
        match column {
            Column::OldLogps => self.entry.has.contains(Has::OLD),
            Column::KlRefLogps => self.extra.kl.is_some(),
            Column::Named(name) => self.insert.meta().is_ok_and(|meta| meta.named(name).is_some()),
            _ => self.insert.meta().is_ok_and(|meta| column.code().is_some_and(|code| meta.column(code).is_some())),
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

    /// Every column that the rollout has, in the order of the well-known ones, then the named ones. One that cannot be read
    /// is among them: reading it says why.
    #[must_use]
    pub fn columns(&self) -> Vec<ColumnInfo> {
        let Ok(meta) = self.insert.meta() else { return Vec::new() };
        let mut columns: Vec<Column> = meta
            .columns()
            .filter_map(|column| {
                let named =
                    || meta.names.get(column.code.name_index()?).map(|name| Column::Named(name.as_str().to_owned()));
                Column::from_code(column.code).or_else(named)
            })
            .collect();
        for recomputable in [Column::OldLogps, Column::KlRefLogps] {
            if self.has(&recomputable) && !columns.contains(&recomputable) {
                columns.push(recomputable);
            }
        }
        columns.sort_by_key(|column| column.code().map_or(u16::MAX, |code| code.0));
        columns.into_iter().filter_map(|column| self.info(column)).collect()
    }

    fn info(&self, column: Column) -> Option<ColumnInfo> {
        let version = match column {
            Column::OldLogps => Some(self.entry.ref_version),
            Column::KlRefLogps => self.extra.kl.map(|kl| kl.version),
            _ => None,
        };
        let Ok(meta) = self.frame_of(&column).and_then(Frame::meta) else {
            // It is there, and reading it says what is wrong with it.
            let len = self.completion_len();
            return Some(ColumnInfo { dtype: DType::F32, len, version, provenance: None, column });
        };
        let found = match &column {
            Column::Named(name) => meta.named(name),
            known => meta.column(known.code()?),
        }?;
        let len = value_count(&found) as usize;
        Some(ColumnInfo { dtype: found.dtype, len, version, provenance: self.provenance(&column), column })
    }

    /// Completion tokens, by the index.
    fn completion_len(&self) -> usize {
        let prompt = self.insert.meta().ok().and_then(|meta| meta.column(ColumnCode::PROMPT_IDS));
        let prompt = prompt.map_or(0, |column| value_count(&column));
        self.entry.token_count.saturating_sub(prompt) as usize
    }

    /// How a column was made, where the caller said. Log-probs that were computed again carry none.
    #[must_use]
    pub fn provenance(&self, column: &Column) -> Option<Provenance> {
        let meta = self.frame_of(column).ok()?.meta().ok()?;
        let found = match column {
            Column::Named(name) => meta.named(name),
            known => meta.column(known.code()?),
        }?;
        let provenance = meta.provenances.get(found.provenance?)?;
        Some(Provenance {
            engine: provenance.engine.as_str().to_owned(),
            kind: if provenance.processed == 1 { LogpKind::Processed } else { LogpKind::Raw },
            temperature: provenance.temperature.to_native(),
            top_p: provenance.top_p.to_native(),
            top_k: provenance.top_k.to_native(),
        })
    }

    pub(crate) fn check_kind(&self, column: &Column, asked: LogpKind) -> Result<()> {
        let id = self.entry.id;
        let found = match self.provenance(column) {
            Some(provenance) if provenance.kind == asked => return Ok(()),
            Some(provenance) => format!(
                "{:?} (engine {:?}, temperature {})",
                provenance.kind, provenance.engine, provenance.temperature
            ),
            None => "of unknown provenance".to_owned(),
        };
        Err(Error::invalid(format!("rollout {id}: {column} are {found}, {asked:?} ones were asked for")).of(id))
    }

    fn frame_of(&self, column: &Column) -> Result<&Frame> {
        let part = match column {
            Column::OldLogps => &self.old,
            Column::KlRefLogps => &self.kl,
            _ => &None,
        };
        part.as_ref().map_or(Ok(&self.insert), |part| part.frame(self.entry.id))
    }

    fn raw(&self, column: &Column) -> Result<RawColumn<'_>> {
        let frame = self.frame_of(column)?;
        let found = match column {
            Column::Named(name) => frame.named_column(name)?,
            known => known.code().map(|code| frame.column(code)).transpose()?.flatten(),
        };
        found.ok_or_else(|| self.absent(column.name()))
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

fn cast<'a, T: Element>(raw: &RawColumn<'a>, column: &Column, id: RolloutId) -> Result<&'a [T]> {
    view(raw, column, id)?.as_slice().ok_or_else(|| {
        let (found, asked) = (raw.dtype, T::DTYPE);
        Error::invalid(format!(
            "rollout {id}: {column} holds {found} values, {asked} ones were asked for; nothing is cast"
        ))
        .of(id)
    })
}
