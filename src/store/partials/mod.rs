//! Partial rollouts: what an interrupted generation made so far, kept until it goes on.
//!
//! Their tokens lie in the log as pieces. A finish reads those, and writes the rollout whole as any other, so that reading it
//! is never slower than if it had been inserted at once.
//!
//! Always true:
//! - Q1. A partial rollout is no rollout: no get, list, scan, plan or count of rollouts sees it, and no retirement ends it.
//! - Q2. Under one id there is a rollout or a partial one, never both: a finish ends the pieces in the commit that inserts.
//! - Q3. Sampler log-probs are stored once and copied bit for bit.

mod read;
pub(crate) mod stage;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::ids::{Lsn, RolloutId};
use crate::index;
use crate::store::RolloutStore;
use crate::store::batch::WriteBatch;
use crate::store::column::Column;
use crate::store::new_rollout::{NewRollout, VersionSpan};
use crate::store::prepare::Prepared;
use crate::store::stage::{Op, Outcome};
use read::Snapshot;
use stage::Abandon;

/// A partial rollout in short.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenPartial {
    /// The rollout's id.
    pub id: RolloutId,
    /// The step at which its generation began.
    pub created_step: u64,
    /// Tokens of the completion so far.
    pub tokens: u64,
    /// The sampler's versions with their numbers of tokens, in order.
    pub version_spans: Vec<VersionSpan>,
    /// False where a piece was lost to damage: it can only be abandoned.
    pub is_whole: bool,
}

/// What an interrupted generation made so far: all that it needs to go on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Partial {
    /// The rollout's id.
    pub id: RolloutId,
    /// The step at which its generation began.
    pub created_step: u64,
    /// The rollouts that share its prompt.
    pub group: Option<u64>,
    /// The string key, for one that was begun by one.
    pub key: Option<String>,
    /// Token ids of the prompt, where it was begun with them.
    pub prompt_ids: Option<Vec<u32>>,
    /// Token ids of the completion so far.
    pub completion_ids: Vec<u32>,
    /// Log-probs that the sampler reported, in nats, bit for bit; one for each token of the completion.
    pub sampler_logps: Vec<f32>,
    /// The sampler's versions with their numbers of tokens, in order.
    pub version_spans: Vec<VersionSpan>,
}

impl OpenPartial {
    fn of(id: RolloutId, partial: &index::Partial) -> Self {
        Self {
            id,
            created_step: partial.created_step(),
            tokens: partial.len(),
            version_spans: partial.spans(),
            is_whole: partial.gap().is_none(),
        }
    }
}

impl RolloutStore {
    /// Begins a rollout that is generated in parts: id, created step, and, where they are known, group, key and prompt. Its
    /// id is taken from now on. Until [`RolloutStore::finish`] it is no rollout: only [`RolloutStore::partials`] tells of it.
    ///
    /// Weight updates interrupt long generations, and so do crashes. What was appended survives both, and goes on under the
    /// new weights: each piece says which version of the sampler made it.
    ///
    /// # How do I go on with a generation that was interrupted?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.begin_partial(NewRollout::new(7, 100).prompt_ids(&[1, 2, 3][..]))?;
    /// store.append(7.into(), &[10, 11][..], &[-0.5, -0.25][..], (4, 2))?; // two tokens by version 4 of the sampler
    /// store.close()?; // or a crash
    ///
    /// let store = RolloutStore::options().open(dir.path().join("rollouts"))?;
    /// assert_eq!((store.len(), store.partials()[0].tokens), (0, 2));
    /// let so_far = store.partial(7.into())?.unwrap();
    /// assert_eq!((so_far.prompt_ids.unwrap(), so_far.completion_ids), (vec![1, 2, 3], vec![10, 11]));
    ///
    /// store.append(7.into(), &[12][..], &[-1.5][..], (5, 1))?;
    /// store.finish(NewRollout::new(7, 100).reward(1.0))?;
    /// let rollout = store.get(7.into())?.unwrap();
    /// assert_eq!(rollout.sampler_logps()?, [-0.5, -0.25, -1.5]);
    /// assert_eq!(rollout.version_spans(), [(4, 2), (5, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for an id that is live or begun, anything but those fields, or an absurd step; as for
    /// [`WriteBatch::commit`].
    pub fn begin_partial(&self, rollout: NewRollout<'_>) -> Result<()> {
        self.commit(&[prepare_begin(rollout)?]).map(drop)
    }

    /// Appends tokens and the log-probs that the sampler reported for them to a partial rollout. `span` is the sampler's
    /// version that made them, with their number. None at all is fine, and writes nothing.
    ///
    /// # Errors
    /// `NotFound` where the rollout was not begun, `Invalid` where the lengths disagree or the rollout would exceed
    /// [`limits::RECORD_BYTES_MAX`](crate::limits::RECORD_BYTES_MAX) or
    /// [`limits::SPANS_MAX`](crate::limits::SPANS_MAX) pieces, `Damaged` where a piece was lost; as for
    /// [`WriteBatch::commit`].
    pub fn append<'a>(
        &self,
        id: RolloutId,
        tokens: impl Into<Cow<'a, [u32]>>,
        sampler_logps: impl Into<Cow<'a, [f32]>>,
        span: VersionSpan,
    ) -> Result<()> {
        self.commit(&[prepare_append(id, tokens.into(), sampler_logps.into(), span)?]).map(drop)
    }

    /// Makes a partial rollout a rollout: reads its pieces, and inserts them as one, with the rest of the columns. `rest` has
    /// the same id and created step, whatever was not given before, and may have the last tokens: with their log-probs and
    /// version spans, they go behind those appended. Returns the incarnation.
    ///
    /// # Errors
    /// `NotFound` where the rollout was not begun; `Invalid` where `rest` says otherwise than the pieces, or someone appended
    /// meanwhile; `Damaged` where a piece is; as for [`RolloutStore::insert`].
    pub fn finish(&self, rest: NewRollout<'_>) -> Result<Lsn> {
        self.commit_one(self.prepare_finish(rest)?)
    }

    /// Gives partial rollouts up: their pieces are dead, their ids are free. Returns how many there were; other ids are
    /// passed over. A rewind that drops does so with those created later; nothing else does.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    pub fn abandon_partials(&self, ids: &[RolloutId]) -> Result<u64> {
        let written = self.commit(&[Op::Abandon(Abandon::Ids(ids.to_vec()))])?;
        Ok(if let [Outcome::Abandoned(count)] = written.outcomes[..] { count } else { 0 })
    }

    /// Every partial rollout, oldest first, then by id.
    #[must_use]
    pub fn partials(&self) -> Vec<OpenPartial> {
        let mut partials: Vec<_> = {
            let published = self.core.published.read();
            published.index.partials.iter().map(|(id, partial)| OpenPartial::of(id, partial)).collect()
        };
        partials.sort_by_key(|partial| (partial.created_step, partial.id));
        partials
    }

    /// What there is of a partial rollout; `None` where the id is of none.
    ///
    /// # Errors
    /// `Damaged` where a piece is not what was written, or missing; `Io`, `Invalid` for a closed store.
    pub fn partial(&self, id: RolloutId) -> Result<Option<Partial>> {
        self.core.check_open()?;
        let snapshot = Snapshot::of(&self.core.published.read(), id)?;
        snapshot.map(|snapshot| snapshot.read()).transpose()
    }

    pub(super) fn prepare_finish<'a>(&self, rest: NewRollout<'a>) -> Result<Op<'a>> {
        self.core.check_open()?;
        let snapshot = Snapshot::of(&self.core.published.read(), rest.id)?.ok_or_else(|| stage::not_open(rest.id))?;
        let whole = snapshot.read()?.with(rest)?;
        Ok(Op::Finish(Prepared::insert(whole)?, snapshot.pieces()))
    }
}

impl<'a> WriteBatch<'a> {
    /// Begins a rollout that is generated in parts. See [`RolloutStore::begin_partial`].
    ///
    /// # Errors
    /// `Invalid`, at once for what the rollout itself shows, at the commit for an id that is live or begun or an absurd step.
    pub fn begin_partial(&mut self, rollout: NewRollout<'a>) -> Result<()> {
        self.put(prepare_begin(rollout))
    }

    /// Appends to a partial rollout. See [`RolloutStore::append`].
    ///
    /// # Errors
    /// `Invalid`, at once for lengths that disagree, at the commit for a rollout that would be too large; `NotFound` at the
    /// commit where it was not begun.
    pub fn append(
        &mut self,
        id: RolloutId,
        tokens: impl Into<Cow<'a, [u32]>>,
        sampler_logps: impl Into<Cow<'a, [f32]>>,
        span: VersionSpan,
    ) -> Result<()> {
        self.put(prepare_append(id, tokens.into(), sampler_logps.into(), span))
    }

    /// Makes a partial rollout a rollout. See [`RolloutStore::finish`]. The pieces are read here: those of this batch are not
    /// there yet, so that the last tokens are given to the finish itself.
    ///
    /// # Errors
    /// As for [`RolloutStore::finish`]; `Invalid` at the commit where someone appended meanwhile.
    pub fn finish(&mut self, rest: NewRollout<'a>) -> Result<()> {
        let id = rest.id;
        if self.has_pieces_of(id) {
            let what =
                format!("rollout {id} has pieces in this batch: give its last tokens to finish, or insert it whole");
            return self.put(Err(Error::invalid(what).of(id)));
        }
        let op = self.store().prepare_finish(rest);
        self.put(op)
    }

    /// Gives partial rollouts up; other ids are passed over. See [`RolloutStore::abandon_partials`].
    pub fn abandon_partials(&mut self, ids: &[RolloutId]) {
        // It cannot be refused.
        let _ = self.put(Ok(Op::Abandon(Abandon::Ids(ids.to_vec()))));
    }
}

/// The first piece of a rollout: what is known before its first token.
fn prepare_begin(rollout: NewRollout<'_>) -> Result<Op<'_>> {
    let column = rollout.columns.iter().map(|(column, _)| column).find(|column| **column != Column::PromptIds);
    let given = [
        (rollout.reward.is_some(), "a reward"),
        (rollout.advantage.is_some(), "an advantage"),
        (!rollout.metadata.is_empty(), "metadata"),
        (!rollout.provenances.is_empty(), "a provenance"),
        (!rollout.version_spans.is_empty(), "version spans"),
        (!rollout.old_spans.is_empty() || rollout.kl_version.is_some(), "log-probs"),
    ];
    let other = given.iter().find(|(given, _)| *given).map(|(_, what)| (*what).to_owned());
    if let Some(what) = column.map(Column::to_string).or(other) {
        let id = rollout.id;
        let how = "a partial rollout begins with group, key and prompt_ids; append tokens, give the rest to finish";
        return Err(Error::invalid(format!("rollout {id} begins with {what}; {how}")).of(id));
    }
    Ok(Op::Begin(Prepared::piece(rollout)?))
}

/// A further piece.
fn prepare_append<'a>(
    id: RolloutId,
    tokens: Cow<'a, [u32]>,
    sampler_logps: Cow<'a, [f32]>,
    span: VersionSpan,
) -> Result<Op<'a>> {
    let (version, covered) = span;
    if u64::from(covered) != tokens.len() as u64 {
        let count = tokens.len();
        let what = format!("rollout {id}: the span of version {version} covers {covered} tokens, {count} are appended");
        return Err(Error::invalid(what).of(id));
    }
    let piece = NewRollout::new(id, 0).completion_ids(tokens).sampler_logps(sampler_logps).version_spans(&[span]);
    Ok(Op::Append(Prepared::piece(piece)?))
}
