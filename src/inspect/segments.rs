//! The segments of a store: what each holds, how much of it is alive, and how old it is.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::disk::os::OsDisk;
use crate::disk::{Access, Disk};
use crate::error::{Error, ErrorKind, Result};
use crate::format::entry::{EntryKind, Has};
use crate::format::footer::Footer;
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::inspect::content;
use crate::inspect::log::{Log, LogItem};
use crate::inspect::said::{LogFrame, Said};
use crate::inspect::verify::Finding;
use crate::log::seal::read_footer;
use crate::log::segment::fault_at;
use crate::log::source::Source;
use crate::recovery::live::{self, Patience};
use crate::recovery::manifests;

/// The segments of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segments {
    /// The trainer's clock, from which ages are counted; `None` where it has not acted, or the store cannot be opened.
    pub clock: Option<u64>,
    /// The segments, by number.
    pub segments: Vec<SegmentReport>,
    /// What could not be read. Where the store does not open, no segment tells what is alive in it.
    pub damage: Vec<Finding>,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number, as in the name of the file.
    pub id: u32,
    /// Where it is in its life.
    pub state: SegmentLife,
    /// Whether it holds what compaction copied together, and not what commits wrote.
    pub is_compacted: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whole frames.
    pub frames: u64,
    /// Bytes of frames that readers may come to; `None` where the store cannot be opened.
    pub live_bytes: Option<u64>,
    /// The numbers of its frames, lowest to highest; `None` without frames.
    pub lsns: Option<RangeInclusive<u64>>,
    /// Born steps of its rollouts; `None` where it has none.
    pub born_steps: Option<RangeInclusive<u64>>,
    /// Ref versions of its rollouts' log-probs; `None` where it has none.
    pub ref_versions: Option<RangeInclusive<u64>>,
    /// The trainer's clock when it was begun; `None` where that had not started, or the header is damaged.
    pub begun_at_step: Option<u64>,
}

/// Where a segment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentLife {
    /// It is written to, or will be.
    Written,
    /// Closed for ever.
    Sealed,
    /// Closed for ever by a recovery, at the end of the last whole batch.
    Cut,
}

impl SegmentReport {
    /// Bytes that a copy would not have: all but the header and the frames that are alive.
    #[must_use]
    pub fn dead_bytes(&self) -> Option<u64> {
        let alive = self.live_bytes?.saturating_add(SEGMENT_HEADER_BYTES as u64);
        Some(self.bytes.saturating_sub(alive))
    }
}

/// The segments of the store or checkpoint in `dir`. Takes no lock: a trainer may be writing to it.
///
/// # Where is my disk space?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 3).old_logps(&[-0.5][..], 0))?;
/// let segment = &inspect::segments(dir.path().join("rollouts"))?.segments[0];
/// assert_eq!((segment.frames, segment.born_steps.clone()), (1, Some(3..=3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` where there is no store, `Damaged` where no manifest can be read, `TooNew`, `Io`. Other damage is part of the
/// report.
pub fn segments(dir: impl AsRef<Path>) -> Result<Segments> {
    segments_on(&OsDisk, dir.as_ref())
}

pub(super) fn segments_on(disk: &dyn Disk, dir: &Path) -> Result<Segments> {
    // A store that is compacted meanwhile may drop a segment between two reads.
    let is_doubtful = |looked: &Result<Segments>| !looked.as_ref().is_ok_and(|segments| segments.damage.is_empty());
    live::look(disk, dir, Patience::LONG, is_doubtful, || look(disk, dir))
}

fn look(disk: &dyn Disk, dir: &Path) -> Result<Segments> {
    let mut seen = Segments::default();
    let recovered = match content::read(disk, dir) {
        Ok(recovered) => Some(recovered),
        Err(error) => {
            seen.damage.push(Finding::of(error)?);
            None
        }
    };
    let manifest: Manifest = match &recovered {
        Some(recovered) => recovered.manifest.clone(),
        None => match manifests::newest(disk, dir)? {
            Some(manifest) => manifest,
            None => return Err(Error::not_found(format!("{} holds no store", dir.display())).at(dir)),
        },
    };
    seen.clock = recovered.as_ref().and_then(|recovered| recovered.state.clock);
    for record in &manifest.segments {
        let mut report = report(disk, dir, record, &mut seen.damage)?;
        report.live_bytes = recovered.as_ref().map(|recovered| recovered.index.live_bytes(record.id));
        seen.segments.push(report);
    }
    seen.damage.dedup();
    Ok(seen)
}

fn report(disk: &dyn Disk, dir: &Path, record: &SegmentRecord, damage: &mut Vec<Finding>) -> Result<SegmentReport> {
    let mut report = SegmentReport {
        id: record.id.0,
        state: match record.state {
            SegmentState::Active => SegmentLife::Written,
            SegmentState::Sealed { .. } => SegmentLife::Sealed,
            SegmentState::Cut { .. } => SegmentLife::Cut,
        },
        is_compacted: record.kind == SegmentKind::Compacted,
        bytes: 0,
        frames: 0,
        live_bytes: None,
        lsns: None,
        born_steps: None,
        ref_versions: None,
        begun_at_step: None,
    };
    match header_and_footer(disk, dir, record, &mut report) {
        Ok(true) => return Ok(report),
        Ok(false) => {}
        Err(error) => damage.push(Finding::of(error)?),
    }
    // Its frames tell what no footer does.
    for item in Log::open(disk, dir)?.of_segment(report.id) {
        match item? {
            LogItem::Frame(frame) => report.add(&frame),
            LogItem::Damage(finding) => damage.push(finding),
        }
    }
    Ok(report)
}

/// Reads the ends of a segment's file; false where it has no footer.
fn header_and_footer(disk: &dyn Disk, dir: &Path, record: &SegmentRecord, report: &mut SegmentReport) -> Result<bool> {
    let path = dir.join(segment_file_name(record.id));
    let file = match disk.open(&path, Access::Read) {
        Ok(file) => file,
        // Whoever reads its frames says whether it is missed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("open segment", &path, error)),
    };
    report.bytes = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
    let (segment, salt, end) = (record.id, record.salt, report.bytes);
    let source = Source { file: &*file, path: &path, segment, salt, start: 0, end, base_lsn: None, ahead: None };
    if end < SEGMENT_HEADER_BYTES as u64 || !record.has_len(end) {
        return Ok(false);
    }
    let mut header = vec![0; SEGMENT_HEADER_BYTES];
    source.read(&mut header, 0, &mut 0)?;
    report.begun_at_step = SegmentHeader::decode(&header).map_err(|fault| fault_at(&path, 0, fault))?.step;
    let SegmentState::Sealed { footer_crc, .. } = record.state else { return Ok(false) };
    match read_footer(&source, footer_crc, &mut 0) {
        Ok((footer, _)) => report.take(&footer),
        // The frames tell the same, and whether the footer is damaged or was left out.
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(true)
}

impl SegmentReport {
    fn take(&mut self, footer: &Footer) {
        self.frames = footer.frames;
        self.lsns = (footer.frames > 0).then(|| footer.min_lsn.get()..=footer.max_lsn.get());
        for entry in &footer.entries {
            if matches!(entry.kind, EntryKind::Insert | EntryKind::OldLogps) {
                widen(&mut self.born_steps, entry.born_step);
            }
            if entry.has.contains(Has::OLD) {
                widen(&mut self.ref_versions, entry.ref_version);
            }
        }
    }

    fn add(&mut self, frame: &LogFrame) {
        self.frames += 1;
        widen(&mut self.lsns, frame.lsn.get());
        let (born_step, ref_version) = match frame.said {
            Said::Insert { born_step, ref_version, .. } => (Some(born_step), ref_version),
            Said::OldLogps { born_step, ref_version } => (Some(born_step), Some(ref_version)),
            _ => (None, None),
        };
        born_step.into_iter().for_each(|step| widen(&mut self.born_steps, step));
        ref_version.into_iter().for_each(|version| widen(&mut self.ref_versions, version));
    }
}

fn widen(range: &mut Option<RangeInclusive<u64>>, value: u64) {
    *range = Some(match range {
        Some(range) => value.min(*range.start())..=value.max(*range.end()),
        None => value..=value,
    });
}
