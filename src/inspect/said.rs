//! One frame of the log, as it is told: where it stands, and what it says.
//!
//! Plain values, made from what `log` decoded.

use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::format::kind::FrameFlags;
use crate::format::manifest::SweepProgress;
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::log::check::ScannedFrame;
use crate::log::event::{Clock, Event, PARTIAL_ENDED};
use crate::reason::Reason;

/// One whole frame of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFrame {
    /// The number of its segment, as in the name of the file.
    pub segment: u32,
    /// Where it begins in the segment's file, in bytes.
    pub offset: u64,
    /// Its length in bytes: header, descriptor, arrays and the zeros between them.
    pub bytes: u64,
    /// Its number. A frame that compaction copied keeps the one that it had.
    pub lsn: Lsn,
    /// The kind's name, as in the document of the format: `insert`, `update`, `retire`, `retire line`, ….
    pub kind: &'static str,
    /// Frames in its batch, itself included.
    pub frames_in_batch: u32,
    /// Whether compaction copied it here.
    pub is_moved: bool,
    /// The rollout that it belongs to; `None` where it is of the store as a whole.
    pub rollout: Option<RolloutId>,
    /// The rollout's incarnation: the number of its insert, or of its first piece.
    pub incarnation: Option<Lsn>,
    /// What it says.
    pub said: Said,
}

/// What a frame says, without its arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Said {
    /// A rollout came to be.
    Insert {
        /// The step at which it was sampled.
        created_step: u64,
        /// The step from which its old log-probs count as fresh.
        born_step: u64,
        /// The version of its old log-probs; `None` where it came without.
        ref_version: Option<u64>,
        /// The version of its KL reference log-probs; `None` where it came without.
        kl_ref_version: Option<u64>,
        /// Whether it came with log-probs of the sampler.
        has_sampler_logps: bool,
        /// Prompt and completion tokens.
        token_count: u32,
        /// The rollouts that share its prompt.
        group: Option<u64>,
    },
    /// Its old log-probs were computed again.
    OldLogps {
        /// The step from which they count as fresh.
        born_step: u64,
        /// The version that made them.
        ref_version: u64,
    },
    /// Its KL reference log-probs were computed again.
    KlRefLogps {
        /// The version of the KL reference that made them.
        kl_ref_version: u64,
    },
    /// A part of a rollout that is still being generated.
    Piece {
        /// The step at which it was begun.
        created_step: u64,
        /// Completion tokens in front of it.
        tokens_before: u64,
        /// Its own tokens, those of the prompt where it is the first one.
        token_count: u32,
    },
    /// Listed rollouts ended.
    Retire {
        /// The rollouts with the incarnations that ended.
        rollouts: Vec<(RolloutId, Lsn)>,
        /// Why; `None` for a reason of a newer version.
        reason: Option<Reason>,
        /// How many of them nobody had asked for.
        unused: u64,
    },
    /// The pieces of listed rollouts ended: they became rollouts, or were given up.
    EndPieces {
        /// The rollouts with their first pieces.
        rollouts: Vec<(RolloutId, Lsn)>,
    },
    /// Every rollout that was created below a step and inserted before this frame ended.
    RetireLine {
        /// The step.
        created_before: u64,
        /// Why; `None` for a reason of a newer version.
        reason: Option<Reason>,
        /// How many ended.
        rollouts: u64,
        /// How many of them nobody had asked for.
        unused: u64,
    },
    /// A new ref version: older old log-probs became stale.
    Advance {
        /// The version.
        ref_version: u64,
        /// The trainer's own name for it.
        label: Option<u64>,
        /// The step at which the trainer acted.
        step: Option<u64>,
    },
    /// A new version of the KL reference.
    AdvanceKlRef {
        /// The version.
        kl_ref_version: u64,
        /// The trainer's own name for it.
        label: Option<u64>,
    },
    /// The trainer went back: nothing computed before is fresh any more.
    Rewind {
        /// The step that it went back to.
        step: u64,
        /// The ref version from there on.
        ref_version: u64,
        /// The KL reference's version from there on.
        kl_ref_version: u64,
    },
    /// The trainer's own resume position.
    Cursor {
        /// Its length in bytes.
        bytes: u64,
    },
    /// How far a sweep has come.
    Sweep {
        /// The sweep's name.
        name: String,
        /// The step and version that it last computed with; `None` where it is forgotten.
        at: Option<(u64, u64)>,
        /// What it handed out last; `None` where it is finished or forgotten.
        last: Option<RolloutId>,
    },
    /// Counters, and the rollouts that were asked for since the last such frame.
    Tally {
        /// The rollouts.
        used: Vec<RolloutId>,
    },
    /// Nothing that this version knows.
    Nothing,
}

impl LogFrame {
    pub(super) fn new(segment: SegmentId, frame: ScannedFrame) -> Self {
        let ScannedFrame { header, offset, event } = frame;
        let of_rollout = header.kind.is_rollout();
        Self {
            segment: segment.0,
            offset,
            bytes: header.frame_len(),
            lsn: header.lsn,
            kind: header.kind.name(),
            frames_in_batch: header.frames_in_batch,
            is_moved: header.flags.contains(FrameFlags::MOVED),
            rollout: of_rollout.then_some(header.rollout),
            incarnation: of_rollout.then_some(header.insert_lsn),
            said: Said::new(event),
        }
    }

    /// Every rollout that the frame names: its own, those that it retires, those that it says to have been asked for.
    #[must_use]
    pub fn rollouts(&self) -> Vec<RolloutId> {
        match &self.said {
            Said::Retire { rollouts, .. } | Said::EndPieces { rollouts } => {
                rollouts.iter().map(|(id, _)| *id).collect()
            }
            Said::Tally { used } => used.clone(),
            _ => self.rollout.into_iter().collect(),
        }
    }
}

impl Said {
    fn new(event: Event) -> Self {
        match event {
            Event::Rollout(entry) => Self::of_rollout(&entry),
            Event::Retire { victims, reason, unused } => {
                let rollouts = victims.into_iter().map(|victim| (victim.id, victim.insert_lsn)).collect();
                match reason {
                    PARTIAL_ENDED => Self::EndPieces { rollouts },
                    _ => Self::Retire { rollouts, reason: reason_of(reason), unused },
                }
            }
            Event::RetireLine { created_before, reason, count, unused } => {
                Self::RetireLine { created_before, reason: reason_of(reason), rollouts: count, unused }
            }
            Event::Advance { clock: Clock::Ref, version, label, step } => {
                Self::Advance { ref_version: version, label, step }
            }
            Event::Advance { clock: Clock::KlRef, version, label, .. } => {
                Self::AdvanceKlRef { kl_ref_version: version, label }
            }
            Event::Rewind { step, ref_version, kl_version } => {
                Self::Rewind { step, ref_version, kl_ref_version: kl_version }
            }
            Event::Cursor(cursor) => Self::Cursor { bytes: cursor.len() as u64 },
            Event::Sweep { name, progress } => {
                let at = |progress: &SweepProgress| (progress.step, progress.version);
                let last = progress.and_then(|progress| progress.at).map(|at| RolloutId::new(at.id));
                Self::Sweep { name, at: progress.as_ref().map(at), last }
            }
            Event::Tally { used, .. } => Self::Tally { used },
            Event::Ignored => Self::Nothing,
        }
    }

    fn of_rollout(entry: &FrameEntry) -> Self {
        let where_has = |column, version| entry.has.contains(column).then_some(version);
        match entry.kind {
            EntryKind::Insert => Self::Insert {
                created_step: entry.created_step,
                born_step: entry.born_step,
                ref_version: where_has(Has::OLD, entry.ref_version),
                kl_ref_version: where_has(Has::KL_REF, entry.kl_version),
                has_sampler_logps: entry.has.contains(Has::SAMPLER),
                token_count: entry.token_count,
                group: entry.group,
            },
            EntryKind::OldLogps => Self::OldLogps { born_step: entry.born_step, ref_version: entry.ref_version },
            EntryKind::KlRefLogps => Self::KlRefLogps { kl_ref_version: entry.kl_version },
            EntryKind::Piece => Self::Piece {
                created_step: entry.created_step,
                tokens_before: entry.ref_version,
                token_count: entry.token_count,
            },
        }
    }
}

/// The reason with this number on disk.
pub(super) fn reason_of(code: u16) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| reason.code() == code)
}
