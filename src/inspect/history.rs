//! One rollout through the log: each frame of it, and what became of what the frame brought.
//!
//! Always true:
//! - H1. A fate follows from frames and from the manifest's retire lines alone, by the rules that a recovery has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::Result;
use crate::format::manifest::RetireLine;
use crate::ids::{Lsn, RolloutId};
use crate::inspect::log::{Log, LogItem};
use crate::inspect::said::{LogFrame, Said, reason_of};
use crate::inspect::verify::Finding;
use crate::reason::Reason;
use crate::recovery::manifests;

/// A rollout's frames, all its incarnations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The rollout.
    pub rollout: RolloutId,
    /// Its frames, and those that ended it, by number; copies of one frame by segment.
    pub frames: Vec<HistoryFrame>,
    /// Incarnations that frames tell of and whose insert or first piece is not in the log: compaction gave it back, or it is
    /// damaged.
    pub incomplete: Vec<Lsn>,
    /// Places of the log that could not be read; a frame of the rollout may have stood there.
    pub damage: Vec<Finding>,
}

/// One frame of a rollout's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFrame {
    /// The frame. One that lists rollouts lists this one alone.
    pub frame: LogFrame,
    /// The incarnation that it brought to, or ended; the number of its insert or first piece.
    pub incarnation: Lsn,
    /// What became of it.
    pub fate: Fate,
}

/// What became of what a frame brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// Readers get it.
    Served,
    /// Readers get it apart from log-probs that frame `by` brought newer ones of.
    PartlySuperseded {
        /// The first frame with newer ones.
        by: Lsn,
    },
    /// Log-probs that were computed again.
    Superseded {
        /// The frame with the next newer ones.
        by: Lsn,
    },
    /// Its incarnation ended.
    Ended {
        /// The frame that ended it, where the log or the manifest still tells.
        by: Option<Lsn>,
        /// Why, where a reason is known.
        reason: Option<Reason>,
    },
    /// Compaction copied it: the copy in this segment stands for it.
    Moved {
        /// The segment.
        to: u32,
    },
    /// It is itself the end of the incarnation.
    End,
}

/// Every frame of a rollout in the log of the store or checkpoint in `dir`. Takes no lock.
///
/// # Why is my rollout gone?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, Reason, RolloutStore, inspect};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(7, 0).old_logps(&[-0.5][..], 0))?;
/// let end = store.retire(&[7.into()], Reason::Stale)?;
/// let history = inspect::history(dir.path().join("rollouts"), 7.into())?;
/// let fate = history.frames[0].fate;
/// assert!(matches!(fate, inspect::Fate::Ended { reason: Some(Reason::Stale), .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`log`](crate::inspect::log()). A rollout that the log does not tell of has no frames.
pub fn history(dir: impl AsRef<Path>, rollout: RolloutId) -> Result<History> {
    history_on(&OsDisk, dir.as_ref(), rollout)
}

fn history_on(disk: &dyn Disk, dir: &Path, rollout: RolloutId) -> Result<History> {
    // Before the log is read: a line that comes later has its frame there.
    let lines = manifests::newest(disk, dir)?.map(|manifest| manifest.state.retire_lines).unwrap_or_default();
    let mut collected = Collected::default();
    let mut damage = Vec::new();
    for item in Log::open(disk, dir)?.of_rollout(rollout) {
        match item? {
            LogItem::Frame(frame) => collected.add(frame, rollout),
            LogItem::Damage(finding) => damage.push(finding),
        }
    }
    let (frames, incomplete) = collected.tell(&lines);
    Ok(History { rollout, frames, incomplete, damage })
}

/// What was found, before anything is known of fates.
#[derive(Default)]
struct Collected {
    /// The rollout's own frames and the ends of its incarnations, each with the incarnation.
    frames: Vec<(Lsn, LogFrame)>,
    /// Ends by a line, whose incarnations are known at the end alone.
    lines: Vec<LogFrame>,
}

/// How an incarnation ended.
#[derive(Clone, Copy)]
struct Ending {
    by: Option<Lsn>,
    reason: Option<Reason>,
}

impl Collected {
    fn add(&mut self, mut frame: LogFrame, rollout: RolloutId) {
        match &mut frame.said {
            Said::Retire { rollouts, .. } | Said::EndPieces { rollouts } => {
                rollouts.retain(|(id, _)| *id == rollout);
                // A rollout that ends and comes again within a batch does so in frames of their own.
                if let Some((_, incarnation)) = rollouts.first() {
                    self.frames.push((*incarnation, frame));
                }
            }
            Said::RetireLine { .. } => self.lines.push(frame),
            _ => {
                if let Some(incarnation) = frame.incarnation.filter(|_| frame.rollout == Some(rollout)) {
                    self.frames.push((incarnation, frame));
                }
            }
        }
    }

    fn tell(mut self, manifest_lines: &[RetireLine]) -> (Vec<HistoryFrame>, Vec<Lsn>) {
        let incarnations: BTreeSet<Lsn> = self.frames.iter().map(|(incarnation, _)| *incarnation).collect();
        let endings: BTreeMap<Lsn, Ending> = incarnations
            .iter()
            .filter_map(|incarnation| Some((*incarnation, self.ending(*incarnation, &incarnations, manifest_lines)?)))
            .collect();
        for line in std::mem::take(&mut self.lines) {
            let ended = endings.iter().filter(|(_, ending)| ending.by == Some(line.lsn));
            self.frames.extend(ended.map(|(incarnation, _)| (*incarnation, line.clone())));
        }
        self.frames.sort_by_key(|(incarnation, frame)| (frame.lsn, frame.segment, frame.offset, *incarnation));
        let begun = |incarnation: &Lsn| self.frames.iter().any(|(_, frame)| frame.lsn == *incarnation);
        let incomplete = incarnations.iter().filter(|incarnation| !begun(incarnation)).copied().collect();
        let fates: Vec<Fate> =
            self.frames.iter().map(|(incarnation, frame)| self.fate(*incarnation, frame, &endings)).collect();
        let told = self.frames.into_iter().zip(fates);
        let told = told.map(|((incarnation, frame), fate)| HistoryFrame { frame, incarnation, fate });
        (told.collect(), incomplete)
    }

    /// How an incarnation ended; `None` where it is alive.
    fn ending(&self, incarnation: Lsn, all: &BTreeSet<Lsn>, manifest_lines: &[RetireLine]) -> Option<Ending> {
        let of_it = || self.frames.iter().filter(|(of, _)| *of == incarnation).map(|(_, frame)| frame);
        let listed = of_it().find_map(|frame| match frame.said {
            Said::Retire { reason, .. } => Some(Ending { by: Some(frame.lsn), reason }),
            Said::EndPieces { .. } => Some(Ending { by: Some(frame.lsn), reason: None }),
            _ => None,
        });
        let created = of_it().find_map(|frame| match frame.said {
            Said::Insert { created_step, .. } => Some(created_step),
            _ => None,
        });
        let is_below = |before: u64, lsn: Lsn| incarnation < lsn && created.is_some_and(|created| created < before);
        let by_line = || {
            let logged = self.lines.iter().filter_map(|line| match line.said {
                Said::RetireLine { created_before, reason, .. } => Some((created_before, line.lsn, reason)),
                _ => None,
            });
            let kept = manifest_lines.iter().map(|line| (line.created_before, line.lsn, reason_of(line.reason)));
            let ended = logged.chain(kept).filter(|(before, lsn, _)| is_below(*before, *lsn));
            ended.min_by_key(|(_, lsn, _)| *lsn).map(|(_, lsn, reason)| Ending { by: Some(lsn), reason })
        };
        // A later incarnation begins only after the one before has ended, whether or not a record of that is left.
        let superseded = || all.last().filter(|last| **last > incarnation).map(|_| Ending { by: None, reason: None });
        listed.or_else(by_line).or_else(superseded)
    }

    fn fate(&self, incarnation: Lsn, frame: &LogFrame, endings: &BTreeMap<Lsn, Ending>) -> Fate {
        if matches!(frame.said, Said::Retire { .. } | Said::EndPieces { .. } | Said::RetireLine { .. }) {
            return Fate::End;
        }
        let copies = self.frames.iter().map(|(_, other)| other).filter(|other| other.lsn == frame.lsn);
        let newest = copies.filter(|copy| copy.is_moved).map(|copy| copy.segment).max();
        if let Some(to) = newest.filter(|newest| *newest != frame.segment) {
            return Fate::Moved { to };
        }
        if let Some(Ending { by, reason }) = endings.get(&incarnation) {
            return Fate::Ended { by: *by, reason: *reason };
        }
        let newer = |is_of_kind: fn(&Said) -> bool| {
            let others = self.frames.iter().filter(|(of, _)| *of == incarnation).map(|(_, other)| other);
            others.filter(|other| other.lsn > frame.lsn && is_of_kind(&other.said)).map(|other| other.lsn).min()
        };
        let newer_old = || newer(|said| matches!(said, Said::OldLogps { .. }));
        let newer_kl = || newer(|said| matches!(said, Said::KlRefLogps { .. }));
        match frame.said {
            Said::OldLogps { .. } => newer_old().map_or(Fate::Served, |by| Fate::Superseded { by }),
            Said::KlRefLogps { .. } => newer_kl().map_or(Fate::Served, |by| Fate::Superseded { by }),
            Said::Insert { ref_version, kl_ref_version, .. } => {
                let by = ref_version.and_then(|_| newer_old()).into_iter();
                let by = by.chain(kl_ref_version.and_then(|_| newer_kl())).min();
                by.map_or(Fate::Served, |by| Fate::PartlySuperseded { by })
            }
            _ => Fate::Served,
        }
    }
}
