//! What spares a recovery reading: the index on disk, and, once the log is settled, what was read before.
//!
//! Always true:
//! - B1. A segment is begun behind its start only where the very frame that the index ends with lies there, whole header and all:
//!   an index of another log, or one that is ahead of this one, is of no use.
//! - B2. What the index reflects is durable: its flush waited for the log.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use super::facts::{self, Facts};
use super::{Listed, Request, open_listed};
use crate::disk::Disk;
use crate::error::Result;
use crate::format::kind::FrameFlags;
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState, StateSnapshot};
use crate::format::names::INDEX;
use crate::format::resume::Resume;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::{Lsn, SegmentId};
use crate::index::{self, DiskIndex, Expected, Identity, MemoryIndex, Rejected};
use crate::planted::{Bug, planted};

/// What is known before the log is read; nothing where the index on disk is of no use.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub(super) index: MemoryIndex,
    pub(super) disk_index: Option<DiskIndex>,
    /// The index reflects every frame up to this one.
    pub(super) applied: Lsn,
    /// Segments that need not be read.
    pub(super) covered: BTreeSet<SegmentId>,
    pub(super) begun: Option<Begun>,
    /// What a settlement found in the segment that it cut.
    pub(super) cut: Option<(SegmentId, Rc<Facts>)>,
    /// Bytes of segments that were read.
    pub(super) log_bytes_read: u64,
}

/// A segment that need not be read from its start.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) segment: SegmentId,
    pub(super) begin: Begin,
    /// The state at that place.
    pub(super) state: StateSnapshot,
}

/// Where the reading of a segment begins, and what is known of the frames in front of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    pub(super) offset: u64,
    /// The frame in front.
    pub(super) lsn: Lsn,
    /// The lowest incarnation of those in front.
    pub(super) min_insert_lsn: Lsn,
}

impl Begin {
    /// The first frame of a segment.
    pub(super) fn at_start(base_lsn: Lsn) -> Self {
        let lsn = Lsn::new(base_lsn.get().saturating_sub(1));
        Self { offset: SEGMENT_HEADER_BYTES as u64, lsn, min_insert_lsn: Lsn::NONE }
    }

    /// Whether frames lie in front.
    pub(super) fn is_behind_start(&self) -> bool {
        self.offset > SEGMENT_HEADER_BYTES as u64
    }
}

impl Base {
    /// Loads the index, and finds out where the log is to be read.
    pub(crate) fn load(request: &Request<'_>, manifest: &Manifest) -> Self {
        let path = request.dir.join(INDEX);
        let mut log_bytes_read = 0;
        Self::try_load(request, manifest, &path, &mut log_bytes_read).unwrap_or_else(|reason| {
            tracing::info!(index = %path.display(), %reason, "the index is rebuilt from the log");
            Self { log_bytes_read, ..Self::default() }
        })
    }

    fn try_load(
        request: &Request<'_>,
        manifest: &Manifest,
        path: &Path,
        bytes_read: &mut u64,
    ) -> std::result::Result<Self, Rejected> {
        let stored = index::open(request.disk, path, request.access, request.index_file)?;
        let begun = stored.resume().and_then(|resume| find(request, manifest, resume, bytes_read));
        let log_end = begun.as_ref().map_or(manifest.state.lsn, |begun| begun.begin.lsn.max(manifest.state.lsn));
        let segments = manifest.segments.iter().map(|record| record.id).collect();
        let identity = Identity { store: manifest.store_uuid, epoch: manifest.epoch };
        let loaded = stored.load(&Expected { identity, log_end, segments: &segments })?;
        Ok(Self {
            index: loaded.index,
            disk_index: loaded.disk,
            applied: loaded.meta.applied_lsn,
            covered: loaded.meta.covered.into_iter().collect(),
            begun,
            cut: None,
            log_bytes_read: *bytes_read,
        })
    }

    /// What there is of a segment in front of the place where its reading begins. A sealed one is known by its footer.
    pub(super) fn begun(&self, record: &SegmentRecord) -> Option<&Begun> {
        let is_sealed = matches!(record.state, SegmentState::Sealed { .. });
        self.begun.as_ref().filter(|begun| begun.segment == record.id && !is_sealed)
    }

    /// What a finished segment says, read where it is not known yet.
    pub(super) fn facts(&self, disk: &dyn Disk, listed: &Listed, bytes_read: &mut u64) -> Result<Rc<Facts>> {
        match &self.cut {
            Some((segment, facts)) if *segment == listed.record.id => Ok(Rc::clone(facts)),
            _ => facts::read(disk, listed, bytes_read).map(Rc::new),
        }
    }
}

/// Looks for the frame that the index ends with, in a segment that would have to be read from its start.
fn find(request: &Request<'_>, manifest: &Manifest, resume: &Resume, bytes_read: &mut u64) -> Option<Begun> {
    let Resume { end, state } = resume;
    let record = manifest.segments.iter().find(|record| record.id == end.last.segment)?;
    let listed = open_listed(request, record, bytes_read).ok()?;
    let (file_end, end_lsn) = match record.state {
        SegmentState::Active => (listed.file_len, Lsn::new(u64::MAX)),
        SegmentState::Cut { end, end_lsn } => (end, end_lsn),
        SegmentState::Sealed { .. } => return None,
    };
    let offset = end.last.offset_bytes();
    if planted(Bug::BeginAnywhere) {
        let begin = Begin { offset: offset.min(file_end), lsn: state.lsn, min_insert_lsn: end.min_insert_lsn };
        return Some(Begun { segment: record.id, begin, state: state.clone() });
    }
    let file = listed.open(request.disk).ok()?;
    let source = listed.scan(&*file, file_end);
    let header = source.header_at(offset, bytes_read).ok()?;
    let is_the_one = crc32fast::hash(&header.encode(&source.seed(offset))) == end.header_crc
        && header.lsn == state.lsn
        && header.flags.contains(FrameFlags::BATCH_END)
        && header.lsn <= end_lsn;
    let begin = Begin {
        offset: offset.saturating_add(header.frame_len()),
        lsn: header.lsn,
        min_insert_lsn: end.min_insert_lsn,
    };
    is_the_one.then(|| Begun { segment: record.id, begin, state: state.clone() })
}
