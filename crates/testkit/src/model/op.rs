//! Operations that a model and a store both understand.

use std::collections::HashMap;

use rollstore::{Budget, CompactBudget, NewRollout, Query, Reason, Rewind, RolloutStore};

use crate::store::{self, forward, ids};

/// One commit, or one call that makes one.
#[derive(Debug, Clone)]
pub enum Op {
    /// Operations of one batch; one alone is the single call of that name.
    Batch(Vec<Part>),
    /// What is due at the step, so many rollouts at most, by [`forward`].
    Recompute {
        /// The step asked about.
        step: u64,
        /// The budget; small enough for one micro-batch, which is one commit.
        rollouts: u64,
    },
    /// `get_or_compute` by [`forward`].
    Serve {
        /// The rollouts asked for.
        ids: Vec<u64>,
        /// The step asked about.
        step: u64,
    },
    /// A sweep of a query that results do not take rollouts out of, so many at most, by [`forward`].
    Sweep {
        /// Which: each has a name of its own.
        which: Swept,
        /// The step asked about.
        step: u64,
        /// The budget; small enough for one micro-batch, which is one commit.
        rollouts: u64,
    },
    /// Gives back what may be given back, up to a budget in bytes; nothing changes.
    Compact(u64),
    /// Back to an older step.
    Rewind {
        /// The step.
        step: u64,
        /// What becomes of rollouts created later.
        later: Rewind,
    },
}

/// One operation of a batch.
#[derive(Debug, Clone)]
pub enum Part {
    /// A new rollout.
    Insert(Row),
    /// A rollout in place of a live one.
    Replace(Row),
    /// A rollout that is generated in parts.
    Begin {
        /// The id.
        id: u64,
        /// The step at which it begins.
        created_step: u64,
    },
    /// The next tokens of such a rollout.
    Append {
        /// The id, begun or not.
        id: u64,
        /// How many.
        tokens: usize,
    },
    /// The end of such a rollout: its tokens are the last ones, behind those appended.
    Finish(Row),
    /// Such rollouts given up.
    Abandon(Vec<u64>),
    /// Ends of lives.
    Retire {
        /// Ids, live or not.
        ids: Vec<u64>,
        /// Why.
        reason: Reason,
    },
    /// Ends of lives by a rule, as of this place in the batch.
    RetireWhere {
        /// Which.
        rule: Rule,
        /// Why.
        reason: Reason,
    },
    /// A new version of `π_old`.
    Advance {
        /// The step.
        step: u64,
        /// The trainer's own number.
        label: Option<u64>,
    },
    /// A new version of the KL reference.
    AdvanceKl,
    /// The trainer's position.
    Cursor(Vec<u8>),
    /// Results of a plan of what is due, made before the batch: late ones where the batch changed the rollout.
    ApplyDue {
        /// The step of the plan.
        step: u64,
        /// Its budget.
        rollouts: u64,
    },
}

/// Which rollouts a sweep computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// All.
    All,
    /// Those created before a step.
    Old,
}

impl Swept {
    /// The step of [`Swept::Old`].
    pub const CREATED_BEFORE: u64 = 6;

    /// The sweep's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Old => "old",
        }
    }

    fn query(self) -> Query {
        match self {
            Self::All => Query::All,
            Self::Old => Query::CreatedBefore(Self::CREATED_BEFORE),
        }
    }
}

/// Which rollouts a retirement ends.
#[derive(Debug, Clone)]
pub enum Rule {
    /// Those created before a step.
    CreatedBefore(u64),
    /// Those with old logps of a version before this one.
    VersionBefore(u64),
    /// Those of groups.
    Groups(Vec<u64>),
}

/// A rollout to insert. Its columns follow from its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The id.
    pub id: u64,
    /// The step at which it was sampled.
    pub created_step: u64,
    /// Completion tokens.
    pub tokens: usize,
    /// The version of its old logps; `None` where there are none.
    pub version: Option<u64>,
    /// Whether it has sampler logps.
    pub has_sampler: bool,
    /// Whether it has a prompt.
    pub has_prompt: bool,
}

impl Row {
    /// A version that no store of a test ever comes to.
    pub const NEVER_ISSUED: u64 = 1 << 40;

    /// The rollout as it is given to a store.
    pub fn rollout(&self) -> NewRollout<'static> {
        let Self { id, created_step, tokens, version, has_sampler, has_prompt } = *self;
        let mut rollout =
            NewRollout::new(id, created_step).group(id / 4).completion_ids(store::completion_ids(id, tokens));
        if let Some(version) = version {
            rollout = rollout.old_logps(store::old_logps(id, version, tokens), version);
        }
        if has_prompt {
            rollout = rollout.prompt_ids(store::prompt_ids(id));
        }
        if has_sampler { rollout.sampler_logps(store::sampler_logps(id, tokens)) } else { rollout }
    }
}

/// The rollout of a finish, which goes on behind the first `from` tokens.
fn rest(row: &Row, from: usize) -> NewRollout<'static> {
    let (tokens, logps, span) = store::next_tokens(row.id, from, row.tokens);
    let rest =
        NewRollout::new(row.id, row.created_step).completion_ids(tokens).sampler_logps(logps).version_spans(&[span]);
    match row.version {
        Some(version) => rest.old_logps(store::old_logps(row.id, version, from + row.tokens), version),
        None => rest,
    }
}

/// How many tokens there are of a rollout that is generated in parts.
fn so_far(store: &RolloutStore, id: u64) -> rollstore::Result<usize> {
    Ok(store.partial(id.into())?.map_or(0, |partial| partial.completion_ids.len()))
}

impl Op {
    /// Runs the operation.
    ///
    /// # Errors
    /// As the call does.
    pub fn run(&self, store: &RolloutStore) -> rollstore::Result<()> {
        match self {
            Self::Batch(parts) => match &parts[..] {
                [part] => part.run(store),
                parts => batch(store, parts),
            },
            Self::Recompute { step, rollouts } => {
                store.recompute(*step, Budget::rollouts(*rollouts), forward).map(drop)
            }
            Self::Serve { ids: wanted, step } => {
                let served = store.get_or_compute(&ids(wanted.iter().copied()), *step, forward)?;
                served.iter().try_for_each(|served| served.old_logps().map(drop))
            }
            Self::Sweep { which, step, rollouts } => {
                let sweep = store.sweep(which.name(), which.query());
                sweep.run(*step, Budget::rollouts(*rollouts), forward).map(drop)
            }
            Self::Compact(bytes) => store.compact(CompactBudget::bytes(*bytes)).map(drop),
            Self::Rewind { step, later } => store.rewind(*step, *later).map(drop),
        }
    }
}

impl Part {
    fn run(&self, store: &RolloutStore) -> rollstore::Result<()> {
        match self {
            Self::Insert(row) => store.insert(row.rollout()).map(drop),
            Self::Replace(row) => store.replace(row.rollout()).map(drop),
            Self::Begin { id, created_step } => store.begin_partial(store::partial(*id, *created_step)),
            Self::Append { id, tokens } => store::append(store, *id, *tokens),
            Self::Finish(row) => store.finish(rest(row, so_far(store, row.id)?)).map(drop),
            Self::Abandon(wanted) => store.abandon_partials(&ids(wanted.iter().copied())).map(drop),
            Self::Retire { ids: ended, reason } => store.retire(&ids(ended.iter().copied()), *reason).map(drop),
            Self::RetireWhere { rule, reason } => match rule {
                Rule::CreatedBefore(step) => store.retire_created_before(*step, *reason).map(drop),
                Rule::VersionBefore(version) => store.retire_version_before(*version, *reason).map(drop),
                Rule::Groups(groups) => store.retire_groups(groups, *reason).map(drop),
            },
            Self::Advance { step, label } => store.advance_ref_version(*step, *label).map(drop),
            Self::AdvanceKl => store.advance_kl_ref_version(None).map(drop),
            Self::Cursor(cursor) => store.set_cursor(cursor).map(drop),
            Self::ApplyDue { step, rollouts } => {
                let plan = store.plan_due(*step, Budget::rollouts(*rollouts))?;
                let results = forward(&plan)?;
                store.apply(plan, results).map(drop)
            }
        }
    }
}

fn batch(store: &RolloutStore, parts: &[Part]) -> rollstore::Result<()> {
    let mut batch = store.batch();
    // Tokens of rollouts that this batch appends to.
    let mut appended: HashMap<u64, usize> = HashMap::new();
    for part in parts {
        match part {
            Part::Insert(row) => batch.insert(row.rollout())?,
            Part::Replace(row) => batch.replace(row.rollout())?,
            Part::Begin { id, created_step } => {
                appended.insert(*id, 0);
                batch.begin_partial(store::partial(*id, *created_step))?;
            }
            Part::Append { id, tokens } => {
                let from = appended.get(id).copied().map_or_else(|| so_far(store, *id), Ok)?;
                let (next, logps, span) = store::next_tokens(*id, from, *tokens);
                appended.insert(*id, from + tokens);
                batch.append((*id).into(), next, logps, span)?;
            }
            Part::Finish(row) => batch.finish(rest(row, so_far(store, row.id)?))?,
            Part::Abandon(wanted) => batch.abandon_partials(&ids(wanted.iter().copied())),
            Part::Retire { ids: ended, reason } => batch.retire(&ids(ended.iter().copied()), *reason),
            Part::RetireWhere { rule, reason } => match rule {
                Rule::CreatedBefore(step) => batch.retire_created_before(*step, *reason),
                Rule::VersionBefore(version) => batch.retire_version_before(*version, *reason),
                Rule::Groups(groups) => batch.retire_groups(groups, *reason),
            },
            Part::Advance { step, label } => batch.advance_ref_version(*step, *label),
            Part::AdvanceKl => batch.advance_kl_ref_version(None),
            Part::Cursor(cursor) => batch.cursor(cursor),
            Part::ApplyDue { step, rollouts } => {
                let plan = store.plan_due(*step, Budget::rollouts(*rollouts))?;
                let results = forward(&plan)?;
                batch.apply(plan, results)?;
            }
        }
    }
    batch.commit().map(drop)
}
