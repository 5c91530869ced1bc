//! What a frame says, without its arrays: one value that a commit, a scan and a replay share.
//!
//! Always true:
//! - V1. Decoding the frame that an event was encoded to gives the event again, so that what a commit publishes and what
//!   recovery finds are the same.

use std::borrow::Cow;
use std::sync::Arc;

use crate::format::dtype::DType;
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::format::fault::Fault;
use crate::format::frame::FrameHeader;
use crate::format::kind::{FrameFlags, FrameKind};
use crate::format::manifest::Counters;
use crate::format::meta::{
    self, ArchivedControlMeta, ArchivedRolloutMeta, ClockCode, ColumnMeta, ControlMeta, RolloutMeta, column_code,
};
use crate::ids::{Lsn, RolloutId};

/// Which version clock an advance moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The ref version: π_old.
    Ref,
    /// The KL reference model's version.
    KlRef,
}

/// One incarnation of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Incarnation {
    pub(crate) id: RolloutId,
    pub(crate) insert_lsn: Lsn,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A rollout came to be, or its log-probs were computed again.
    Rollout(FrameEntry),
    /// Rollouts ended.
    Retire { victims: Vec<Incarnation>, reason: u16, unused: u64 },
    /// A version clock moved on; the trainer acted at `step`.
    Advance { clock: Clock, version: u64, label: Option<u64>, step: Option<u64> },
    /// The trainer's own resume position.
    Cursor(Arc<[u8]>),
    /// Totals that no other frame carries, and the rollouts that were asked for since the last one.
    Tally { counters: Counters, id_ceiling: u64, used: Vec<RolloutId> },
    /// A frame that this version may pass over.
    Ignored,
}

/// A frame on its way out: everything but its place.
#[derive(Debug)]
pub(crate) struct NewFrame<'a> {
    pub(crate) kind: FrameKind,
    pub(crate) flags: FrameFlags,
    pub(crate) rollout: RolloutId,
    pub(crate) insert_lsn: Lsn,
    pub(crate) born_step: u64,
    pub(crate) ref_version: u64,
    /// The arrays, each written at the next 64-byte boundary, in the order of the descriptor's columns.
    pub(crate) arrays: Vec<Cow<'a, [u8]>>,
    pub(crate) meta: Cow<'a, [u8]>,
    pub(crate) meta_crc: u32,
}

impl<'a> NewFrame<'a> {
    /// The frame of a rollout's entry.
    pub(crate) fn of_rollout(entry: &FrameEntry, arrays: Vec<Cow<'a, [u8]>>, meta: Cow<'a, [u8]>) -> Self {
        let kind = if entry.kind == EntryKind::Insert { FrameKind::Insert } else { FrameKind::Update };
        Self {
            kind,
            flags: FrameFlags::default(),
            rollout: entry.id,
            insert_lsn: entry.insert_lsn,
            born_step: entry.born_step,
            ref_version: entry.ref_version,
            arrays,
            meta_crc: crc32fast::hash(&meta),
            meta,
        }
    }
}

/// The columns of a control frame under construction.
#[derive(Default)]
struct ControlArrays {
    columns: Vec<ColumnMeta>,
    arrays: Vec<Cow<'static, [u8]>>,
    offset: u64,
}

impl ControlArrays {
    fn push(&mut self, code: u16, dtype: DType, bytes: Vec<u8>) {
        self.columns.push(ColumnMeta::new(code, dtype, 0, self.offset, &bytes));
        self.offset += (bytes.len() as u64).next_multiple_of(64);
        self.arrays.push(Cow::Owned(bytes));
    }

    fn push_u64s(&mut self, code: u16, values: impl Iterator<Item = u64>) {
        let values: Vec<u64> = values.collect();
        self.push(code, DType::U64, bytemuck::cast_slice(&values).to_vec());
    }
}

impl Event {
    /// The frame that says this; `None` for rollouts, whose frames hold columns that an event does not.
    pub(crate) fn encode(&self) -> Option<NewFrame<'static>> {
        let mut arrays = ControlArrays::default();
        let (kind, mut meta) = match self {
            Self::Rollout(_) | Self::Ignored => return None,
            Self::Retire { victims, reason, unused } => {
                arrays.push_u64s(column_code::RETIRED_IDS, victims.iter().map(|victim| victim.id.get()));
                arrays.push_u64s(column_code::INCARNATIONS, victims.iter().map(|victim| victim.insert_lsn.get()));
                let meta = ControlMeta { reason: *reason, unused_count: *unused, ..ControlMeta::default() };
                (FrameKind::Retire, meta)
            }
            Self::Advance { clock, version, label, step } => {
                let clock = match clock {
                    Clock::Ref => ClockCode::REF,
                    Clock::KlRef => ClockCode::KL_REF,
                };
                let mut meta = ControlMeta { version: *version, clock, ..ControlMeta::default() };
                meta.set_label(*label);
                meta.set_step(*step);
                (FrameKind::Advance, meta)
            }
            Self::Cursor(cursor) => {
                arrays.push(column_code::CURSOR, DType::U8, cursor.to_vec());
                (FrameKind::Cursor, ControlMeta::default())
            }
            Self::Tally { counters, id_ceiling, used } => {
                arrays.push_u64s(column_code::USED_IDS, used.iter().map(|id| id.get()));
                let counters = counters.to_vec();
                let meta = ControlMeta { counters, id_ceiling: *id_ceiling, ..ControlMeta::default() };
                (FrameKind::State, meta)
            }
        };
        meta.columns = arrays.columns;
        let meta = meta::encode_control(&meta);
        Some(NewFrame {
            kind,
            flags: FrameFlags::default(),
            rollout: RolloutId::new(0),
            insert_lsn: Lsn::NONE,
            born_step: 0,
            ref_version: 0,
            arrays: arrays.arrays,
            meta_crc: crc32fast::hash(&meta),
            meta: Cow::Owned(meta),
        })
    }

    /// What a frame says. `arrays` is the frame's arrays region; only control frames look into it.
    pub(crate) fn decode(header: &FrameHeader, offset_units: u32, meta: &[u8], arrays: &[u8]) -> Result<Self, Fault> {
        match header.kind {
            FrameKind::Insert | FrameKind::Update => {
                let meta = meta::rollout_meta(meta, header.body_len)?;
                Ok(Self::Rollout(rollout_entry(header, offset_units, meta)?))
            }
            FrameKind::Retire => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let ids = u64s(meta, column_code::RETIRED_IDS, arrays)?;
                let incarnations = u64s(meta, column_code::INCARNATIONS, arrays)?;
                if ids.len() != incarnations.len() {
                    return Err(Fault::damaged("retired incarnations", 0, ids.len(), incarnations.len()));
                }
                let victims = ids.into_iter().zip(incarnations);
                let victims = victims.map(|(id, lsn)| Incarnation { id: RolloutId::new(id), insert_lsn: Lsn::new(lsn) });
                let (reason, unused) = (meta.reason.to_native(), meta.unused_count.to_native());
                Ok(Self::Retire { victims: victims.collect(), reason, unused })
            }
            FrameKind::Advance => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let clock = match meta.clock {
                    ClockCode::REF => Clock::Ref,
                    ClockCode::KL_REF => Clock::KlRef,
                    other => return Err(Fault::too_new("clock", other)),
                };
                Ok(Self::Advance { clock, version: meta.version.to_native(), label: meta.label(), step: meta.step() })
            }
            FrameKind::Cursor => {
                let meta = meta::control_meta(meta, header.body_len)?;
                Ok(Self::Cursor(array(meta, column_code::CURSOR, arrays)?.into()))
            }
            FrameKind::State => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let counters: Vec<u64> = meta.counters.iter().map(|count| count.to_native()).collect();
                let used = u64s(meta, column_code::USED_IDS, arrays)?.into_iter().map(RolloutId::new).collect();
                Ok(Self::Tally { counters: Counters::from_slice(&counters)?, id_ceiling: meta.id_ceiling.to_native(), used })
            }
            FrameKind::Pad | FrameKind::Ignorable(_) => Ok(Self::Ignored),
            FrameKind::RetireLine | FrameKind::Rewind | FrameKind::Sweep | FrameKind::Piece | FrameKind::Finish => {
                Err(Fault::too_new("frame kind", header.kind.name()))
            }
        }
    }
}

fn rollout_entry(header: &FrameHeader, offset_units: u32, meta: &ArchivedRolloutMeta) -> Result<FrameEntry, Fault> {
    let has_column = |code| meta.column(code).is_some();
    let kind = match header.kind {
        FrameKind::Insert => EntryKind::Insert,
        _ if has_column(column_code::OLD_LOGPS) => EntryKind::OldLogps,
        _ if has_column(column_code::KL_REF_LOGPS) => EntryKind::KlRefLogps,
        _ => return Err(Fault::damaged("update", 0, "a log-prob column", "none")),
    };
    let lens = |code| meta.column(code).map_or(0, |column| column.len);
    Ok(FrameEntry {
        kind,
        id: header.rollout,
        lsn: header.lsn,
        insert_lsn: header.insert_lsn,
        offset_units,
        born_step: header.born_step,
        ref_version: header.ref_version,
        created_step: meta.created_step.to_native(),
        kl_version: meta.kl_version.to_native(),
        token_count: if kind == EntryKind::Insert { token_count(lens) } else { 0 },
        has: has(has_column).with(if header.flags.contains(FrameFlags::USED) { Has::USED } else { Has::default() }),
    })
}

/// Which log-prob columns there are.
pub(crate) fn has(column: impl Fn(u16) -> bool) -> Has {
    let columns = [
        (column_code::OLD_LOGPS, Has::OLD),
        (column_code::SAMPLER_LOGPS, Has::SAMPLER),
        (column_code::KL_REF_LOGPS, Has::KL_REF),
    ];
    columns.iter().filter(|(code, _)| column(*code)).fold(Has::default(), |has, (_, flag)| has.with(*flag))
}

/// Tokens that a forward pass over a rollout costs: the prompt's, and the completion's by whichever column tells them.
pub(crate) fn token_count(len: impl Fn(u16) -> u32) -> u32 {
    let completion = [column_code::COMPLETION_IDS, column_code::OLD_LOGPS, column_code::SAMPLER_LOGPS];
    let completion = completion.iter().map(|code| len(*code)).max().unwrap_or(0);
    len(column_code::PROMPT_IDS).saturating_add(completion)
}

/// The entry of an insert or update about to be written, with its place still to be told.
pub(crate) fn entry_of(kind: EntryKind, id: RolloutId, meta: &RolloutMeta) -> FrameEntry {
    let len = |code| meta.columns.iter().find(|column| column.column == code).map_or(0, |column| column.len);
    FrameEntry {
        kind,
        id,
        lsn: Lsn::NONE,
        insert_lsn: Lsn::NONE,
        offset_units: 0,
        born_step: meta.created_step,
        ref_version: 0,
        created_step: meta.created_step,
        kl_version: meta.kl_version,
        token_count: if kind == EntryKind::Insert { token_count(len) } else { 0 },
        has: has(|code| meta.columns.iter().any(|column| column.column == code)),
    }
}

fn array<'a>(meta: &ArchivedControlMeta, code: u16, arrays: &'a [u8]) -> Result<&'a [u8], Fault> {
    let Some(column) = meta.column(code) else { return Ok(&[]) };
    let range = usize::try_from(column.range.start).ok().zip(usize::try_from(column.range.end).ok());
    range
        .and_then(|(start, end)| arrays.get(start..end))
        .ok_or_else(|| Fault::damaged("control column", column.range.start, "within its frame", "beyond it"))
}

fn u64s(meta: &ArchivedControlMeta, code: u16, arrays: &[u8]) -> Result<Vec<u64>, Fault> {
    let bytes = array(meta, code, arrays)?;
    let (values, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Fault::damaged("control column", 0, "whole u64 values", rest.len()));
    }
    Ok(values.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}
