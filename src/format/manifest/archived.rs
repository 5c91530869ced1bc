//! The manifest's payload: the same values as plain structs, primitives and vectors.
//!
//! May touch `archive`, `clock`, `counters`, `fault`, `segment`. Enums become numbers and options become bits here, so
//! that the archive has no layout that a compiler or a library chooses.

use rkyv::rend::u64_le;
use rkyv::{Archive, Serialize};

use super::{
    Manifest, ManifestKind, RetireLine, SegmentRecord, SegmentState, StateSnapshot, StoredOptions, SweepPosition,
    SweepProgress, SweepRecord,
};
use crate::format::archive;
use crate::format::clock::{LabelRecord, VersionClock, VersionInterval};
use crate::format::counters::Counters;
use crate::format::fault::Fault;
use crate::format::segment::SegmentKind;
use crate::ids::{Lsn, SegmentId};

const HAS_CLOCK: u32 = 1;
const HAS_CURSOR: u32 = 1 << 1;
const PRESENT_KNOWN: u32 = HAS_CLOCK | HAS_CURSOR;

const KIND_LIVE: u16 = 0;
const KIND_CHECKPOINT: u16 = 1;

const STATE_ACTIVE: u16 = 0;
const STATE_SEALED: u16 = 1;
const STATE_CUT: u16 = 2;

#[derive(Archive, Serialize)]
struct SegmentRow {
    salt: u64,
    base_lsn: u64,
    min_insert_lsn: u64,
    /// Sealed: length of the file. Cut: its end. Active: 0.
    end: u64,
    /// Cut: the last number before the end. Else 0.
    end_lsn: u64,
    id: u32,
    /// Sealed: the footer's checksum. Else 0.
    footer_crc: u32,
    kind: u16,
    state: u16,
    reserved: u32,
}

#[derive(Archive, Serialize)]
struct IntervalRow {
    first: u64,
    last: u64,
}

#[derive(Archive, Serialize)]
struct LabelRow {
    label: u64,
    version: u64,
}

#[derive(Archive, Serialize)]
struct ClockRow {
    current: u64,
    next: u64,
    lineage: Vec<IntervalRow>,
    labels: Vec<LabelRow>,
}

#[derive(Archive, Serialize)]
struct RetireLineRow {
    created_before: u64,
    lsn: u64,
    reason: u64,
}

#[derive(Archive, Serialize)]
struct SweepRow {
    began: u64,
    step: u64,
    version: u64,
    rank: u64,
    id: u64,
    name: String,
    finished: u32,
    reserved: u32,
}

/// The root of the archive.
#[derive(Archive, Serialize)]
pub(super) struct ManifestRows {
    generation: u64,
    store_uuid: [u8; 16],
    run_uuid: [u8; 16],
    epoch: u64,
    owner: u64,
    lsn_ceiling: u64,
    ref_version_ceiling: u64,
    kl_version_ceiling: u64,
    window: u64,
    max_version_lag: u64,
    step_skew: u64,
    step_jump_max: u64,
    state_lsn: u64,
    clock: u64,
    id_ceiling: u64,
    ref_clock: ClockRow,
    kl_clock: ClockRow,
    segments: Vec<SegmentRow>,
    run_identity: Vec<u8>,
    cursor: Vec<u8>,
    counters: Vec<u64>,
    retire_lines: Vec<RetireLineRow>,
    sweeps: Vec<SweepRow>,
    compaction: Vec<u8>,
    next_segment_id: u32,
    present: u32,
    kind: u16,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<ArchivedSegmentRow>() == 56, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedClockRow>() == 32, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedSweepRow>() == 56, "the layout has no gaps");
const _: () = assert!(size_of::<ArchivedManifestRows>() == 272, "the layout has no gaps");

impl ManifestRows {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let options = &manifest.options;
        Self {
            generation: manifest.generation,
            store_uuid: manifest.store_uuid,
            run_uuid: manifest.run_uuid,
            epoch: manifest.epoch,
            owner: manifest.owner,
            lsn_ceiling: manifest.lsn_ceiling,
            ref_version_ceiling: manifest.ref_version_ceiling,
            kl_version_ceiling: manifest.kl_version_ceiling,
            window: options.window,
            max_version_lag: options.max_version_lag,
            step_skew: options.step_skew,
            step_jump_max: options.step_jump_max,
            segments: manifest.segments.iter().map(SegmentRow::of).collect(),
            run_identity: manifest.run_identity.clone(),
            compaction: manifest.compaction.clone(),
            next_segment_id: manifest.next_segment_id,
            kind: match manifest.kind {
                ManifestKind::Live => KIND_LIVE,
                ManifestKind::Checkpoint => KIND_CHECKPOINT,
            },
            ..Self::of_state(&manifest.state)
        }
    }

    /// The state alone: everything else is zero or empty.
    pub(super) fn of_state(state: &StateSnapshot) -> Self {
        let retire_line = |line: &RetireLine| RetireLineRow {
            created_before: line.created_before,
            lsn: line.lsn.get(),
            reason: u64::from(line.reason),
        };
        let has_clock = if state.clock.is_some() { HAS_CLOCK } else { 0 };
        let has_cursor = if state.cursor.is_some() { HAS_CURSOR } else { 0 };
        Self {
            generation: 0,
            store_uuid: [0; 16],
            run_uuid: [0; 16],
            epoch: 0,
            owner: 0,
            lsn_ceiling: 0,
            ref_version_ceiling: 0,
            kl_version_ceiling: 0,
            window: 0,
            max_version_lag: 0,
            step_skew: 0,
            step_jump_max: 0,
            state_lsn: state.lsn.get(),
            clock: state.clock.unwrap_or(0),
            id_ceiling: state.id_ceiling,
            ref_clock: ClockRow::of(&state.ref_clock),
            kl_clock: ClockRow::of(&state.kl_clock),
            segments: Vec::new(),
            run_identity: Vec::new(),
            cursor: state.cursor.clone().unwrap_or_default(),
            counters: state.counters.to_values(),
            retire_lines: state.retire_lines.iter().map(retire_line).collect(),
            sweeps: state.sweeps.iter().map(SweepRow::of).collect(),
            compaction: Vec::new(),
            next_segment_id: 0,
            present: has_clock | has_cursor,
            kind: KIND_LIVE,
            reserved: [0; 6],
        }
    }
}

/// Reads the state of such rows, whose checksum holds.
pub(super) fn decode_state(payload: &[u8]) -> Result<StateSnapshot, Fault> {
    archive::read::<ArchivedManifestRows>("state", payload)?.state()
}

/// Reads a payload whose checksum holds. The vectors are no longer than the payload, which lies in memory already.
pub(super) fn decode(payload: &[u8]) -> Result<Manifest, Fault> {
    let rows = archive::read::<ArchivedManifestRows>("manifest", payload)?;
    let unknown = rows.present.to_native() & !PRESENT_KNOWN;
    if unknown != 0 || rows.reserved != [0; 6] {
        return Err(Fault::too_new("manifest field", format_args!("behind presence bits {unknown:#x}")));
    }
    let kind = match rows.kind.to_native() {
        KIND_LIVE => ManifestKind::Live,
        KIND_CHECKPOINT => ManifestKind::Checkpoint,
        other => return Err(Fault::too_new("manifest kind", other)),
    };
    Ok(Manifest {
        generation: rows.generation.to_native(),
        kind,
        store_uuid: rows.store_uuid,
        run_uuid: rows.run_uuid,
        epoch: rows.epoch.to_native(),
        owner: rows.owner.to_native(),
        lsn_ceiling: rows.lsn_ceiling.to_native(),
        ref_version_ceiling: rows.ref_version_ceiling.to_native(),
        kl_version_ceiling: rows.kl_version_ceiling.to_native(),
        next_segment_id: rows.next_segment_id.to_native(),
        segments: rows.segments.iter().map(ArchivedSegmentRow::record).collect::<Result<_, _>>()?,
        options: StoredOptions {
            window: rows.window.to_native(),
            max_version_lag: rows.max_version_lag.to_native(),
            step_skew: rows.step_skew.to_native(),
            step_jump_max: rows.step_jump_max.to_native(),
        },
        run_identity: rows.run_identity.to_vec(),
        state: rows.state()?,
        compaction: rows.compaction.to_vec(),
    })
}

impl ArchivedManifestRows {
    fn state(&self) -> Result<StateSnapshot, Fault> {
        let has = |bit| self.present.to_native() & bit != 0;
        let counters = Counters::from_values(self.counters.iter().map(|value| value.to_native()))
            .ok_or_else(|| Fault::damaged("manifest counters", 0, "all of them", self.counters.len()))?;
        Ok(StateSnapshot {
            lsn: lsn(self.state_lsn),
            clock: has(HAS_CLOCK).then_some(self.clock.to_native()),
            ref_clock: self.ref_clock.clock(),
            kl_clock: self.kl_clock.clock(),
            cursor: has(HAS_CURSOR).then(|| self.cursor.to_vec()),
            id_ceiling: self.id_ceiling.to_native(),
            counters,
            retire_lines: self.retire_lines.iter().map(ArchivedRetireLineRow::line).collect::<Result<_, _>>()?,
            sweeps: self.sweeps.iter().map(ArchivedSweepRow::record).collect::<Result<_, _>>()?,
        })
    }
}

impl SegmentRow {
    fn of(record: &SegmentRecord) -> Self {
        let (state, end, end_lsn, footer_crc) = match record.state {
            SegmentState::Active => (STATE_ACTIVE, 0, Lsn::NONE, 0),
            SegmentState::Sealed { len, footer_crc } => (STATE_SEALED, len, Lsn::NONE, footer_crc),
            SegmentState::Cut { end, end_lsn } => (STATE_CUT, end, end_lsn, 0),
        };
        Self {
            salt: record.salt,
            base_lsn: record.base_lsn.get(),
            min_insert_lsn: record.min_insert_lsn.get(),
            end,
            end_lsn: end_lsn.get(),
            id: record.id.0,
            footer_crc,
            kind: record.kind.code(),
            state,
            reserved: 0,
        }
    }
}

impl ArchivedSegmentRow {
    fn record(&self) -> Result<SegmentRecord, Fault> {
        let code = self.kind.to_native();
        let kind = SegmentKind::from_code(code).ok_or_else(|| Fault::too_new("segment kind", code))?;
        let end = self.end.to_native();
        let state = match self.state.to_native() {
            STATE_ACTIVE => SegmentState::Active,
            STATE_SEALED => SegmentState::Sealed { len: end, footer_crc: self.footer_crc.to_native() },
            STATE_CUT => SegmentState::Cut { end, end_lsn: lsn(self.end_lsn) },
            other => return Err(Fault::too_new("segment state", other)),
        };
        if self.reserved != 0 {
            return Err(Fault::too_new("segment record field", "in its reserved bytes"));
        }
        Ok(SegmentRecord {
            id: SegmentId(self.id.to_native()),
            kind,
            state,
            salt: self.salt.to_native(),
            base_lsn: lsn(self.base_lsn),
            min_insert_lsn: lsn(self.min_insert_lsn),
        })
    }
}

impl ClockRow {
    fn of(clock: &VersionClock) -> Self {
        let interval = |interval: &VersionInterval| IntervalRow { first: interval.first, last: interval.last };
        let label = |record: &LabelRecord| LabelRow { label: record.label, version: record.version };
        Self {
            current: clock.current,
            next: clock.next,
            lineage: clock.lineage.iter().map(interval).collect(),
            labels: clock.labels.iter().map(label).collect(),
        }
    }
}

impl ArchivedClockRow {
    fn clock(&self) -> VersionClock {
        let interval = |row: &ArchivedIntervalRow| VersionInterval { first: row.first.into(), last: row.last.into() };
        let label = |row: &ArchivedLabelRow| LabelRecord { label: row.label.into(), version: row.version.into() };
        VersionClock {
            current: self.current.to_native(),
            next: self.next.to_native(),
            lineage: self.lineage.iter().map(interval).collect(),
            labels: self.labels.iter().map(label).collect(),
        }
    }
}

impl ArchivedRetireLineRow {
    fn line(&self) -> Result<RetireLine, Fault> {
        let reason = self.reason.to_native();
        let reason = u16::try_from(reason).map_err(|_| Fault::too_new("retire line reason", reason))?;
        Ok(RetireLine { created_before: self.created_before.to_native(), lsn: lsn(self.lsn), reason })
    }
}

impl SweepRow {
    fn of(record: &SweepRecord) -> Self {
        let SweepProgress { began, step, version, at } = record.progress;
        let SweepPosition { rank, id } = at.unwrap_or(SweepPosition { rank: 0, id: 0 });
        let (name, finished) = (record.name.clone(), u32::from(at.is_none()));
        Self { began: began.get(), step, version, rank, id, name, finished, reserved: 0 }
    }
}

impl ArchivedSweepRow {
    fn record(&self) -> Result<SweepRecord, Fault> {
        let position = SweepPosition { rank: self.rank.to_native(), id: self.id.to_native() };
        let at = match self.finished.to_native() {
            0 => Some(position),
            1 => None,
            other => return Err(Fault::too_new("sweep state", other)),
        };
        if self.reserved != 0 {
            return Err(Fault::too_new("sweep record field", "in its reserved bytes"));
        }
        let (step, version) = (self.step.to_native(), self.version.to_native());
        let progress = SweepProgress { began: lsn(self.began), step, version, at };
        Ok(SweepRecord { name: self.name.as_str().to_owned(), progress })
    }
}

fn lsn(raw: u64_le) -> Lsn {
    Lsn::new(raw.to_native())
}
