//! The manifest: a full snapshot of what a store is, one file for each generation.
//!
//! May touch `archive`, `clock`, `counters`, `fault`, `segment`, ids and limits. Knows nothing of files: which
//! generation is the newest, and whether its segments are there, is the reader's to find out.
//!
//! Always true:
//! - G1. The checksum covers every byte before it and is tried before any of them is believed but the magic and the length.
//! - G2. Segments ascend by id, and each id is below `next_segment_id`: an id is never given twice.

mod archived;

use bytemuck::{Pod, Zeroable};
use rkyv::util::AlignedVec;

use super::archive;
pub(crate) use super::archive::TooLarge;
use super::clock::VersionClock;
use super::counters::Counters;
use super::fault::{Fault, ensure};
use super::segment::{SegmentKind, check_features};
use super::{COMPATIBLE_FEATURES, FORMAT_VERSION, INCOMPATIBLE_FEATURES};
use crate::ids::{Lsn, SegmentId};
use crate::limits::{MANIFEST_BYTES_MAX, NUMBER_MAX, SEGMENT_ID_MAX, TERM_MAX};

const MAGIC: [u8; 8] = *b"\xf5RolMan\x1a";
const HEADER_BYTES: usize = 64;
const CRC_BYTES: usize = 4;

/// What a manifest belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestKind {
    /// A store that a writer may open.
    Live,
    /// A checkpoint: read-only for ever.
    Checkpoint,
}

/// Where a segment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Being written: its end is found by scanning.
    Active,
    /// Closed for ever with a footer.
    Sealed {
        /// Bytes of the file.
        len: u64,
        /// The checksum of the payload, as the trailer has it.
        footer_crc: u32,
    },
    /// Closed for ever by a recovery: bytes behind `end` are not of the log.
    Cut {
        /// Bytes up to the end of the last whole batch.
        end: u64,
        /// The last number before the end.
        end_lsn: Lsn,
    },
}

/// One segment of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentRecord {
    pub(crate) id: SegmentId,
    pub(crate) kind: SegmentKind,
    pub(crate) state: SegmentState,
    pub(crate) salt: u64,
    pub(crate) base_lsn: Lsn,
    pub(crate) min_insert_lsn: Lsn,
}

impl SegmentRecord {
    /// Bytes of a finished segment that belong to it; 0 for the one that is written to.
    pub(crate) fn len(&self) -> u64 {
        match self.state {
            SegmentState::Active => 0,
            SegmentState::Sealed { len, .. } => len,
            SegmentState::Cut { end, .. } => end,
        }
    }

    /// Whether a file of this length can be the segment. Behind a cut stands the torn tail that was cut off.
    pub(crate) fn has_len(&self, file_len: u64) -> bool {
        match self.state {
            SegmentState::Active => true,
            SegmentState::Sealed { len, .. } => file_len == len,
            SegmentState::Cut { end, .. } => file_len >= end,
        }
    }
}

/// The options that the store was last opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredOptions {
    pub(crate) window: u64,
    pub(crate) max_version_lag: u64,
    pub(crate) step_skew: u64,
    pub(crate) step_jump_max: u64,
}

/// Rollouts created before a step and written before a number are retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetireLine {
    pub(crate) created_before: u64,
    pub(crate) lsn: Lsn,
    pub(crate) reason: u16,
}

/// A named sweep, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SweepRecord {
    pub(crate) name: String,
    pub(crate) progress: SweepProgress,
}

/// How far a sweep has come: what was there at `began` and was not written since is still to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SweepProgress {
    /// The store's last number when the sweep began.
    pub(crate) began: Lsn,
    /// The step that the sweep last computed at.
    pub(crate) step: u64,
    /// The version of the weights that it last computed with.
    pub(crate) version: u64,
    /// What it handed out last; `None` once it is finished.
    pub(crate) at: Option<SweepPosition>,
}

/// A place in a sweep's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SweepPosition {
    /// What the sweep orders by: a born step, a version or an LSN.
    pub(crate) rank: u64,
    /// The rollout's id, among those of the same rank.
    pub(crate) id: u64,
}

/// What the log says up to `lsn`, apart from the rollouts themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateSnapshot {
    pub(crate) lsn: Lsn,
    /// The highest step that the trainer acted at.
    pub(crate) clock: Option<u64>,
    pub(crate) ref_clock: VersionClock,
    pub(crate) kl_clock: VersionClock,
    pub(crate) cursor: Option<Vec<u8>>,
    pub(crate) id_ceiling: u64,
    pub(crate) counters: Counters,
    pub(crate) retire_lines: Vec<RetireLine>,
    pub(crate) sweeps: Vec<SweepRecord>,
}

impl StateSnapshot {
    /// The bytes of the state alone, without a checksum: a manifest's payload of which all else is zero or empty.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, TooLarge> {
        let too_large = TooLarge { what: "state", bytes_max: MANIFEST_BYTES_MAX };
        archive::append(&archived::ManifestRows::of_state(self), Vec::new()).ok_or(too_large)
    }

    /// Reads the state from bytes whose checksum holds. A copy is made where their address is not a multiple of 8.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let state = archived::decode_state(archive::aligned(bytes, &mut AlignedVec::new()))?;
        match state.defect() {
            Some(defect) => Err(Fault::damaged("state", 0, "a state that agrees with itself", defect)),
            None => Ok(state),
        }
    }

    fn defect(&self) -> Option<&'static str> {
        self.ref_clock.defect().or_else(|| self.kl_clock.defect())
    }
}

/// One generation of a store's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generation: u64,
    pub(crate) kind: ManifestKind,
    pub(crate) store_uuid: [u8; 16],
    /// The same through every restore into a fresh directory.
    pub(crate) run_uuid: [u8; 16],
    /// One more with every restore over the store.
    pub(crate) epoch: u64,
    /// The term of the last owner by heartbeat; 0 where there was none.
    pub(crate) owner: u64,
    /// Numbers below this may have been given already, even where the log does not show them.
    pub(crate) lsn_ceiling: u64,
    /// Ref versions below this may have been issued already.
    pub(crate) ref_version_ceiling: u64,
    /// KL reference versions below this may have been issued already.
    pub(crate) kl_version_ceiling: u64,
    pub(crate) next_segment_id: u32,
    /// Ascending by id.
    pub(crate) segments: Vec<SegmentRecord>,
    pub(crate) options: StoredOptions,
    pub(crate) run_identity: Vec<u8>,
    pub(crate) state: StateSnapshot,
    /// Progress of compaction. Reserved: opaque here, and empty.
    pub(crate) compaction: Vec<u8>,
}

/// The start of the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    format_version: u32,
    header_len: u32,
    incompatible_features: u64,
    compatible_features: u64,
    payload_len: u64,
    zeros: [u8; 24],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES, "the layout has no gaps");

impl Manifest {
    /// The bytes of the whole file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, TooLarge> {
        debug_assert_eq!(self.defect(), None);
        let too_large = TooLarge { what: "manifest", bytes_max: MANIFEST_BYTES_MAX };
        let mut bytes = archive::append(&archived::ManifestRows::of(self), vec![0; HEADER_BYTES]).ok_or(too_large)?;
        let payload_len = u64::try_from(bytes.len().saturating_sub(HEADER_BYTES)).map_err(|_| too_large)?;
        let header = RawHeader {
            magic: MAGIC,
            format_version: FORMAT_VERSION,
            header_len: 64,
            incompatible_features: INCOMPATIBLE_FEATURES,
            compatible_features: 0,
            payload_len,
            zeros: [0; 24],
        };
        let (start, _) = bytes.split_at_mut(HEADER_BYTES);
        start.copy_from_slice(bytemuck::bytes_of(&header));
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        if u64::try_from(bytes.len()).is_ok_and(|len| len <= MANIFEST_BYTES_MAX) { Ok(bytes) } else { Err(too_large) }
    }

    /// Reads a whole file. A copy of the payload is made where its address is not a multiple of 8.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let too_large = u64::try_from(bytes.len()).map_or(true, |len| len > MANIFEST_BYTES_MAX);
        ensure(!too_large, "manifest length", 0, format_args!("at most {MANIFEST_BYTES_MAX}"), bytes.len())?;
        let parts = bytes.split_first_chunk::<HEADER_BYTES>();
        let parts = parts.and_then(|(header, rest)| Some((header, rest.split_last_chunk::<CRC_BYTES>()?)));
        let Some((header, (payload, crc))) = parts else {
            return Err(Fault::too_short("manifest", HEADER_BYTES + CRC_BYTES, bytes.len()));
        };
        let header: RawHeader = bytemuck::pod_read_unaligned(header);
        header.check(payload.len())?;
        let (covered, _) = bytes.split_at(HEADER_BYTES.saturating_add(payload.len()));
        let (stored, computed) = (u32::from_le_bytes(*crc), crc32fast::hash(covered));
        if stored != computed {
            return Err(Fault::checksum("manifest", header.crc_offset(), stored, computed));
        }
        header.check_version()?;
        let mut copy = AlignedVec::new();
        let manifest = archived::decode(archive::aligned(payload, &mut copy))?;
        match manifest.defect().or_else(|| manifest.misnumbered()) {
            Some(defect) => Err(Fault::damaged("manifest", 0, "a state that agrees with itself", defect)),
            None => Ok(manifest),
        }
    }

    /// What contradicts itself, if anything does.
    fn defect(&self) -> Option<&'static str> {
        if self.segments.windows(2).any(|pair| matches!(pair, [a, b] if a.id >= b.id)) {
            return Some("segments that do not ascend");
        }
        if self.segments.last().is_some_and(|segment| segment.id.0 >= self.next_segment_id) {
            return Some("a segment id that may be given again");
        }
        self.state.defect()
    }

    /// What is wrong with its numbers, if anything is: each is below its ceiling, and counting on from there leaves room.
    fn misnumbered(&self) -> Option<&'static str> {
        let Self { generation, epoch, lsn_ceiling, ref_version_ceiling, kl_version_ceiling, state, .. } = self;
        let numbers = [*generation, *epoch, *lsn_ceiling, *ref_version_ceiling, *kl_version_ceiling];
        let counted = numbers.iter().all(|number| *number <= NUMBER_MAX) && self.owner <= TERM_MAX;
        if !counted || self.next_segment_id > SEGMENT_ID_MAX {
            return Some("a number that no counting comes to");
        }
        (!self.covers(state.lsn, state.ref_clock.next, state.kl_clock.next)).then_some("a number above its ceiling")
    }

    /// Whether these numbers, the next ones in the case of versions, were reserved.
    pub(crate) fn covers(&self, lsn: Lsn, next_ref_version: u64, next_kl_version: u64) -> bool {
        lsn.get() <= self.lsn_ceiling
            && next_ref_version <= self.ref_version_ceiling
            && next_kl_version <= self.kl_version_ceiling
    }
}

impl Manifest {
    /// Adds a segment, in its place: one that is copied to is listed later than it got its number.
    pub(crate) fn list(&mut self, record: SegmentRecord) {
        let place = self.segments.partition_point(|listed| listed.id < record.id);
        self.segments.insert(place, record);
    }
}

impl RawHeader {
    /// What is checked before the checksum, so that a torn file is called short and not rotten.
    fn check(&self, payload_len: usize) -> Result<(), Fault> {
        let magic = format_args!("{}", MAGIC.escape_ascii());
        ensure(self.magic == MAGIC, "manifest magic", 0, magic, self.magic.escape_ascii())?;
        let whole = usize::try_from(self.payload_len).is_ok_and(|len| len == payload_len);
        ensure(whole, "manifest payload length", 32, self.payload_len, payload_len)
    }

    fn check_version(&self) -> Result<(), Fault> {
        check_features(self.format_version, self.incompatible_features)?;
        let all_known = self.compatible_features & !COMPATIBLE_FEATURES == 0;
        if self.header_len != 64 || (all_known && self.zeros != [0; 24]) {
            return Err(Fault::too_new("manifest header field", "in its reserved bytes"));
        }
        Ok(())
    }

    fn crc_offset(&self) -> u64 {
        self.payload_len.saturating_add(64)
    }
}

#[cfg(test)]
mod tests;
