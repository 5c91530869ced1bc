//! One segment, open for a look: its length, its frames as a scan reads them, where they end.

use std::path::Path;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::format::footer::{TRAILER_BYTES, decode_trailer};
use crate::format::manifest::SegmentRecord;
use crate::format::segment::SegmentKind;
use crate::ids::Lsn;
use crate::log::segment::fault_at;
use crate::log::source::Source;

/// One segment, open for a look.
pub(super) struct Opened<'a> {
    pub(super) record: &'a SegmentRecord,
    pub(super) path: &'a Path,
    pub(super) file: Arc<dyn DiskFile>,
}

impl Opened<'_> {
    /// Bytes of its file.
    pub(super) fn len(&self) -> Result<u64> {
        self.file.len().map_err(|error| Error::io("tell the length of", self.path, error))
    }

    /// Its frames from `start` up to `end`; in a segment that commits wrote, the first one has the number `next_lsn`.
    pub(super) fn source(&self, start: u64, next_lsn: Lsn, end: u64) -> Source<'_> {
        Source {
            file: &*self.file,
            path: self.path,
            segment: self.record.id,
            salt: self.record.salt,
            start,
            end,
            base_lsn: (self.record.kind == SegmentKind::Log).then_some(next_lsn),
            ahead: None,
        }
    }

    /// Where the frames of a sealed segment end, by its trailer.
    pub(super) fn footer_offset(&self, len: u64) -> Result<u64> {
        let source = self.source(0, Lsn::NONE, len);
        // A file that is too short for one was told to be so.
        let Some(offset) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(len) };
        let mut trailer = [0; TRAILER_BYTES];
        source.read(&mut trailer, offset, &mut 0)?;
        let trailer = decode_trailer(&trailer, source.segment, source.salt, len);
        Ok(trailer.map_err(|fault| fault_at(self.path, offset, fault))?.offset)
    }
}
