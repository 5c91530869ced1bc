//! From operations to frames: what a batch means, decided in commit order.
//!
//! Pure but for look-ups. Each operation sees the ones before it, of this batch and of every batch written earlier,
//! published or not.
//!
//! Always true:
//! - B1. A batch that is refused leaves nothing behind.
//! - B2. State moves only through the events that are written.

mod retire;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::ids::{Lsn, RolloutId};
use crate::index::{Entry, MemoryIndex};
use crate::limits;
use crate::log::event::{Clock, Event, Incarnation, NewFrame};
use crate::planted::{Bug, planted};
use crate::reason::Reason;
use crate::rules::made_by;
use crate::state::{Next, State, next_version};
use crate::store::core::Core;
use crate::store::partials::stage::{Abandon, Open, Pieces};
use crate::store::prepare::Prepared;
use crate::store::retirement::Retirement;
use crate::store::standing::{Changes, Live, Overlay, Standing};
use crate::store::sweep::progress::Move;
use crate::store::usage::Pending;

/// One operation of a batch.
#[derive(Debug)]
pub(crate) enum Op<'a> {
    Insert(Prepared<'a>),
    Replace(Prepared<'a>),
    Begin(Prepared<'a>),
    Append(Prepared<'a>),
    Finish(Prepared<'a>, Pieces),
    Abandon(Abandon),
    Retire {
        which: Retirement,
        reason: Reason,
    },
    Apply {
        instance: u64,
        updates: Vec<Update>,
    },
    Advance {
        clock: Clock,
        step: Option<u64>,
        label: Option<u64>,
    },
    Rewind {
        step: u64,
    },
    Cursor(Arc<[u8]>),
    Sweep(Move),
    /// Counters and id ceiling, whatever changed.
    Tally {
        id_ceiling: u64,
    },
}

impl Op<'_> {
    /// Whether it writes a few bytes at most and may let others be freed: no quota refuses it.
    pub(crate) fn frees(&self) -> bool {
        matches!(self, Op::Retire { .. } | Op::Advance { .. } | Op::Rewind { .. } | Op::Tally { .. })
    }

    /// Rollouts with log-probs that look as if they were filled in.
    pub(crate) fn zero_logps_count(&self) -> usize {
        match self {
            Op::Insert(prepared) | Op::Replace(prepared) | Op::Finish(prepared, _) => {
                usize::from(prepared.has_zero_logps)
            }
            Op::Apply { updates, .. } => updates.iter().filter(|update| update.prepared.has_zero_logps).count(),
            _ => 0,
        }
    }
}

/// Computed log-probs, and the rollout as it was when they were asked for.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) prepared: Prepared<'static>,
    /// LSN of the log-probs that these are to replace.
    pub(crate) replaces: Lsn,
    /// The version whose weights made the log-probs.
    pub(crate) version: u64,
    /// The version that was current at hand-out.
    pub(crate) planned_version: u64,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The new incarnation.
    Inserted(Lsn),
    Retired(u64),
    Abandoned(u64),
    Applied {
        computed: u64,
        dropped: u64,
    },
    Version(u64),
    /// Something else came between: nothing was written.
    PassedOver,
}

/// A batch ready to be written.
#[derive(Debug)]
pub(crate) struct Staged<'b> {
    pub(crate) frames: Vec<NewFrame<'b>>,
    pub(crate) events: Vec<Event>,
    pub(crate) outcomes: Vec<Outcome>,
    /// The state behind the batch.
    pub(crate) state: State,
    pub(crate) changes: Changes,
    /// Results that came late and that no tally of the batch counts.
    pub(crate) dropped: u64,
    /// The counts that the batch's tally carries.
    pub(crate) tallied: Pending,
}

/// A batch being staged.
pub(crate) struct Stage<'b, 's> {
    core: &'s Core,
    overlay: &'s Overlay,
    staged: Staged<'b>,
    pub(super) next_lsn: Lsn,
    /// The ceiling that a tally was asked for with.
    id_ceiling: Option<u64>,
}

impl<'b, 's> Stage<'b, 's> {
    pub(crate) fn new(core: &'s Core, overlay: &'s Overlay, state: State, next_lsn: Lsn) -> Self {
        let staged = Staged {
            frames: Vec::new(),
            events: Vec::new(),
            outcomes: Vec::new(),
            state,
            changes: Changes::default(),
            dropped: 0,
            tallied: Pending::default(),
        };
        Self { core, overlay, staged, next_lsn, id_ceiling: None }
    }

    /// Stages a whole batch.
    pub(crate) fn run(mut self, ops: &'b [Op<'_>]) -> Result<Staged<'b>> {
        for op in ops {
            let outcome = self.op(op)?;
            self.staged.outcomes.push(outcome);
        }
        let writes_rollouts = self.staged.events.iter().any(|event| matches!(event, Event::Rollout(_)));
        if writes_rollouts || self.id_ceiling.is_some() {
            self.tally();
        }
        self.check_limits()?;
        Ok(self.staged)
    }

    fn op(&mut self, op: &'b Op<'_>) -> Result<Outcome> {
        match op {
            Op::Insert(prepared) => self.insert(prepared),
            Op::Replace(prepared) => self.replace(prepared),
            Op::Begin(prepared) => self.begin(prepared),
            Op::Append(prepared) => self.append(prepared),
            Op::Finish(prepared, read) => self.finish(prepared, *read),
            Op::Abandon(which) => Ok(Outcome::Abandoned(self.abandon(which))),
            Op::Retire { which, reason } => self.retire(which, *reason),
            Op::Apply { instance, updates } => self.apply(*instance, updates),
            Op::Advance { clock, step, label } => self.advance(*clock, *step, *label),
            Op::Rewind { step } => {
                let (ref_version, kl_version) = (self.staged.state.ref_clock.next, self.staged.state.kl_clock.next);
                self.control(Event::Rewind { step: *step, ref_version, kl_version });
                Ok(Outcome::Version(ref_version))
            }
            Op::Cursor(cursor) => {
                if cursor.len() > limits::CURSOR_BYTES_MAX {
                    let (len, max) = (cursor.len(), limits::CURSOR_BYTES_MAX);
                    return Err(Error::invalid(format!("the cursor holds {len} bytes, the limit is {max}")));
                }
                if planted(Bug::CursorNotInBatch) {
                    self.staged.state.cursor = Some(Arc::clone(cursor));
                    return Ok(Outcome::Done);
                }
                self.control(Event::Cursor(Arc::clone(cursor)));
                Ok(Outcome::Done)
            }
            Op::Sweep(sweep) => {
                let Some(event) = sweep.event(&self.staged.state)? else { return Ok(Outcome::PassedOver) };
                self.control(event);
                Ok(Outcome::Done)
            }
            Op::Tally { id_ceiling } => {
                self.id_ceiling = Some(*id_ceiling);
                Ok(Outcome::Done)
            }
        }
    }

    fn live(&self, id: RolloutId) -> Option<Live> {
        match self.standing(id) {
            Standing::Live(live) => Some(live),
            Standing::Open(_) | Standing::Nothing => None,
        }
    }

    pub(super) fn standing(&self, id: RolloutId) -> Standing {
        self.standing_in(&self.core.published.read().index, id)
    }

    /// The same, beside what readers see.
    fn standing_in(&self, index: &MemoryIndex, id: RolloutId) -> Standing {
        if let Some(standing) = self.changed(id) {
            return standing;
        }
        let Some(slot) = index.find(id) else {
            let partial = index.partials.get(id);
            return partial.map_or(Standing::Nothing, |partial| Standing::Open(Open::of(partial)));
        };
        let (entry, extra) = index.at_slot(slot);
        let Entry { insert_lsn, old_lsn, created_step, ref_version, group, .. } = entry;
        let kl_lsn = extra.kl.map_or(Lsn::NONE, |kl| kl.lsn);
        Standing::Live(Live {
            insert_lsn,
            old_lsn,
            kl_lsn,
            created_step,
            ref_version,
            group,
            asked: index.is_asked_at(slot),
        })
    }

    /// What stands under an id that this batch changed, or one that is not yet published.
    fn changed(&self, id: RolloutId) -> Option<Standing> {
        self.staged.changes.0.get(id).or_else(|| self.overlay.get(id))
    }

    fn insert(&mut self, prepared: &'b Prepared<'_>) -> Result<Outcome> {
        self.check_new(prepared)?;
        self.insert_new(prepared)
    }

    /// Refuses an id under which something stands, and a created step absurdly far ahead.
    pub(super) fn check_new(&self, prepared: &Prepared<'_>) -> Result<()> {
        let id = prepared.entry.id;
        let what = match self.standing(id) {
            Standing::Nothing => {
                let clock = self.staged.state.clock;
                let FrameEntry { created_step, born_step, .. } = prepared.entry;
                let checked = self.core.rules.check_created(clock, created_step.max(born_step));
                return checked.map_err(|error| error.of(id));
            }
            Standing::Live(_) if self.staged.changes.0.get(id).is_some() => {
                "stands in this batch already; give each rollout an id of its own, or replace it"
            }
            Standing::Live(_) => "is live; retire or replace it first",
            Standing::Open(_) => "is an open partial rollout; finish or abandon it first",
        };
        let hint = match &prepared.key {
            Some(key) => format!(" (key {key:?}, or another key of the same id)"),
            None => String::new(),
        };
        Err(Error::invalid(format!("rollout {id}{hint} {what}")).of(id))
    }

    /// Inserts a rollout under an id that is known to be free.
    pub(super) fn insert_new(&mut self, prepared: &'b Prepared<'_>) -> Result<Outcome> {
        let id = prepared.entry.id;
        let state = &self.staged.state;
        let ref_version = made_by(&state.ref_clock, &prepared.old_versions, id, "old_logps")?;
        if let Some(version) = prepared.kl_version {
            made_by(&state.kl_clock, &[version], id, "kl_ref_logps")?;
        }
        let lsn = self.next_lsn;
        let entry = FrameEntry { lsn, insert_lsn: lsn, ref_version, ..prepared.entry };
        self.rollout(prepared, entry);
        if let Some(later) = &prepared.later {
            self.rollout(later, FrameEntry { lsn: self.next_lsn, insert_lsn: lsn, ..later.entry });
        }
        Ok(Outcome::Inserted(lsn))
    }

    fn replace(&mut self, prepared: &'b Prepared<'_>) -> Result<Outcome> {
        let id = prepared.entry.id;
        if self.retire_ids(&[id], Reason::Superseded) == 0 {
            return Err(Error::not_found(format!("rollout {id} is not live; insert it")).of(id));
        }
        self.insert(prepared)
    }

    fn apply(&mut self, instance: u64, updates: &'b [Update]) -> Result<Outcome> {
        let (mut computed, mut dropped) = (0, 0);
        for update in updates {
            let entry = update.prepared.entry;
            let is_kl = entry.kind == EntryKind::KlRefLogps;
            let state = &self.staged.state;
            let (clock, what) = if is_kl { (&state.kl_clock, "kl_ref_logps") } else { (&state.ref_clock, "old_logps") };
            made_by(clock, &[update.version], entry.id, what)?;
            // A plan of a lineage that a rewind left is late as a whole.
            let of_lineage = clock.contains(update.planned_version);
            let current = self.live(entry.id).filter(|live| {
                let replaces = if is_kl { live.kl_lsn } else { live.old_lsn };
                of_lineage
                    && instance == self.core.instance
                    && live.insert_lsn == entry.insert_lsn
                    && (replaces == update.replaces || planted(Bug::TakeLateResult))
            });
            if current.is_none() {
                dropped += 1;
                continue;
            }
            computed += 1;
            self.rollout(&update.prepared, FrameEntry { lsn: self.next_lsn, ..entry });
        }
        self.staged.dropped += dropped;
        Ok(Outcome::Applied { computed, dropped })
    }

    fn advance(&mut self, clock: Clock, step: Option<u64>, label: Option<u64>) -> Result<Outcome> {
        let state = &self.staged.state;
        if let Some(step) = step {
            self.core.rules.check_acted(state.clock, step)?;
        }
        let versions = if clock == Clock::Ref { &state.ref_clock } else { &state.kl_clock };
        match next_version(versions, label)? {
            Next::Current(version) => Ok(Outcome::Version(version)),
            Next::Version(version) => {
                self.control(Event::Advance { clock, version, label, step });
                self.retire_by_rule();
                Ok(Outcome::Version(version))
            }
        }
    }

    /// Counters that no other frame carries; written only where something changed.
    fn tally(&mut self) {
        let pending = self.core.usage.pending();
        let dropped = std::mem::take(&mut self.staged.dropped);
        if pending.is_empty() && dropped == 0 && self.id_ceiling.is_none() {
            return;
        }
        let mut counters = self.staged.state.counters;
        pending.add_to(&mut counters);
        counters.dropped = counters.dropped.saturating_add(dropped);
        let id_ceiling = self.id_ceiling.unwrap_or(0).max(self.staged.state.id_ceiling);
        // The frame names ids alone: one that has a new incarnation by now must not pass its use on.
        let used = {
            let index = &self.core.published.read().index;
            let incarnation = |id| match self.changed(id) {
                Some(Standing::Live(live)) => Some(live.insert_lsn),
                Some(Standing::Open(_) | Standing::Nothing) => None,
                None => index.incarnation(id),
            };
            let stands = |rollout: &&Incarnation| incarnation(rollout.id) == Some(rollout.insert_lsn);
            pending.used.iter().filter(stands).map(|rollout| rollout.id).collect()
        };
        self.staged.tallied = pending;
        self.control(Event::Tally { counters, id_ceiling, used });
    }

    pub(super) fn control(&mut self, event: Event) {
        self.staged.frames.extend(event.encode());
        self.event(event);
    }

    fn rollout(&mut self, prepared: &'b Prepared<'_>, entry: FrameEntry) {
        let lsn = entry.lsn;
        let new = Live {
            insert_lsn: lsn,
            old_lsn: Lsn::NONE,
            kl_lsn: Lsn::NONE,
            created_step: entry.created_step,
            ref_version: entry.ref_version,
            group: entry.group,
            asked: entry.has.contains(Has::USED),
        };
        let before = self.live(entry.id).unwrap_or(new);
        let has_old = entry.has.contains(Has::OLD);
        let live = Live {
            insert_lsn: entry.insert_lsn,
            old_lsn: if has_old { lsn } else { before.old_lsn },
            kl_lsn: if entry.has.contains(Has::KL_REF) { lsn } else { before.kl_lsn },
            ref_version: if has_old { entry.ref_version } else { before.ref_version },
            ..before
        };
        self.stands(entry.id, Standing::Live(live));
        self.frame(prepared, entry);
    }

    /// The frame that comes next changes what stands under this id.
    pub(super) fn stands(&mut self, id: RolloutId, standing: Standing) {
        self.staged.changes.0.insert(id, self.next_lsn, standing);
    }

    pub(super) fn frame(&mut self, prepared: &'b Prepared<'_>, entry: FrameEntry) {
        self.staged.frames.push(prepared.frame(&entry));
        self.event(Event::Rollout(entry));
    }

    fn event(&mut self, event: Event) {
        self.staged.state.apply(self.next_lsn, &event);
        self.staged.events.push(event);
        self.next_lsn = self.next_lsn.next();
    }

    fn check_limits(&self) -> Result<()> {
        let frames = &self.staged.frames;
        let too_large = frames.iter().find(|frame| frame.frame_len() > limits::RECORD_BYTES_MAX);
        if let Some(frame) = too_large {
            let (bytes, max, kind) = (frame.frame_len(), limits::RECORD_BYTES_MAX, frame.kind.name());
            let what = format!("the {kind} takes {bytes} bytes, the limit of a record is {max}");
            if frame.kind.is_rollout() {
                return Err(Error::invalid(format!("rollout {}: {what}", frame.rollout)).of(frame.rollout));
            }
            return Err(Error::invalid(format!("{what}; split it")));
        }
        let bytes: u64 = frames.iter().map(NewFrame::frame_len).sum();
        if bytes > limits::BATCH_BYTES_MAX || frames.len() > limits::BATCH_FRAMES_MAX as usize {
            let (count, max, frames_max) = (frames.len(), limits::BATCH_BYTES_MAX, limits::BATCH_FRAMES_MAX);
            let what = format!(
                "the batch has {count} frames of {bytes} bytes, the limits are {frames_max} and {max}; split it"
            );
            return Err(Error::invalid(what));
        }
        Ok(())
    }
}
