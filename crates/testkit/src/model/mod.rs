//! The reference model: what a store must show, from plain maps and loops alone.
//!
//! Knows nothing of files, frames, indexes or LSNs. Slow and plain on purpose, so that it can be checked by reading.
//!
//! Always true:
//! - A model is one committed state. An operation gives the next one, or the kind of error that refuses it.
//! - Versions are numbered by the store: the model checks that none is given twice and takes them as they come.

mod op;

use std::collections::BTreeMap;

use rollstore::{DType, ErrorKind, Lsn, Reason, Rewind, RolloutId, Staleness, VersionSpan};

pub use op::{Op, Part, Row, Rule, Swept};

use crate::state::{ColumnState, PartialState, RolloutState, StoreState, SweepState};
use crate::store;

/// Options of the stores that the model stands for: those of [`store::options`] and the defaults.
const WINDOW: u64 = 8;
const MAX_VERSION_LAG: u64 = 1;
const STEP_SKEW: u64 = rollstore::limits::STEP_SKEW_DEFAULT;
const STEP_JUMP_MAX: u64 = rollstore::limits::STEP_JUMP_MAX_DEFAULT;

/// Why an operation is refused.
pub type Refused = ErrorKind;

/// One committed state of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    clock: Option<u64>,
    ref_clock: Lineage,
    kl_clock: Lineage,
    cursor: Option<Vec<u8>>,
    inserted: u64,
    computed: u64,
    retired: BTreeMap<&'static str, u64>,
    rollouts: BTreeMap<u64, Live>,
    /// In the order in which they were first run.
    sweeps: Vec<Pass>,
    partials: BTreeMap<u64, Partial>,
    /// Numbers that tell incarnations and log-probs apart, as LSNs do in the store.
    next_stamp: u64,
}

/// The versions of one clock that are ancestors of the current one, which is the last.
#[derive(Debug, Clone, PartialEq)]
struct Lineage {
    versions: Vec<u64>,
    /// The last label and its version.
    label: Option<(u64, u64)>,
    /// Versions that the operation under way took.
    issued: u64,
    next: u64,
}

/// One live rollout.
#[derive(Debug, Clone, PartialEq)]
struct Live {
    row: Row,
    born_step: u64,
    ref_version: u64,
    /// Whether there are old logps; they are those of `ref_version`.
    has_old: bool,
    /// The version of the old logps that were the first.
    first_old: Option<u64>,
    insert_stamp: u64,
    old_stamp: u64,
}

/// How far a sweep has come.
#[derive(Debug, Clone, PartialEq)]
struct Pass {
    which: Swept,
    /// The highest stamp when it began.
    began: u64,
    step: u64,
    version: u64,
    /// Born step and id of what it handed out last; `None` once it is finished.
    last: Option<(u64, u64)>,
}

/// One rollout that is still being generated.
#[derive(Debug, Clone, PartialEq)]
struct Partial {
    created_step: u64,
    tokens: usize,
    spans: Vec<VersionSpan>,
}

/// A plan in the making: what each rollout was at hand-out.
#[derive(Debug, Clone)]
struct Planned {
    step: u64,
    version: u64,
    /// Id, insert stamp, old stamp.
    items: Vec<(u64, u64, u64)>,
}

impl Default for Lineage {
    fn default() -> Self {
        Self { versions: vec![0], label: None, issued: 0, next: 1 }
    }
}

impl Lineage {
    fn current(&self) -> u64 {
        self.versions.last().copied().unwrap_or(0)
    }

    fn lag(&self, version: u64) -> Option<u64> {
        self.versions.iter().rev().position(|of_lineage| *of_lineage == version).map(|lag| lag as u64)
    }

    fn issue(&mut self) -> u64 {
        let version = self.next;
        self.next += 1;
        self.issued += 1;
        version
    }

    fn advance(&mut self, label: Option<u64>) -> Result<bool, Refused> {
        if let (Some(label), Some((last, version))) = (label, self.label) {
            if label == last && version == self.current() {
                return Ok(false);
            }
            if label <= last {
                return Err(ErrorKind::Invalid);
            }
        }
        let version = self.issue();
        self.versions.push(version);
        if let Some(label) = label {
            self.label = Some((label, version));
        }
        Ok(true)
    }

    fn restart(&mut self) {
        let version = self.issue();
        self.versions = vec![version];
        self.label = None;
    }
}

impl Pass {
    fn shown(&self) -> SweepState {
        let Self { which, step, version, last, .. } = *self;
        let last = last.map(|(_, id)| RolloutId::new(id));
        SweepState { name: which.name().to_owned(), began: Lsn::NONE, with: (step, version), last }
    }
}

impl Model {
    /// The current versions of `π_old` and of the KL reference.
    #[must_use]
    pub fn versions(&self) -> (u64, u64) {
        (self.ref_clock.current(), self.kl_clock.current())
    }

    /// The highest step that the trainer acted at.
    #[must_use]
    pub fn clock(&self) -> Option<u64> {
        self.clock
    }

    /// Every live rollout, by id.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.rollouts.keys().copied()
    }

    /// Every rollout that is still being generated, with its created step.
    pub fn partials(&self) -> impl Iterator<Item = (u64, u64)> {
        self.partials.iter().map(|(id, partial)| (*id, partial.created_step))
    }

    /// The last label that an advance was given.
    #[must_use]
    pub fn label(&self) -> Option<u64> {
        self.ref_clock.label.map(|(label, _)| label)
    }

    /// The state behind an operation, where `found` are the store's versions then.
    ///
    /// # Errors
    /// The kind of error that refuses the operation.
    pub fn after(&self, op: &Op, found: (u64, u64)) -> Result<Self, Refused> {
        // Once to count the versions that it takes, and once with the numbers that the store gave them.
        let next = (self.ref_clock.current() + 1, self.kl_clock.current() + 1);
        let counted = self.numbered_from(op, next)?;
        // Where the store refused the operation it gave none: they must not be those of the versions before.
        let first = |found: u64, issued: u64, next: u64| (found + 1).saturating_sub(issued).max(next);
        let first = (first(found.0, counted.ref_clock.issued, next.0), first(found.1, counted.kl_clock.issued, next.1));
        self.numbered_from(op, first)
    }

    fn numbered_from(&self, op: &Op, first: (u64, u64)) -> Result<Self, Refused> {
        let mut next = self.clone();
        // An operation that the store refused issued nothing: whatever it would have, none is an older one.
        let above = |clock: &Lineage, first: u64| first.max(clock.current() + 1);
        (next.ref_clock.issued, next.ref_clock.next) = (0, above(&next.ref_clock, first.0));
        (next.kl_clock.issued, next.kl_clock.next) = (0, above(&next.kl_clock, first.1));
        next.apply(op)?;
        Ok(next)
    }

    fn apply(&mut self, op: &Op) -> Result<(), Refused> {
        match op {
            Op::Batch(parts) => {
                // Plans are made, and pieces are read, before the batch, as a trainer would.
                let before = |(place, part)| {
                    self.check_finish(part, &parts[..place])?;
                    self.plan_of(part)
                };
                let plans: Vec<Option<Planned>> = parts.iter().enumerate().map(before).collect::<Result<_, _>>()?;
                parts.iter().zip(&plans).try_for_each(|(part, plan)| self.part(part, plan.as_ref()))
            }
            Op::Recompute { step, rollouts } => {
                let plan = self.plan_due(*step, *rollouts)?;
                self.store_results(&plan);
                Ok(())
            }
            Op::Serve { ids, step } => {
                self.check_acted(*step)?;
                if ids.iter().any(|id| !self.rollouts.contains_key(id)) {
                    return Err(ErrorKind::NotFound);
                }
                let wanted = ids.iter().filter(|id| !self.staleness(&self.rollouts[id], *step).is_fresh());
                let plan = self.plan(*step, wanted.copied());
                self.store_results(&plan);
                Ok(())
            }
            Op::Sweep { which, step, rollouts } => self.sweep(*which, *step, *rollouts),
            Op::Compact(_) => Ok(()),
            Op::Rewind { step, later } => self.rewind(*step, *later),
        }
    }

    fn part(&mut self, part: &Part, plan: Option<&Planned>) -> Result<(), Refused> {
        match part {
            Part::Insert(row) => self.insert(row),
            Part::Replace(row) => match self.retire(&[row.id], Reason::Superseded) {
                0 => Err(ErrorKind::NotFound),
                _ => self.insert(row),
            },
            Part::Begin { id, created_step } => self.begin(*id, *created_step),
            Part::Append { id, tokens } => self.append(*id, *tokens),
            Part::Finish(row) => self.finish(row),
            Part::Abandon(ids) => {
                ids.iter().for_each(|id| drop(self.partials.remove(id)));
                Ok(())
            }
            Part::Retire { ids, reason } => {
                self.retire(ids, *reason);
                Ok(())
            }
            Part::RetireWhere { rule, reason } => self.retire_where(rule, *reason),
            Part::Advance { step, label } => {
                self.check_acted(*step)?;
                if self.ref_clock.advance(*label)? {
                    self.act(*step);
                }
                Ok(())
            }
            Part::AdvanceKl => self.kl_clock.advance(None).map(drop),
            Part::Cursor(cursor) => {
                self.cursor = Some(cursor.clone());
                Ok(())
            }
            Part::ApplyDue { .. } => {
                if let Some(plan) = plan {
                    self.store_results(plan);
                }
                Ok(())
            }
        }
    }

    fn insert(&mut self, row: &Row) -> Result<(), Refused> {
        self.check_new(row.id, row.created_step)?;
        self.insert_new(row)
    }

    fn check_new(&self, id: u64, created_step: u64) -> Result<(), Refused> {
        let is_taken = self.rollouts.contains_key(&id) || self.partials.contains_key(&id);
        if is_taken || self.clock.is_some_and(|clock| created_step > clock + STEP_JUMP_MAX) {
            return Err(ErrorKind::Invalid);
        }
        Ok(())
    }

    fn begin(&mut self, id: u64, created_step: u64) -> Result<(), Refused> {
        self.check_new(id, created_step)?;
        self.partials.insert(id, Partial { created_step, tokens: 0, spans: Vec::new() });
        Ok(())
    }

    fn append(&mut self, id: u64, tokens: usize) -> Result<(), Refused> {
        if self.rollouts.contains_key(&id) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.get_mut(&id).ok_or(ErrorKind::NotFound)?;
        if tokens > 0 {
            let (version, count) = store::sampled_by(partial.tokens, tokens);
            match partial.spans.last_mut() {
                Some((last, before)) if *last == version => *before += count,
                _ => partial.spans.push((version, count)),
            }
            partial.tokens += tokens;
        }
        Ok(())
    }

    /// What a finish says at once, from what was committed before it.
    fn check_finish(&self, part: &Part, before: &[Part]) -> Result<(), Refused> {
        let Part::Finish(row) = part else { return Ok(()) };
        let is_piece = |part: &Part| match part {
            Part::Begin { id, .. } | Part::Append { id, .. } => *id == row.id,
            _ => false,
        };
        if before.iter().any(is_piece) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.get(&row.id).ok_or(ErrorKind::NotFound)?;
        if partial.created_step == row.created_step { Ok(()) } else { Err(ErrorKind::Invalid) }
    }

    fn finish(&mut self, row: &Row) -> Result<(), Refused> {
        if self.rollouts.contains_key(&row.id) {
            return Err(ErrorKind::Invalid);
        }
        let partial = self.partials.remove(&row.id).ok_or(ErrorKind::NotFound)?;
        self.insert_new(&Row {
            tokens: partial.tokens + row.tokens,
            has_sampler: true,
            has_prompt: true,
            ..row.clone()
        })
    }

    fn insert_new(&mut self, row: &Row) -> Result<(), Refused> {
        if row.version.is_some_and(|version| version >= Row::NEVER_ISSUED) {
            return Err(ErrorKind::Invalid);
        }
        self.next_stamp += 1;
        let live = Live {
            born_step: row.created_step,
            ref_version: row.version.unwrap_or_else(|| self.ref_clock.current()),
            has_old: row.version.is_some(),
            first_old: row.version,
            insert_stamp: self.next_stamp,
            old_stamp: if row.version.is_some() { self.next_stamp } else { 0 },
            row: row.clone(),
        };
        self.rollouts.insert(row.id, live);
        self.inserted += 1;
        Ok(())
    }

    fn retire(&mut self, ids: &[u64], reason: Reason) -> u64 {
        let ended = ids.iter().filter(|id| self.rollouts.remove(id).is_some()).count() as u64;
        if ended > 0 {
            *self.retired.entry(reason.name()).or_default() += ended;
        }
        ended
    }

    fn retire_where(&mut self, rule: &Rule, reason: Reason) -> Result<(), Refused> {
        let ends = |live: &Live| match rule {
            Rule::CreatedBefore(step) => live.row.created_step < *step,
            Rule::VersionBefore(version) => live.ref_version < *version,
            Rule::Groups(groups) => groups.contains(&(live.row.id / 4)),
        };
        if let Rule::CreatedBefore(step) = rule
            && self.clock.is_some_and(|clock| *step > clock + STEP_JUMP_MAX)
        {
            return Err(ErrorKind::Invalid);
        }
        let ids: Vec<u64> = self.rollouts.iter().filter(|(_, live)| ends(live)).map(|(id, _)| *id).collect();
        self.retire(&ids, reason);
        Ok(())
    }

    fn rewind(&mut self, step: u64, later: Rewind) -> Result<(), Refused> {
        if self.clock.is_none_or(|clock| step > clock) {
            return Err(ErrorKind::Invalid);
        }
        if later == Rewind::Drop {
            let later = self.rollouts.iter().filter(|(_, live)| live.row.created_step > step);
            let ids: Vec<u64> = later.map(|(id, _)| *id).collect();
            self.retire(&ids, Reason::Rewound);
            self.partials.retain(|_, partial| partial.created_step <= step);
        }
        self.ref_clock.restart();
        self.kl_clock.restart();
        self.clock = Some(step);
        self.sweeps.clear();
        Ok(())
    }

    fn sweep(&mut self, which: Swept, step: u64, rollouts: u64) -> Result<(), Refused> {
        self.check_acted(step)?;
        let (place, version) = (self.sweeps.iter().position(|pass| pass.which == which), self.ref_clock.current());
        let known = place.map(|place| self.sweeps[place].clone());
        let is_over = known.as_ref().is_some_and(|pass| (pass.last, pass.step, pass.version) == (None, step, version));
        if rollouts == 0 || is_over {
            return Ok(());
        }
        let under_way = known.filter(|pass| pass.last.is_some());
        let began = under_way.as_ref().map_or(self.next_stamp, |pass| pass.began);
        let is_left = |id: &u64| {
            let live = &self.rollouts[id];
            let wanted = which == Swept::All || live.row.created_step < Swept::CREATED_BEFORE;
            wanted && live.insert_stamp <= began && live.old_stamp <= began
        };
        let left: Vec<u64> = self.in_order(|_| true, step).into_iter().filter(is_left).collect();
        let now: Vec<u64> = left.iter().copied().take(usize::try_from(rollouts).unwrap_or(usize::MAX)).collect();
        let last = now.last().filter(|_| now.len() < left.len()).map(|id| (self.rollouts[id].born_step, *id));
        if now.is_empty() && under_way.is_none() {
            return Ok(());
        }
        let plan = self.plan(step, now.into_iter());
        self.store_results(&plan);
        let pass = Pass { which, began, step, version, last };
        match place {
            Some(place) => self.sweeps[place] = pass,
            None => self.sweeps.push(pass),
        }
        Ok(())
    }

    fn plan_of(&self, part: &Part) -> Result<Option<Planned>, Refused> {
        match part {
            Part::ApplyDue { step, rollouts } => self.plan_due(*step, *rollouts).map(Some),
            _ => Ok(None),
        }
    }

    fn plan_due(&self, step: u64, rollouts: u64) -> Result<Planned, Refused> {
        self.check_acted(step)?;
        let due = self.in_order(|staleness| staleness.stale || staleness.out_of_window, step);
        Ok(self.plan(step, due.into_iter().take(usize::try_from(rollouts).unwrap_or(usize::MAX))))
    }

    fn plan(&self, step: u64, ids: impl Iterator<Item = u64>) -> Planned {
        let item = |id: u64| self.rollouts.get(&id).map(|live| (id, live.insert_stamp, live.old_stamp));
        Planned { step, version: self.ref_clock.current(), items: ids.filter_map(item).collect() }
    }

    /// Results for all of a plan: those of rollouts that changed since are late.
    fn store_results(&mut self, plan: &Planned) {
        for (id, insert_stamp, old_stamp) in &plan.items {
            let Some(live) = self.rollouts.get_mut(id) else { continue };
            if (live.insert_stamp, live.old_stamp) != (*insert_stamp, *old_stamp) {
                continue;
            }
            self.next_stamp += 1;
            live.old_stamp = self.next_stamp;
            (live.has_old, live.ref_version, live.born_step) = (true, plan.version, plan.step);
            live.first_old.get_or_insert(plan.version);
            self.computed += 1;
            self.act(plan.step);
        }
    }

    fn act(&mut self, step: u64) {
        self.clock = Some(self.clock.map_or(step, |clock| clock.max(step)));
    }

    fn check_acted(&self, step: u64) -> Result<(), Refused> {
        let fits = self.clock.is_none_or(|clock| step + STEP_SKEW >= clock && step <= clock + STEP_JUMP_MAX);
        if fits { Ok(()) } else { Err(ErrorKind::Invalid) }
    }

    fn staleness(&self, live: &Live, step: u64) -> Staleness {
        let (age, lag) = (step.saturating_sub(live.born_step), self.ref_clock.lag(live.ref_version));
        Staleness {
            missing: !live.has_old,
            stale: lag.is_none_or(|lag| lag > MAX_VERSION_LAG),
            out_of_window: age > WINDOW,
            from_future: live.born_step > step + STEP_SKEW,
            age,
            lag,
        }
    }

    /// Ids of rollouts whose flags at `step` are so, oldest born first, then by id.
    fn in_order(&self, wanted: impl Fn(&Staleness) -> bool, step: u64) -> Vec<u64> {
        let fitting = self.rollouts.iter().filter(|(_, live)| wanted(&self.staleness(live, step)));
        let mut ids: Vec<(u64, u64)> = fitting.map(|(id, live)| (live.born_step, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// What a store in this state shows; LSNs are left out.
    #[must_use]
    pub fn state(&self) -> StoreState {
        let step = self.clock.unwrap_or(0);
        let ids = |ids: Vec<u64>| ids.into_iter().map(RolloutId::new).collect();
        let rollouts = self.rollouts.iter();
        StoreState {
            clock: self.clock,
            ref_version: self.ref_clock.current(),
            kl_ref_version: self.kl_clock.current(),
            cursor: self.cursor.clone(),
            inserted: self.inserted,
            computed: self.computed,
            retired: self.retired.clone(),
            len: self.rollouts.len(),
            rollouts: rollouts.map(|(id, live)| (RolloutId::new(*id), self.shown(live, step))).collect(),
            partials: self.partials.iter().map(|(id, partial)| (RolloutId::new(*id), partial.shown(*id))).collect(),
            order: ids(self.in_order(|_| true, step)),
            stale: store::sorted(ids(self.in_order(|staleness| staleness.stale, step))),
            due: store::sorted(ids(self.in_order(|staleness| staleness.stale || staleness.out_of_window, step))),
            sweeps: self.sweeps.iter().map(Pass::shown).collect(),
        }
    }

    fn shown(&self, live: &Live, step: u64) -> RolloutState {
        let Row { id, created_step, tokens, has_sampler, has_prompt, .. } = live.row;
        let old = |version: u64| store::old_logps(id, version, tokens);
        let sampler = has_sampler.then(|| store::sampler_logps(id, tokens));
        let mut columns = BTreeMap::new();
        let completion = store::completion_ids(id, tokens);
        let bytes = completion.iter().flat_map(|token| token.to_le_bytes()).collect();
        columns.insert("completion_ids".to_owned(), column(DType::U32, bytes, None));
        if has_prompt {
            let bytes = store::prompt_ids(id).iter().flat_map(|token| token.to_le_bytes()).collect();
            columns.insert("prompt_ids".to_owned(), column(DType::U32, bytes, None));
        }
        if live.has_old {
            let values = le_bytes(&old(live.ref_version));
            columns.insert("old_logps".to_owned(), column(DType::F32, values, Some(live.ref_version)));
        }
        if let Some(sampler) = &sampler {
            columns.insert("sampler_logps".to_owned(), column(DType::F32, le_bytes(sampler), None));
        }
        let behaviour = sampler.or_else(|| live.first_old.map(old));
        RolloutState {
            insert_lsn: Lsn::NONE,
            created_step,
            born_step: live.born_step,
            ref_version: live.ref_version,
            staleness: self.staleness(live, step),
            labels: (Some(id / 4), None, None),
            key: None,
            metadata: Vec::new(),
            columns,
            behaviour: behaviour.map(|logps| logps.into_iter().map(f32::to_bits).collect()),
        }
    }
}

impl Partial {
    fn shown(&self, id: u64) -> PartialState {
        PartialState {
            created_step: self.created_step,
            group: Some(id / 4),
            prompt_ids: Some(store::prompt_ids(id)),
            completion_ids: store::completion_ids(id, self.tokens),
            sampler_logps: store::sampler_logps(id, self.tokens).into_iter().map(f32::to_bits).collect(),
            version_spans: self.spans.clone(),
        }
    }
}

fn column(dtype: DType, bytes: Vec<u8>, version: Option<u64>) -> ColumnState {
    ColumnState { dtype, bytes, version, provenance: None }
}

fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
