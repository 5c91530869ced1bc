//! What a frame says, without its arrays: one value that a commit, a scan and a replay share.
//!
//! Always true:
//! - V1. Decoding the frame that an event was encoded to gives the event again, so that what a commit publishes and what
//!   recovery finds are the same.

use std::borrow::Cow;
use std::sync::Arc;

use crate::format::counters::Counters;
use crate::format::entry::{EntryKind, FrameEntry, Has};
use crate::format::fault::Fault;
use crate::format::frame::{FRAME_ALIGN, FrameHeader};
use crate::format::kind::{FrameFlags, FrameKind};
use crate::format::manifest::{SweepPosition, SweepProgress};
use crate::format::meta::{
    self, ArchivedControlMeta, ArchivedRolloutMeta, ColumnCode, ColumnMeta, ColumnRef, ControlColumn, ControlMeta,
    RolloutMeta,
};
use crate::ids::{Lsn, RolloutId};
use crate::limits::NUMBER_MAX;

/// Which version clock an advance moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The ref version: `π_old`.
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
    /// Rollouts ended, or, for the reason [`PARTIAL_ENDED`], what was still being generated.
    Retire { victims: Vec<Incarnation>, reason: u16, unused: u64 },
    /// Every rollout that was created below a step and inserted before this frame ended: so many, of which nobody had asked
    /// for `unused`.
    RetireLine { created_before: u64, reason: u16, count: u64, unused: u64 },
    /// A version clock moved on; the trainer acted at `step`.
    Advance { clock: Clock, version: u64, label: Option<u64>, step: Option<u64> },
    /// The trainer went back to `step`: nothing computed before is fresh any more.
    Rewind { step: u64, ref_version: u64, kl_version: u64 },
    /// The trainer's own resume position.
    Cursor(Arc<[u8]>),
    /// How far the sweep of this name has come; `None` where it is forgotten.
    Sweep { name: String, progress: Option<SweepProgress> },
    /// Totals that no other frame carries, and the rollouts that were asked for since the last one.
    Tally { counters: Counters, id_ceiling: u64, used: Vec<RolloutId> },
    /// A frame that this version may pass over.
    Ignored,
}

/// The reason of a Retire frame that ends pieces: they became a rollout, or were given up. No counter counts it.
pub(crate) const PARTIAL_ENDED: u16 = u16::MAX;

impl Event {
    /// Rows that its frame takes in a footer.
    pub(crate) fn footer_rows(&self) -> u64 {
        match self {
            Self::Rollout(_) => 1,
            Self::Retire { victims, .. } => victims.len() as u64,
            Self::Tally { used, .. } => used.len() as u64,
            Self::RetireLine { .. }
            | Self::Advance { .. }
            | Self::Rewind { .. }
            | Self::Cursor(_)
            | Self::Sweep { .. }
            | Self::Ignored => 0,
        }
    }
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
    pub(crate) fn of_rollout(
        entry: &FrameEntry,
        arrays: Vec<Cow<'a, [u8]>>,
        meta: Cow<'a, [u8]>,
        meta_crc: u32,
    ) -> Self {
        let kind = match entry.kind {
            EntryKind::Insert => FrameKind::Insert,
            EntryKind::OldLogps | EntryKind::KlRefLogps => FrameKind::Update,
            EntryKind::Piece => FrameKind::Piece,
        };
        Self {
            kind,
            flags: if entry.has.contains(Has::USED) { FrameFlags::USED } else { FrameFlags::default() },
            rollout: entry.id,
            insert_lsn: entry.insert_lsn,
            born_step: entry.born_step,
            ref_version: entry.ref_version,
            arrays,
            meta,
            meta_crc,
        }
    }
}

/// The arrays of a control frame under construction.
#[derive(Default)]
struct ControlArrays {
    columns: Vec<ColumnMeta>,
    arrays: Vec<Cow<'static, [u8]>>,
    offset_units: u32,
}

impl ControlArrays {
    fn push(&mut self, column: ControlColumn, bytes: Vec<u8>) {
        let len = bytes.len() / if column.dtype_code() == ControlColumn::DTYPE_U64 { size_of::<u64>() } else { 1 };
        self.columns.push(ColumnMeta {
            column: column.code(),
            dtype: column.dtype_code(),
            provenance: 0,
            offset_units: self.offset_units,
            len: count(len),
            crc: crc32fast::hash(&bytes),
        });
        self.offset_units += units(bytes.len());
        self.arrays.push(Cow::Owned(bytes));
    }

    fn push_u64s(&mut self, column: ControlColumn, values: impl Iterator<Item = u64>) {
        self.push(column, values.flat_map(u64::to_le_bytes).collect());
    }
}

/// A number of values or frames; batches are checked against their limits before they come here.
pub(crate) fn count(len: usize) -> u32 {
    debug_assert!(u32::try_from(len).is_ok(), "limits keep counts within 32 bits");
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Length of a frame in 64-byte units; limits keep it within 32 bits.
pub(crate) fn frame_units(bytes: u64) -> u32 {
    u32::try_from(bytes / FRAME_ALIGN).unwrap_or(u32::MAX)
}

/// Units of 64 bytes that an array takes.
pub(crate) fn units(bytes: usize) -> u32 {
    u32::try_from((bytes as u64).div_ceil(FRAME_ALIGN)).unwrap_or(u32::MAX)
}

impl Event {
    /// The frame that says this; `None` for rollouts, whose frames hold columns that an event does not.
    pub(crate) fn encode(&self) -> Option<NewFrame<'static>> {
        let mut arrays = ControlArrays::default();
        let (kind, mut meta) = match self {
            Self::Rollout(_) | Self::Ignored => return None,
            Self::Retire { victims, reason, unused } => {
                arrays.push_u64s(ControlColumn::RetiredIds, victims.iter().map(|victim| victim.id.get()));
                arrays.push_u64s(ControlColumn::Incarnations, victims.iter().map(|victim| victim.insert_lsn.get()));
                let (present, reason) = (ControlMeta::REASON, *reason);
                (FrameKind::Retire, ControlMeta { present, reason, unused_count: *unused, ..ControlMeta::default() })
            }
            Self::RetireLine { created_before, reason, count, unused } => {
                let meta = ControlMeta {
                    present: ControlMeta::STEP | ControlMeta::REASON,
                    step: *created_before,
                    reason: *reason,
                    retired_count: *count,
                    unused_count: *unused,
                    ..ControlMeta::default()
                };
                (FrameKind::RetireLine, meta)
            }
            Self::Advance { clock, version, label, step } => {
                let has = |given: &Option<u64>, bit| if given.is_some() { bit } else { 0 };
                let meta = ControlMeta {
                    present: ControlMeta::VERSION | has(label, ControlMeta::LABEL) | has(step, ControlMeta::STEP),
                    clock: match clock {
                        Clock::Ref => ControlMeta::CLOCK_REF,
                        Clock::KlRef => ControlMeta::CLOCK_KL_REF,
                    },
                    version: *version,
                    label: label.unwrap_or_default(),
                    step: step.unwrap_or_default(),
                    ..ControlMeta::default()
                };
                (FrameKind::Advance, meta)
            }
            Self::Rewind { step, kl_version, .. } => {
                let present = ControlMeta::STEP | ControlMeta::VERSION;
                (
                    FrameKind::Rewind,
                    ControlMeta { present, step: *step, version: *kl_version, ..ControlMeta::default() },
                )
            }
            Self::Cursor(cursor) => {
                arrays.push(ControlColumn::Cursor, cursor.to_vec());
                (FrameKind::Cursor, ControlMeta::default())
            }
            Self::Sweep { name, progress } => {
                let name = name.clone();
                let meta = match progress {
                    Some(SweepProgress { began, step, version, at }) => {
                        let at = at.map(|SweepPosition { rank, id }| [rank, id]);
                        let values = [began.get()].into_iter().chain(at.into_iter().flatten());
                        arrays.push_u64s(ControlColumn::SweepProgress, values);
                        let present = ControlMeta::STEP | ControlMeta::VERSION;
                        ControlMeta { present, step: *step, version: *version, name, ..ControlMeta::default() }
                    }
                    None => ControlMeta { name, ..ControlMeta::default() },
                };
                (FrameKind::Sweep, meta)
            }
            Self::Tally { counters, id_ceiling, used } => {
                arrays.push_u64s(ControlColumn::UsedIds, used.iter().map(|id| id.get()));
                let present = ControlMeta::COUNTERS | ControlMeta::ID_CEILING;
                let (counters, id_ceiling) = (counters.to_values(), *id_ceiling);
                (FrameKind::State, ControlMeta { id_ceiling, present, counters, ..ControlMeta::default() })
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
            ref_version: if let Self::Rewind { ref_version, .. } = self { *ref_version } else { 0 },
            arrays: arrays.arrays,
            meta_crc: crc32fast::hash(&meta),
            meta: Cow::Owned(meta),
        })
    }

    /// What a frame says. `arrays` is the frame's arrays region; only control frames look into it.
    pub(crate) fn decode(header: &FrameHeader, offset_units: u32, meta: &[u8], arrays: &[u8]) -> Result<Self, Fault> {
        match header.kind {
            FrameKind::Insert | FrameKind::Update | FrameKind::Piece => {
                let meta = meta::rollout_meta(meta, header.body_len)?;
                Ok(Self::Rollout(rollout_entry(header, offset_units, meta)?))
            }
            FrameKind::Retire => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let ids = u64s(meta, ControlColumn::RetiredIds, arrays)?;
                let incarnations = u64s(meta, ControlColumn::Incarnations, arrays)?;
                let victims = ids.into_iter().zip(incarnations);
                let victims =
                    victims.map(|(id, lsn)| Incarnation { id: RolloutId::new(id), insert_lsn: Lsn::new(lsn) });
                let (reason, unused) = (meta.reason.to_native(), meta.unused_count.to_native());
                Ok(Self::Retire { victims: victims.collect(), reason, unused })
            }
            FrameKind::RetireLine => {
                let meta = meta::control_meta(meta, header.body_len)?;
                Ok(Self::RetireLine {
                    created_before: meta.step.to_native(),
                    reason: meta.reason.to_native(),
                    count: meta.retired_count.to_native(),
                    unused: meta.unused_count.to_native(),
                })
            }
            FrameKind::Advance => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let clock = match meta.clock {
                    ControlMeta::CLOCK_REF => Clock::Ref,
                    ControlMeta::CLOCK_KL_REF => Clock::KlRef,
                    other => return Err(Fault::damaged("version clock of an advance", 0, "1 or 2", other)),
                };
                let given = |bit, value| meta.has(bit).then_some(value);
                let label = given(ControlMeta::LABEL, meta.label.to_native());
                let step = given(ControlMeta::STEP, meta.step.to_native());
                Ok(Self::Advance { clock, version: version_of(meta)?, label, step })
            }
            FrameKind::Rewind => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let (step, kl_version) = (meta.step.to_native(), version_of(meta)?);
                Ok(Self::Rewind { step, ref_version: header.ref_version, kl_version })
            }
            FrameKind::Cursor => {
                let meta = meta::control_meta(meta, header.body_len)?;
                Ok(Self::Cursor(array(meta, ControlColumn::Cursor, arrays)?.into()))
            }
            FrameKind::State => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let counters = meta.counters().ok_or_else(|| Fault::damaged("state", 0, "counters", "none"))?;
                let used = u64s(meta, ControlColumn::UsedIds, arrays)?.into_iter().map(RolloutId::new).collect();
                Ok(Self::Tally { counters, id_ceiling: meta.id_ceiling.to_native(), used })
            }
            FrameKind::Sweep => {
                let meta = meta::control_meta(meta, header.body_len)?;
                let progress = sweep_progress(meta, &u64s(meta, ControlColumn::SweepProgress, arrays)?)?;
                Ok(Self::Sweep { name: meta.name.as_str().to_owned(), progress })
            }
            FrameKind::Pad | FrameKind::Ignorable(_) => Ok(Self::Ignored),
            FrameKind::Finish => Err(Fault::too_new("frame kind", header.kind.name())),
        }
    }
}

/// The version that a frame issues.
fn version_of(meta: &ArchivedControlMeta) -> Result<u64, Fault> {
    let version = meta.version.to_native();
    if version <= NUMBER_MAX {
        return Ok(version);
    }
    Err(Fault::damaged("version", 0, format_args!("at most {NUMBER_MAX}"), version))
}

/// How far a sweep's frame says that it has come: nothing, where it began, or there and what it handed out last.
fn sweep_progress(meta: &ArchivedControlMeta, values: &[u64]) -> Result<Option<SweepProgress>, Fault> {
    let (began, at) = match *values {
        [] => return Ok(None),
        [began] => (began, None),
        [began, rank, id] => (began, Some(SweepPosition { rank, id })),
        _ => return Err(Fault::damaged("sweep progress", 0, "0, 1 or 3 values", values.len())),
    };
    let (step, version) = (meta.step.to_native(), version_of(meta)?);
    Ok(Some(SweepProgress { began: Lsn::new(began), step, version, at }))
}

fn rollout_entry(header: &FrameHeader, offset_units: u32, meta: &ArchivedRolloutMeta) -> Result<FrameEntry, Fault> {
    let len = |code| meta.column(code).map(|column| value_count(&column));
    let has = has(|code| len(code).is_some());
    let kind = match header.kind {
        FrameKind::Insert => EntryKind::Insert,
        FrameKind::Piece => EntryKind::Piece,
        _ if has.contains(Has::OLD) => EntryKind::OldLogps,
        _ if has.contains(Has::KL_REF) => EntryKind::KlRefLogps,
        _ => return Err(Fault::damaged("update", 0, "a log-prob column", "none")),
    };
    let entry = FrameEntry {
        kind,
        id: header.rollout,
        lsn: header.lsn,
        insert_lsn: header.insert_lsn,
        offset_units,
        frame_units: frame_units(header.frame_len()),
        born_step: header.born_step,
        ref_version: header.ref_version,
        created_step: meta.created_step.to_native(),
        kl_version: meta.kl_version.to_native(),
        token_count: token_count(kind, |code| len(code).unwrap_or(0)),
        group: meta.has(RolloutMeta::GROUP).then(|| meta.group.to_native()),
        has: has.with(if header.flags.contains(FrameFlags::USED) { Has::USED } else { Has::default() }),
    };
    Ok(if kind == EntryKind::Piece {
        piece(entry, meta.spans.first().map(|span| span.version.to_native()))
    } else {
        entry
    })
}

/// The entry of a piece. All of them tell the created step, by the header; what is asked of a rollout they do not tell.
fn piece(entry: FrameEntry, sampled_by: Option<u64>) -> FrameEntry {
    let (created_step, kl_version) = (entry.born_step, sampled_by.unwrap_or_default());
    FrameEntry { created_step, kl_version, group: None, has: Has::default(), ..entry }
}

/// Number of values in a column.
pub(crate) fn value_count(column: &ColumnRef) -> u32 {
    let bytes = column.range.end.saturating_sub(column.range.start);
    u32::try_from(bytes / column.dtype.size_bytes() as u64).unwrap_or(u32::MAX)
}

/// The entry of a rollout frame about to be written, with its place, number and version still to be told.
pub(crate) fn entry_of(kind: EntryKind, id: RolloutId, meta: &RolloutMeta) -> FrameEntry {
    let len = |code: ColumnCode| meta.columns.iter().find(|column| column.column == code.0).map(|column| column.len);
    let entry = FrameEntry {
        kind,
        id,
        lsn: Lsn::NONE,
        insert_lsn: Lsn::NONE,
        offset_units: 0,
        frame_units: 0,
        born_step: meta.created_step,
        ref_version: 0,
        created_step: meta.created_step,
        kl_version: meta.kl_version,
        token_count: token_count(kind, |code| len(code).unwrap_or(0)),
        group: (meta.present & RolloutMeta::GROUP != 0).then_some(meta.group),
        has: has(|code| len(code).is_some()),
    };
    if kind == EntryKind::Piece { piece(entry, meta.spans.first().map(|span| span.version)) } else { entry }
}

/// Which log-prob columns there are.
fn has(column: impl Fn(ColumnCode) -> bool) -> Has {
    let columns = [
        (ColumnCode::OLD_LOGPS, Has::OLD),
        (ColumnCode::SAMPLER_LOGPS, Has::SAMPLER),
        (ColumnCode::KL_REF_LOGPS, Has::KL_REF),
    ];
    columns.iter().filter(|(code, _)| column(*code)).fold(Has::default(), |has, (_, flag)| has.with(*flag))
}

/// Tokens that a forward pass over a rollout costs: the prompt's, and the completion's by whichever column tells them.
/// Updates do not tell.
fn token_count(kind: EntryKind, len: impl Fn(ColumnCode) -> u32) -> u32 {
    if matches!(kind, EntryKind::OldLogps | EntryKind::KlRefLogps) {
        return 0;
    }
    let completion = [ColumnCode::COMPLETION_IDS, ColumnCode::OLD_LOGPS, ColumnCode::SAMPLER_LOGPS];
    let completion = completion.iter().map(|code| len(*code)).max().unwrap_or(0);
    len(ColumnCode::PROMPT_IDS).saturating_add(completion)
}

fn array<'a>(meta: &ArchivedControlMeta, column: ControlColumn, arrays: &'a [u8]) -> Result<&'a [u8], Fault> {
    let Some(column) = meta.column(column) else { return Ok(&[]) };
    let range = usize::try_from(column.range.start).ok().zip(usize::try_from(column.range.end).ok());
    range
        .and_then(|(start, end)| arrays.get(start..end))
        .ok_or_else(|| Fault::damaged("control column", column.range.start, "within its frame", "beyond it"))
}

fn u64s(meta: &ArchivedControlMeta, column: ControlColumn, arrays: &[u8]) -> Result<Vec<u64>, Fault> {
    let (values, _) = array(meta, column, arrays)?.as_chunks::<8>();
    Ok(values.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}
