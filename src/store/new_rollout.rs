//! A rollout on its way in: what the caller gives, and the checks that need no store.
//!
//! Knows nothing of ids that exist, clocks or versions that were issued: the writer checks those in commit order.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::format::dtype::DType;
use crate::ids::RolloutId;
use crate::limits;
use crate::store::brought::Stood;
use crate::store::column::{Column, ColumnValues, Provenance};

/// A run of tokens and the policy version that made them: `(version, token_count)`.
pub type VersionSpan = (u64, u32);

/// A rollout to insert. Only the id and the step at which it was sampled are required.
///
/// Arrays may be borrowed (`&v[..]`, `&vec`) or owned (`Vec`); borrowed ones are written from where they lie.
///
/// # How do I store what my sampler returned?
/// ```
/// # let dir = tempfile::tempdir()?;
/// use rollstore::{NewRollout, RolloutStore};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(
///     NewRollout::new(7, 100)
///         .group(1)
///         .reward(0.5)
///         .prompt_ids(&[1, 2, 3][..])
///         .completion_ids(&[10, 11][..])
///         .sampler_logps(&[-0.5, f32::NAN][..]) // NaN: the engine did not report this one
///         .old_logps(&[-0.51, -1.25][..], 0),   // made by the weights of ref version 0
/// )?;
/// assert_eq!(store.get(7.into())?.unwrap().old_logps()?, [-0.51, -1.25]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a rollout is stored by `insert` or `replace`"]
pub struct NewRollout<'a> {
    pub(crate) id: RolloutId,
    pub(crate) created_step: u64,
    pub(crate) key: Option<String>,
    pub(crate) group: Option<u64>,
    pub(crate) reward: Option<f32>,
    pub(crate) advantage: Option<f32>,
    pub(crate) columns: Vec<(Column, ColumnValues<'a>)>,
    pub(crate) old_spans: Vec<VersionSpan>,
    pub(crate) kl_version: Option<u64>,
    pub(crate) provenances: Vec<(Column, Provenance)>,
    pub(crate) version_spans: Vec<VersionSpan>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) stood: Option<Stood>,
    pub(crate) first_old: Option<Cow<'a, [f32]>>,
}

impl<'a> NewRollout<'a> {
    /// A rollout sampled at `created_step` (the trainer's persistent global step).
    pub fn new(id: impl Into<RolloutId>, created_step: u64) -> Self {
        Self {
            id: id.into(),
            created_step,
            key: None,
            group: None,
            reward: None,
            advantage: None,
            columns: Vec::new(),
            old_spans: Vec::new(),
            kl_version: None,
            provenances: Vec::new(),
            version_spans: Vec::new(),
            metadata: Vec::new(),
            stood: None,
            first_old: None,
        }
    }

    /// A rollout named by a string: its id is [`RolloutId::from_key`], and the key is stored with it.
    pub fn with_key(key: &str, created_step: u64) -> Self {
        let mut rollout = Self::new(RolloutId::from_key(key), created_step);
        rollout.key = Some(key.to_owned());
        rollout
    }

    /// The group of rollouts that share a prompt (GRPO).
    pub fn group(mut self, group: u64) -> Self {
        self.group = Some(group);
        self
    }

    /// The reward of the completion.
    pub fn reward(mut self, reward: f32) -> Self {
        self.reward = Some(reward);
        self
    }

    /// The advantage of the completion, one number a rollout. Per-token advantages go into a named column.
    pub fn advantage(mut self, advantage: f32) -> Self {
        self.advantage = Some(advantage);
        self
    }

    /// Token ids of the prompt.
    pub fn prompt_ids(self, ids: impl Into<Cow<'a, [u32]>>) -> Self {
        self.with(Column::PromptIds, ColumnValues::U32(ids.into()))
    }

    /// Token ids of the completion. Every per-token column must then have as many values.
    pub fn completion_ids(self, ids: impl Into<Cow<'a, [u32]>>) -> Self {
        self.with(Column::CompletionIds, ColumnValues::U32(ids.into()))
    }

    /// 1 where a completion token counts in the loss, else 0. Log-probs under a 0 are stored unchecked.
    pub fn loss_mask(self, mask: impl Into<Cow<'a, [u8]>>) -> Self {
        self.with(Column::LossMask, ColumnValues::U8(mask.into()))
    }

    /// Log-probs under `π_old`, in nats, and the ref version whose weights made them: the version that was current when
    /// their computation began, never "now". NaN, infinities and values above
    /// [`limits::LOGP_POSITIVE_MAX`](crate::limits::LOGP_POSITIVE_MAX) are refused.
    pub fn old_logps(mut self, logps: impl Into<Cow<'a, [f32]>>, version: u64) -> Self {
        self.old_spans = vec![(version, 0)];
        self.with(Column::OldLogps, ColumnValues::F32(logps.into()))
    }

    /// Log-probs under `π_old` that several versions made, one after the other: the oldest counts, and one version of an
    /// abandoned future makes the rollout stale.
    pub fn old_logps_spans(mut self, logps: impl Into<Cow<'a, [f32]>>, spans: &[VersionSpan]) -> Self {
        self.old_spans = spans.to_vec();
        self.with(Column::OldLogps, ColumnValues::F32(logps.into()))
    }

    /// Log-probs that the inference engine reported, in nats. Kept bit for bit; NaN means "not reported".
    pub fn sampler_logps(self, logps: impl Into<Cow<'a, [f32]>>) -> Self {
        self.with(Column::SamplerLogps, ColumnValues::F32(logps.into()))
    }

    /// Log-probs under the KL reference model, in nats, and the KL reference version that made them.
    pub fn kl_ref_logps(mut self, logps: impl Into<Cow<'a, [f32]>>, version: u64) -> Self {
        self.kl_version = Some(version);
        self.with(Column::KlRefLogps, ColumnValues::F32(logps.into()))
    }

    /// How a log-prob column was made.
    pub fn provenance(mut self, column: Column, provenance: Provenance) -> Self {
        self.provenances.push((column, provenance));
        self
    }

    /// A column of your own, of any supported type and length.
    pub fn column(self, name: &str, values: impl Into<ColumnValues<'a>>) -> Self {
        self.with(Column::from_name(name), values.into())
    }

    /// The policy versions that the sampler went through while it generated, with their numbers of tokens.
    pub fn version_spans(mut self, spans: &[VersionSpan]) -> Self {
        self.version_spans = spans.to_vec();
        self
    }

    /// Bytes of your own, returned as they are.
    pub fn metadata(mut self, metadata: &[u8]) -> Self {
        self.metadata = metadata.to_vec();
        self
    }

    fn with(mut self, column: Column, values: ColumnValues<'a>) -> Self {
        self.columns.push((column, values));
        self
    }

    fn values(&self, column: &Column) -> Option<&ColumnValues<'a>> {
        self.columns.iter().find(|(named, _)| named == column).map(|(_, values)| values)
    }

    pub(crate) fn count(&self, column: &Column) -> usize {
        self.values(column).map_or(0, ColumnValues::len)
    }

    /// Whether log-probs are given that look as if they were filled in.
    pub(crate) fn has_zero_logps(&self) -> bool {
        let columns = [Column::OldLogps, Column::SamplerLogps, Column::KlRefLogps];
        columns.iter().any(|column| matches!(self.values(column), Some(ColumnValues::F32(logps)) if are_zero(logps)))
    }

    /// Everything that can be checked without the store.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_columns()
            .and_then(|()| self.check_lengths())
            .and_then(|()| self.check_first_old())
            .and_then(|()| self.check_spans())
            .and_then(|()| self.check_logps())
            .and_then(|()| self.check_sizes())
            .map_err(|error| error.of(self.id))
    }

    pub(super) fn refuse(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("rollout {}: {what}", self.id))
    }

    fn check_columns(&self) -> Result<()> {
        for (at, (column, values)) in self.columns.iter().enumerate() {
            if self.columns.iter().skip(at + 1).any(|(other, _)| other == column) {
                return Err(self.refuse(format_args!("column {column} is given twice")));
            }
            let wanted = match column {
                Column::PromptIds | Column::CompletionIds => DType::U32,
                Column::LossMask => DType::U8,
                Column::OldLogps | Column::SamplerLogps | Column::KlRefLogps => DType::F32,
                Column::Named(_) => continue,
            };
            let dtype = values.dtype();
            if dtype != wanted {
                return Err(self.refuse(format_args!("column {column} holds {wanted}, not {dtype}; nothing is cast")));
            }
            match column {
                Column::OldLogps if self.old_spans.is_empty() => {
                    return Err(
                        self.refuse("old_logps need the version that made them: call old_logps(values, version)")
                    );
                }
                Column::KlRefLogps if self.kl_version.is_none() => {
                    let what = "kl_ref_logps need the version that made them: call kl_ref_logps(values, version)";
                    return Err(self.refuse(what));
                }
                _ => {}
            }
        }
        self.check_provenances()
    }

    fn check_provenances(&self) -> Result<()> {
        let mut seen = HashSet::with_capacity(self.provenances.len());
        for (column, _) in &self.provenances {
            if self.values(column).is_none() {
                return Err(self.refuse(format_args!("provenance of {column} is given without its values")));
            }
            if !seen.insert(column) {
                return Err(self.refuse(format_args!("provenance of {column} is given twice")));
            }
        }
        if seen.len() > limits::PROVENANCES_MAX {
            let max = limits::PROVENANCES_MAX;
            return Err(self.refuse(format_args!("{} columns have a provenance, the limit is {max}", seen.len())));
        }
        Ok(())
    }

    fn check_lengths(&self) -> Result<()> {
        let per_token =
            [Column::CompletionIds, Column::SamplerLogps, Column::OldLogps, Column::KlRefLogps, Column::LossMask];
        let mut given = per_token.iter().filter_map(|column| Some((column, self.values(column)?.len())));
        let Some((first, count)) = given.next() else { return Ok(()) };
        match given.find(|(_, other)| *other != count) {
            Some((column, other)) => {
                Err(self
                    .refuse(format_args!("{first} has {count} values, {column} has {other}; nothing is padded or cut")))
            }
            None => Ok(()),
        }
    }

    fn check_spans(&self) -> Result<()> {
        let count = |spans: &[VersionSpan]| spans.iter().map(|(_, tokens)| u64::from(*tokens)).sum::<u64>();
        let token_count = self.token_count();
        let lists = [("old_logps", &self.old_spans), ("version_spans", &self.version_spans)];
        for (what, spans) in lists {
            let whole = matches!(spans.as_slice(), [] | [(_, 0)]);
            if !whole && count(spans) != token_count {
                let covered = count(spans);
                return Err(self.refuse(format_args!("spans of {what} cover {covered} tokens of {token_count}")));
            }
            if spans.len() > limits::SPANS_MAX {
                let max = limits::SPANS_MAX;
                return Err(self.refuse(format_args!("{what} has {} spans, the limit is {max}", spans.len())));
            }
        }
        Ok(())
    }

    /// Number of completion tokens, from whichever per-token column there is.
    fn token_count(&self) -> u64 {
        let columns = [Column::CompletionIds, Column::OldLogps, Column::SamplerLogps];
        columns.iter().map(|column| self.count(column) as u64).max().unwrap_or(0)
    }

    fn check_logps(&self) -> Result<()> {
        let mask = match self.values(&Column::LossMask) {
            Some(ColumnValues::U8(mask)) => Some(mask.as_ref()),
            _ => None,
        };
        for column in [Column::OldLogps, Column::KlRefLogps] {
            if let Some(ColumnValues::F32(logps)) = self.values(&column) {
                check_logps(self.id, &column, logps, mask)?;
            }
        }
        if let Some(first) = &self.first_old {
            check_logps(self.id, &Column::OldLogps, first, mask)?;
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        let bytes: u64 = self.columns.iter().map(|(_, values)| values.as_bytes().len() as u64).sum();
        if bytes > limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX {
            let max = limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX;
            return Err(self.refuse(format_args!("columns hold {bytes} bytes, the limit of a record is {max}")));
        }
        if self.metadata.len() > limits::METADATA_BYTES_MAX {
            let max = limits::METADATA_BYTES_MAX;
            return Err(self.refuse(format_args!("metadata holds {} bytes, the limit is {max}", self.metadata.len())));
        }
        let named = self.columns.iter().filter(|(column, _)| column.code().is_none());
        let engines = self.provenances.iter().map(|(_, provenance)| provenance.engine.as_str());
        let names = named.clone().map(|(column, _)| column.name()).chain(engines).chain(self.key.as_deref());
        if let Some(name) = names.into_iter().find(|name| name.len() > limits::NAME_BYTES_MAX || name.is_empty()) {
            let max = limits::NAME_BYTES_MAX;
            return Err(self.refuse(format_args!("a name has {} bytes, it must have 1 to {max}", name.len())));
        }
        if named.count() > limits::NAMED_COLUMNS_MAX {
            return Err(self.refuse(format_args!("more than {} named columns", limits::NAMED_COLUMNS_MAX)));
        }
        match &self.key {
            Some(key) if RolloutId::from_key(key) != self.id => {
                Err(self.refuse(format_args!("key {key:?} names another id")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether log-probs are zero, every one, and not just a few.
pub(crate) fn are_zero(logps: &[f32]) -> bool {
    logps.len() >= limits::ZERO_LOGPS_TOKENS_MIN && logps.iter().all(|logp| *logp == 0.0)
}

/// Refuses what cannot be the log of a probability, where the loss mask is 1 or there is none.
pub(crate) fn check_logps(id: RolloutId, column: &Column, logps: &[f32], mask: Option<&[u8]>) -> Result<()> {
    let max = limits::LOGP_POSITIVE_MAX;
    // NaN is in no range, and infinities are outside of this one.
    let is_logp = |value: f32| (f32::MIN..=max).contains(&value);
    // Without a branch for each value this is as fast as memory; which one is bad is looked for where one is.
    if logps.iter().fold(true, |all, logp| all & is_logp(*logp)) {
        return Ok(());
    }
    let masked = |at: usize| mask.is_some_and(|mask| mask.get(at) == Some(&0));
    let bad = logps.iter().enumerate().find(|(at, logp)| !is_logp(**logp) && !masked(*at));
    match bad {
        Some((at, logp)) => Err(Error::invalid(format!(
            "rollout {id}: {column}[{at}] is {logp}; a log-prob is finite and at most {max} where the loss mask is not 0"
        ))
        .of(id)),
        None => Ok(()),
    }
}
