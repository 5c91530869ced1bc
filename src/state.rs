//! Clocks, cursor and counters: what the store knows beyond its rollouts, as one value that frames move forward.
//!
//! Pure. The writer stages a copy, a commit publishes it, a manifest holds a snapshot, recovery replays frames on it.
//!
//! Always true:
//! - T1. A state reflects exactly the frames up to its LSN.
//! - T2. The LSN never moves back, and the clock only by a rewind.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::clock::VersionClock;
use crate::format::counters::Counters;
use crate::format::entry::{EntryKind, FrameEntry};
use crate::format::manifest::{RetireLine, StateSnapshot, SweepProgress, SweepRecord};
use crate::ids::Lsn;
use crate::limits::SWEEPS_MAX;
use crate::log::event::{Clock, Event};

/// What the store knows beyond its rollouts. Cheap to copy: the parts that grow are shared until they change.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) lsn: Lsn,
    /// The highest step that the trainer itself acted at.
    pub(crate) clock: Option<u64>,
    pub(crate) ref_clock: Arc<VersionClock>,
    pub(crate) kl_clock: Arc<VersionClock>,
    pub(crate) cursor: Option<Arc<[u8]>>,
    /// Counted ids below this were used or handed out.
    pub(crate) id_ceiling: u64,
    pub(crate) counters: Counters,
    /// Lines that still end something that another does not: steps descend, LSNs ascend.
    pub(crate) retire_lines: Vec<RetireLine>,
    /// Named sweeps, each name once. Few, and changed by few batches: shared between states.
    pub(crate) sweeps: Arc<Vec<SweepRecord>>,
}

impl State {
    /// The state of a new store.
    pub(crate) fn new() -> Self {
        Self {
            lsn: Lsn::NONE,
            clock: None,
            ref_clock: Arc::new(VersionClock::new()),
            kl_clock: Arc::new(VersionClock::new()),
            cursor: None,
            id_ceiling: 0,
            counters: Counters::default(),
            retire_lines: Vec::new(),
            sweeps: Arc::default(),
        }
    }

    pub(crate) fn from_snapshot(snapshot: StateSnapshot) -> Self {
        Self {
            lsn: snapshot.lsn,
            clock: snapshot.clock,
            ref_clock: Arc::new(snapshot.ref_clock),
            kl_clock: Arc::new(snapshot.kl_clock),
            cursor: snapshot.cursor.map(Arc::from),
            id_ceiling: snapshot.id_ceiling,
            counters: snapshot.counters,
            retire_lines: snapshot.retire_lines,
            sweeps: Arc::new(snapshot.sweeps),
        }
    }

    pub(crate) fn to_snapshot(&self) -> StateSnapshot {
        StateSnapshot {
            lsn: self.lsn,
            clock: self.clock,
            ref_clock: self.ref_clock.as_ref().clone(),
            kl_clock: self.kl_clock.as_ref().clone(),
            cursor: self.cursor.as_deref().map(<[u8]>::to_vec),
            id_ceiling: self.id_ceiling,
            counters: self.counters,
            retire_lines: self.retire_lines.clone(),
            sweeps: self.sweeps.as_ref().clone(),
        }
    }

    /// Moves on by one frame. The writer and recovery both come here, so that they cannot differ.
    pub(crate) fn apply(&mut self, lsn: Lsn, event: &Event) {
        debug_assert!(lsn > self.lsn, "frames move a state forward");
        self.lsn = lsn;
        match event {
            Event::Rollout(entry) => self.apply_rollout(entry),
            Event::Retire { victims, reason, unused } => {
                self.count_retired(*reason, victims.len() as u64, *unused);
            }
            Event::RetireLine { created_before, reason, count, unused } => {
                self.count_retired(*reason, *count, *unused);
                // What an older line with a lower step ends, this one ends too.
                self.retire_lines.retain(|line| line.created_before > *created_before);
                self.retire_lines.push(RetireLine { created_before: *created_before, lsn, reason: *reason });
            }
            Event::Advance { clock, version, label, step } => {
                let clock = match clock {
                    Clock::Ref => &mut self.ref_clock,
                    Clock::KlRef => &mut self.kl_clock,
                };
                Arc::make_mut(clock).follow(*version, *label);
                if let Some(step) = step {
                    self.act(*step);
                }
            }
            Event::Rewind { step, ref_version, kl_version } => {
                Arc::make_mut(&mut self.ref_clock).restart(*ref_version);
                Arc::make_mut(&mut self.kl_clock).restart(*kl_version);
                self.clock = Some(*step);
                // What the sweeps computed is of an abandoned version: they begin anew.
                self.sweeps = Arc::default();
            }
            Event::Cursor(cursor) => self.cursor = Some(Arc::clone(cursor)),
            Event::Sweep { name, progress } => self.apply_sweep(name, *progress),
            Event::Tally { counters, id_ceiling, .. } => {
                self.counters = *counters;
                self.id_ceiling = self.id_ceiling.max(*id_ceiling);
            }
            Event::Ignored => {}
        }
    }

    /// How far the sweep of this name has come, where one is known.
    pub(crate) fn sweep(&self, name: &str) -> Option<SweepProgress> {
        self.sweeps.iter().find(|sweep| sweep.name == name).map(|sweep| sweep.progress)
    }

    fn apply_sweep(&mut self, name: &str, progress: Option<SweepProgress>) {
        let sweeps = Arc::make_mut(&mut self.sweeps);
        let place = sweeps.iter().position(|sweep| sweep.name == name);
        match (place, progress) {
            (Some(place), Some(progress)) => sweeps[place].progress = progress,
            (Some(place), None) => drop(sweeps.remove(place)),
            (None, Some(progress)) => {
                if sweeps.len() >= SWEEPS_MAX
                    && let Some(oldest) = oldest_finished(sweeps)
                {
                    sweeps.remove(oldest);
                }
                sweeps.push(SweepRecord { name: name.to_owned(), progress });
            }
            (None, None) => {}
        }
    }

    fn count_retired(&mut self, reason: u16, count: u64, unused: u64) {
        if let Some(total) = self.counters.retired.get_mut(usize::from(reason)) {
            *total = total.saturating_add(count);
        }
        self.counters.retired_unused = self.counters.retired_unused.saturating_add(unused);
    }

    fn apply_rollout(&mut self, entry: &FrameEntry) {
        if matches!(entry.kind, EntryKind::Insert | EntryKind::Piece) {
            // What is still being generated counts once it is whole.
            let is_whole = u64::from(entry.kind == EntryKind::Insert);
            self.counters.inserted = self.counters.inserted.saturating_add(is_whole);
            // Ids handed out later lie above every counted one that was used.
            if !entry.id.is_keyed() {
                self.id_ceiling = self.id_ceiling.max(entry.id.get().saturating_add(1));
            }
        } else {
            self.counters.computed = self.counters.computed.saturating_add(1);
            // A recompute's born step is the step that its plan was made at: the trainer acted there.
            self.act(entry.born_step);
        }
    }

    fn act(&mut self, step: u64) {
        self.clock = Some(self.clock.map_or(step, |clock| clock.max(step)));
    }
}

/// The finished sweep that began first: it makes room for another.
pub(crate) fn oldest_finished(sweeps: &[SweepRecord]) -> Option<usize> {
    let finished = (0..).zip(sweeps).filter(|(_, sweep)| sweep.progress.at.is_none());
    finished.min_by_key(|(_, sweep)| sweep.progress.began).map(|(place, _)| place)
}

/// What an advance under a label does to a version clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// This new version is issued.
    Version(u64),
    /// The label is the current one: nothing happens.
    Current(u64),
}

/// What the next advance of `clock` gives: the same label again is a no-op, an older one is refused.
pub(crate) fn next_version(clock: &VersionClock, label: Option<u64>) -> Result<Next> {
    if let (Some(label), Some(last)) = (label, clock.labels.last()) {
        if label == last.label && last.version == clock.current {
            return Ok(Next::Current(clock.current));
        }
        if label <= last.label {
            return Err(Error::invalid(format!(
                "label {label} is not above label {} of version {}; labels only grow",
                last.label, last.version
            )));
        }
    }
    Ok(Next::Version(clock.next))
}
