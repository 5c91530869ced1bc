//! Manifest, segments and index to one state, or to named damage.
//!
//! May touch `state`, `log`, `index`, `format` and `disk`. Knows nothing of windows, plans or batches under way.
//!
//! Always true:
//! - R1. Reading alone decides what the state is; [`Survey::settle`] writes afterwards, and a crash within it changes no answer.
//! - R2. What is missing or short is an error that names it, never an empty store.
//! - R3. A bad frame that a later one attests is damage; any other is a torn tail.
//! - R4. The index saves reading and never decides: without it the same state is found, by reading more.
//! - R5. A frame that the index already reflects tells nothing but a newer place of itself: the retirement of its rollout may
//!   lie in a segment that is not read, or have been dropped.

mod base;
pub(crate) mod epoch;
pub(crate) mod facts;
pub(crate) mod live;
pub(crate) mod manifests;
mod progress;
mod settle;
mod tail;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Damage, Error, Result};
use crate::format::entry::FrameEntry;
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::format::segment::{BUFFERED, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::ids::{Lsn, RolloutId};
use crate::index::{DiskIndex, FileOptions, MemoryIndex, Replay};
use crate::log::event::{Event, Incarnation};
use crate::log::segment::{ReadMode, Segment, fault_at};
use crate::log::source::Source;
use crate::planted::{Bug, planted};
use crate::state::State;

pub(crate) use base::Base;
use base::Begin;
use facts::Facts;
use progress::Progress;
use tail::UnsealedTail;
pub(crate) use tail::scan_unsealed;

/// What the files of a store amount to.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) state: State,
    pub(crate) index: MemoryIndex,
    /// Where the index is flushed to; `None` where it must be made anew.
    pub(crate) disk_index: Option<DiskIndex>,
    /// Every listed segment, open for reading.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Bytes of segments that were read.
    pub(crate) log_bytes_read: u64,
}

/// What a recovery is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dir: &'a Path,
    pub(crate) access: Access,
    pub(crate) read_mode: ReadMode,
    pub(crate) index_file: &'a FileOptions,
}

/// The listed segments and the unsealed tail, before the index: what decides whether the store is sound.
#[derive(Debug)]
pub(crate) struct Survey {
    manifest: Manifest,
    /// The state as of the manifest, or where the unsealed segment is begun.
    state: State,
    listed: Vec<Listed>,
    /// What the segment that was being written to holds; `None` after a clean close.
    tail: Option<UnsealedTail>,
    log_bytes_read: u64,
}

/// One listed segment. Its file is opened when it is read: there may be more segments than descriptors.
#[derive(Debug)]
struct Listed {
    record: SegmentRecord,
    path: PathBuf,
    file_len: u64,
    /// Whether commits may have been acknowledged in it before they were durable.
    is_buffered: bool,
    /// Where its reading begins: what lies in front, the index reflects.
    begin: Begin,
}

impl Listed {
    fn open(&self, disk: &dyn Disk) -> Result<Arc<dyn DiskFile>> {
        disk.open(&self.path, Access::Read).map_err(|error| Error::io("open segment", &self.path, error))
    }

    fn scan<'a>(&'a self, file: &'a dyn DiskFile, end: u64) -> Source<'a> {
        let base_lsn = (self.record.kind == SegmentKind::Log).then_some(self.begin.lsn.next());
        let (segment, salt, start) = (self.record.id, self.record.salt, self.begin.offset);
        Source { file, path: &self.path, segment, salt, start, end, base_lsn, ahead: None }
    }
}

impl Survey {
    /// Reads what this manifest lists, as far as the index does not spare it. Writes nothing.
    pub(crate) fn read(request: &Request<'_>, manifest: Manifest, base: &Base) -> Result<Self> {
        let mut log_bytes_read = 0;
        let open = |record: &SegmentRecord| open_listed(request, record, &mut log_bytes_read);
        let mut listed: Vec<Listed> = manifest.segments.iter().map(open).collect::<Result<_>>()?;
        let mut state = &manifest.state;
        for listed in &mut listed {
            let Some(begun) = base.begun(&listed.record) else { continue };
            listed.begin = begun.begin;
            // The manifest may have been written again since.
            state = if begun.state.lsn > state.lsn { &begun.state } else { state };
        }
        let state = State::from_snapshot(state.clone());
        let active = listed.iter().find(|listed| listed.record.state == SegmentState::Active);
        let tail = active.map(|listed| tail::read(request.disk, listed, state.lsn)).transpose()?;
        log_bytes_read += tail.as_ref().map_or(0, |tail| tail.bytes_read);
        let survey = Self { manifest, state, listed, tail, log_bytes_read };
        survey.check_numbers()?;
        Ok(survey)
    }

    /// Refuses frames with numbers that were never reserved: no writer comes there.
    fn check_numbers(&self) -> Result<()> {
        let state = self.end_state();
        let (ref_version, kl_version) = (state.ref_clock.next, state.kl_clock.next);
        let active = self.listed.iter().find(|listed| listed.record.state == SegmentState::Active);
        match active {
            Some(active) if !self.manifest.covers(state.lsn, ref_version, kl_version) => {
                let expected = "frames and versions below the manifest's ceilings".to_owned();
                let found = format!("up to frame {}, ref version {ref_version}, KL version {kl_version}", state.lsn);
                let offset = SEGMENT_HEADER_BYTES as u64;
                Err(Error::damaged(Damage { file: active.path.clone(), offset, expected, found }))
            }
            _ => Ok(()),
        }
    }

    /// Reads what an open without an index would read too: where this succeeds, the store opens.
    pub(crate) fn check_facts(&self, disk: &dyn Disk) -> Result<()> {
        self.listed.iter().try_for_each(|listed| facts::read(disk, listed, &mut 0).map(drop))
    }

    /// The state at the end of the log.
    pub(crate) fn end_state(&self) -> State {
        let mut state = self.state.clone();
        for frame in self.tail.iter().flat_map(|tail| &tail.frames) {
            // The manifest may reflect some of them already.
            if frame.header.lsn > state.lsn {
                state.apply(frame.header.lsn, &frame.event);
            }
        }
        state
    }

    /// Takes the index, or rebuilds it, and brings both index and state up to the end of the log.
    pub(crate) fn load(self, request: &Request<'_>, mut base: Base) -> Result<Recovered> {
        let state = self.end_state();
        let Self { manifest, listed, tail, mut log_bytes_read, .. } = self;
        log_bytes_read += base.log_bytes_read;
        let is_uncovered =
            |listed: &&Listed| listed.record.state != SegmentState::Active && !base.covered.contains(&listed.record.id);
        let uncovered: Vec<&Listed> = listed.iter().filter(is_uncovered).collect();
        let index = std::mem::take(&mut base.index);
        let read = |listed: &Listed| base.facts(request.disk, listed, &mut log_bytes_read);
        let mut index = fill(index, base.applied, &uncovered, tail.as_ref(), read)?;
        for line in &state.retire_lines {
            index.retire_created_before(line.created_before, line.lsn);
        }
        let segments = listed.iter().map(|listed| open_segment(request, listed, tail.as_ref()));
        let segments = segments.collect::<Result<_>>()?;
        Ok(Recovered { manifest, state, index, disk_index: base.disk_index, segments, log_bytes_read })
    }
}

/// Opens one listed segment and checks its length and header.
fn open_listed(request: &Request<'_>, record: &SegmentRecord, bytes_read: &mut u64) -> Result<Listed> {
    let path = request.dir.join(segment_file_name(record.id));
    let missing = |found: String| {
        let expected = "a segment that the manifest lists".to_owned();
        Error::damaged(Damage { file: path.clone(), offset: 0, expected, found })
    };
    let file = request.disk.open(&path, Access::Read).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing("no file".to_owned()),
        _ => Error::io("open segment", &path, error),
    })?;
    let file_len = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
    let (least, most) = match record.state {
        SegmentState::Active => (SEGMENT_HEADER_BYTES as u64, u64::MAX),
        SegmentState::Sealed { len, .. } => (len, len),
        // What stands behind a cut is the torn tail that was cut off; it stays, since the file may be linked.
        SegmentState::Cut { end, .. } => (end, u64::MAX),
    };
    // Whatever a manifest says, a segment has its header.
    let least = least.max(SEGMENT_HEADER_BYTES as u64);
    if (file_len < least || file_len > most) && !planted(Bug::AnySealedLength) {
        let expected = format!("{least} bytes by the manifest");
        return Err(Error::damaged(Damage { file: path, offset: file_len, expected, found: format!("{file_len}") }));
    }
    let mut header = vec![0; SEGMENT_HEADER_BYTES];
    *bytes_read += SEGMENT_HEADER_BYTES as u64;
    file.read_exact_at(&mut header, 0).map_err(|error| Error::io("read the segment header", &path, error))?;
    let header = SegmentHeader::decode(&header).map_err(|fault| fault_at(&path, 0, fault))?;
    if (header.segment, header.salt) != (record.id, record.salt) {
        let expected = format!("segment {} with salt {:#018x}", record.id, record.salt);
        let found = format!("segment {} with salt {:#018x}", header.segment, header.salt);
        return Err(Error::damaged(Damage { file: path, offset: 0, expected, found }));
    }
    let is_buffered = header.compatible_features & BUFFERED != 0;
    Ok(Listed { record: *record, path, file_len, is_buffered, begin: Begin::at_start(record.base_lsn) })
}

/// Brings an index up to the end of the log. Retirements are collected first: a frame of a retired rollout must not
/// bring it back, wherever the two lie.
fn fill(
    base: MemoryIndex,
    applied: Lsn,
    uncovered: &[&Listed],
    tail: Option<&UnsealedTail>,
    mut read: impl FnMut(&Listed) -> Result<Rc<Facts>>,
) -> Result<MemoryIndex> {
    let mut ended = Ended::default();
    // Each is read twice.
    let mut progress = Progress::new(uncovered.len() * 2);
    for listed in uncovered.iter().filter(|_| !planted(Bug::ForgetRetirements)) {
        for victim in &read(listed)?.retired {
            ended.add(Incarnation { id: victim.id, insert_lsn: victim.insert_lsn });
        }
        progress.step();
    }
    let tail_frames = || tail.iter().flat_map(|tail| tail.frames.iter().map(|frame| (tail.segment, frame)));
    for (_, frame) in tail_frames() {
        if let Event::Retire { victims, .. } = &frame.event {
            for victim in victims {
                ended.add(*victim);
            }
        }
    }
    let mut replay = Replay::new(base);
    let mut used = Vec::new();
    let mut apply = |segment, entry: &FrameEntry| {
        if entry.lsn <= applied {
            replay.relocate(segment, entry);
        } else if !ended.contains(entry.id, entry.insert_lsn) {
            replay.apply(segment, entry);
        }
    };
    for listed in uncovered {
        let facts = read(listed)?;
        facts.entries.iter().for_each(|entry| apply(listed.record.id, entry));
        used.extend(&facts.used);
        progress.step();
    }
    for (segment, frame) in tail_frames() {
        match &frame.event {
            Event::Rollout(entry) => apply(segment, entry),
            Event::Tally { used: ids, .. } => used.extend(ids.iter().map(|id| (*id, frame.header.lsn))),
            _ => {}
        }
    }
    let mut index = replay.finish();
    // Those that an index on disk still held.
    for (id, last) in ended.0 {
        index.retire_up_to(id, last);
    }
    for (id, lsn) in used {
        index.mark_used(id, lsn);
    }
    Ok(index)
}

/// The last incarnation of each id that was retired: a later one begins only after the one before ended.
#[derive(Default)]
struct Ended(HashMap<RolloutId, Lsn>);

impl Ended {
    fn add(&mut self, victim: Incarnation) {
        let last = self.0.entry(victim.id).or_default();
        *last = victim.insert_lsn.max(*last);
    }

    fn contains(&self, id: RolloutId, insert_lsn: Lsn) -> bool {
        self.0.get(&id).is_some_and(|last| insert_lsn <= *last)
    }
}

fn open_segment(request: &Request<'_>, listed: &Listed, tail: Option<&UnsealedTail>) -> Result<Arc<Segment>> {
    let end = match listed.record.state {
        SegmentState::Active => tail.map_or(0, |tail| tail.end),
        SegmentState::Sealed { len, .. } => len,
        SegmentState::Cut { end, .. } => end,
    };
    let record = &listed.record;
    Segment::open(request.disk, &listed.path, record.id, record.salt, end, request.read_mode)
}
