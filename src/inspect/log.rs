//! The log, frame by frame: in the order of segments and of places in them, past damage, and on while it grows.
//!
//! Always true:
//! - G1. Each frame is told once, and only when its batch is whole: what is in flight is told when it has arrived.
//! - G2. In the segment that is written to, bytes are called damage only where they look so again.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::os::OsDisk;
use crate::disk::{Access, Disk};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::format::frame::FrameHeader;
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::inspect::opened::Opened;
use crate::inspect::said::LogFrame;
use crate::inspect::verify::Finding;
use crate::inspect::walk::{Step, walk_where};
use crate::log::segment::damage_of;
use crate::log::source::Source;
use crate::recovery::{manifests, scan_unsealed};

/// What stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogItem {
    /// A whole frame.
    Frame(LogFrame),
    /// Bytes that are not what was written. The next item stands behind them.
    Damage(Finding),
}

/// The frames of a log, oldest segment first. Made by [`log`].
///
/// The iterator ends where the log does for now, and may be asked again: it then goes on with what was written meanwhile.
/// What compaction gave back before it was read is not told; what it copied is, as a frame that was moved.
#[derive(Debug)]
pub struct Log<'a> {
    disk: &'a dyn Disk,
    dir: PathBuf,
    /// The only segment to be read, where one was named.
    segment: Option<SegmentId>,
    /// Frames of other rollouts are passed over.
    rollout: Option<RolloutId>,
    /// What is left of this pass over the manifest's segments; `None` between passes.
    pass: Option<Pass>,
    /// How far each listed segment was read.
    places: BTreeMap<SegmentId, Place>,
    ready: VecDeque<LogItem>,
}

#[derive(Debug)]
struct Pass {
    segments: VecDeque<SegmentRecord>,
    /// Frames up to this one are durable.
    durable: Lsn,
    /// A listed segment was dropped before it was read: what is alive of it was copied to one that this pass does not list.
    has_missed: bool,
}

/// How far a segment was read.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    /// The number that comes next, where numbers ascend one by one.
    next_lsn: Lsn,
    is_finished: bool,
}

/// The log of the store or checkpoint in `dir`, frame by frame. Takes no lock: a trainer may be writing to it.
///
/// # What did the trainer write?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 0).old_logps(&[-0.5][..], 0))?;
/// let mut log = inspect::log(dir.path().join("rollouts"))?;
/// let kinds = |log: &mut inspect::Log<'_>| -> rollstore::Result<Vec<_>> {
///     log.map(|item| Ok(match item? { inspect::LogItem::Frame(frame) => frame.kind, _ => "damage" })).collect()
/// };
/// assert_eq!(kinds(&mut log)?, ["insert"]);
/// store.advance_ref_version(1, None)?;
/// assert_eq!(kinds(&mut log)?, ["advance"], "it goes on where it was");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` where there is no store, `Damaged` where no manifest can be read, `TooNew`, `Io`. Each item may be an `Io` or
/// `TooNew`; damage is an item like any other.
pub fn log(dir: impl AsRef<Path>) -> Result<Log<'static>> {
    Log::open(&OsDisk, dir.as_ref())
}

impl<'a> Log<'a> {
    pub(super) fn open(disk: &'a dyn Disk, dir: &Path) -> Result<Self> {
        let mut log = Self {
            disk,
            dir: dir.to_owned(),
            segment: None,
            rollout: None,
            pass: None,
            places: BTreeMap::new(),
            ready: VecDeque::new(),
        };
        log.pass = Some(log.begin_pass()?);
        Ok(log)
    }

    /// Only the frames of this segment.
    #[must_use]
    pub fn of_segment(mut self, segment: u32) -> Self {
        self.segment = Some(SegmentId(segment));
        self
    }

    /// Frames of other rollouts are passed over, by their headers: most of the log is then not read. Frames of the store as a
    /// whole stay.
    #[must_use]
    pub fn of_rollout(mut self, rollout: RolloutId) -> Self {
        self.rollout = Some(rollout);
        self
    }

    /// The numbers of the segments that the manifest lists, ascending.
    ///
    /// # Errors
    /// As for [`log`].
    pub fn segments(&self) -> Result<Vec<u32>> {
        Ok(self.manifest()?.segments.iter().map(|record| record.id.0).collect())
    }

    fn manifest(&self) -> Result<Manifest> {
        let none = || Error::not_found(format!("{} holds no store", self.dir.display())).at(&self.dir);
        manifests::newest(self.disk, &self.dir)?.ok_or_else(none)
    }

    fn begin_pass(&mut self) -> Result<Pass> {
        let manifest = self.manifest()?;
        let is_listed = |segment: &SegmentId| manifest.segments.iter().any(|record| record.id == *segment);
        self.places.retain(|segment, _| is_listed(segment));
        Ok(Pass { segments: manifest.segments.into(), durable: manifest.state.lsn, has_missed: false })
    }

    /// Reads one segment more; false where the pass is over.
    fn read_more(&mut self) -> Result<bool> {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.begin_pass()?,
        };
        let Some(record) = pass.segments.pop_front() else { return Ok(pass.has_missed) };
        let durable = pass.durable;
        if self.segment.is_none_or(|segment| segment == record.id) {
            pass.has_missed |= !self.read(&record, durable)?;
        }
        self.pass = Some(pass);
        Ok(true)
    }

    /// Reads what is new of a segment; false where it was dropped meanwhile.
    fn read(&mut self, record: &SegmentRecord, durable: Lsn) -> Result<bool> {
        let start = Place { offset: SEGMENT_HEADER_BYTES as u64, next_lsn: record.base_lsn, is_finished: false };
        let mut place = self.places.get(&record.id).copied().unwrap_or(start);
        if place.is_finished {
            return Ok(true);
        }
        let path = self.dir.join(segment_file_name(record.id));
        let file = match self.disk.open(&path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Compaction drops segments that it has emptied; only one that is still listed is missing.
                let is_listed = self.manifest()?.segments.iter().any(|listed| listed.id == record.id);
                if is_listed {
                    let expected = "a segment that the manifest lists".to_owned();
                    self.found(Damage { file: path, offset: 0, expected, found: "no file".to_owned() }, None);
                }
                place.is_finished = true;
                self.places.insert(record.id, place);
                return Ok(is_listed);
            }
            Err(error) => return Err(Error::io("open segment", &path, error)),
        };
        let segment = Opened { record, path: &path, file };
        match record.state {
            SegmentState::Active => self.read_unsealed(&segment, &mut place, durable)?,
            _ => self.read_finished(&segment, &mut place)?,
        }
        self.places.insert(record.id, place);
        Ok(true)
    }

    /// The segment that is written to, up to its last whole batch.
    fn read_unsealed(&mut self, segment: &Opened<'_>, place: &mut Place, durable: Lsn) -> Result<()> {
        /// What is read while it is written may look damaged once; what is damaged looks so again.
        const LOOKS: u32 = 3;
        let mut looks = 1;
        let (source, frames, looked) = loop {
            let source = segment.source(place.offset, place.next_lsn, segment.len()?);
            let mut frames = Vec::new();
            let looked = scan_unsealed(&source, place.next_lsn, durable, |frame| frames.push(frame));
            match looked {
                Err(error) if error.kind() == ErrorKind::Damaged && looks < LOOKS => looks += 1,
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                looked => break (source, frames, looked),
            }
        };
        let Err(error) = looked else {
            for frame in frames {
                let (header, end) = (frame.header, frame.offset.saturating_add(frame.header.frame_len()));
                (place.offset, place.next_lsn) = (end, header.lsn.next());
                if self.wants(&header) {
                    self.ready.push_back(LogItem::Frame(LogFrame::new(segment.record.id, frame)));
                }
            }
            return Ok(());
        };
        let known = self.ready.len();
        let (end, last) = self.walk(segment, &source, true)?;
        let told = self.ready.iter().skip(known).any(|item| matches!(item, LogItem::Damage(_)));
        if let Some(damage) = error.damage().filter(|_| !told) {
            // Every frame that is there is whole, and acknowledged ones are missing behind them.
            self.found(damage.clone(), error.rollout());
        }
        // Where nothing whole stands behind the damage, nothing can be waited for.
        (place.offset, place.is_finished) = (end, last.is_none());
        place.next_lsn = last.map_or(place.next_lsn, Lsn::next);
        Ok(())
    }

    /// What is left of a segment that is written to no more.
    fn read_finished(&mut self, segment: &Opened<'_>, place: &mut Place) -> Result<()> {
        let (path, len) = (segment.path, segment.len()?);
        if !segment.record.has_len(len) {
            let (expected, found) = (format!("the length of {:?}", segment.record.state), format!("{len} bytes"));
            self.found(Damage { file: path.to_owned(), offset: len, expected, found }, None);
        }
        let (end, footer_behind) = match segment.record.state {
            SegmentState::Cut { end, .. } => (end.min(len), false),
            _ => match segment.footer_offset(len) {
                Ok(end) => (end, false),
                Err(error) => {
                    self.found(error.damage().cloned().ok_or(error)?, None);
                    (len, true)
                }
            },
        };
        self.walk(segment, &segment.source(place.offset, place.next_lsn, end), footer_behind)?;
        place.is_finished = true;
        Ok(())
    }

    /// Tells every place of a source; gives where its last whole frame ends, and that frame's number. Where the end is open,
    /// bytes up to it that are no frame are not told: they are in flight, or a footer that was told.
    fn walk(&mut self, segment: &Opened<'_>, source: &Source<'_>, open_end: bool) -> Result<(u64, Option<Lsn>)> {
        let rollout = self.rollout;
        let wanted = |header: &FrameHeader| wants(rollout, header);
        let (mut end, mut last) = (source.start, None);
        walk_where(source, source.start..source.end, wanted, &mut 0, |step| {
            let damaged = step.rollout();
            match step {
                Step::Frame(frame) => {
                    end = frame.offset.saturating_add(frame.header.frame_len());
                    last = Some(frame.header.lsn);
                    self.ready.push_back(LogItem::Frame(LogFrame::new(segment.record.id, *frame)));
                }
                Step::Lost { next, .. } if open_end && next == source.end => {}
                Step::Lost { offset, fault, .. } | Step::Damaged { offset, fault, .. } => {
                    self.found(damage_of(source.path, offset, fault)?, damaged);
                }
            }
            Ok(())
        })?;
        Ok((end, last))
    }

    fn wants(&self, header: &FrameHeader) -> bool {
        wants(self.rollout, header)
    }

    fn found(&mut self, damage: Damage, rollout: Option<RolloutId>) {
        let rollouts = rollout.into_iter().collect();
        self.ready.push_back(LogItem::Damage(Finding { damage, rollouts }));
    }
}

impl Iterator for Log<'_> {
    type Item = Result<LogItem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn wants(rollout: Option<RolloutId>, header: &FrameHeader) -> bool {
    rollout.is_none_or(|rollout| !header.kind.is_rollout() || header.rollout == rollout)
}
