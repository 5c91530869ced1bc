//! A segment file as scans read it: by positioned reads, up to an end.

use std::path::Path;

use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::format::frame::FrameSeed;
use crate::ids::{Lsn, SegmentId};

/// Bytes that are read at a time.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;

/// A segment file under scan.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a dyn DiskFile,
    pub(crate) path: &'a Path,
    pub(crate) segment: SegmentId,
    pub(crate) salt: u64,
    /// Where the first frame to be read lies.
    pub(crate) start: u64,
    /// Where to stop: the end of the file, or of what a cut segment counts.
    pub(crate) end: u64,
    /// The LSN of that frame; `None` where any will do.
    pub(crate) base_lsn: Option<Lsn>,
    /// Bytes of the file that were read beforehand, and where they begin: a small frame is then one read, not one for each
    /// of its parts.
    pub(crate) ahead: Option<(u64, &'a [u8])>,
}

impl Source<'_> {
    /// The seed of the header checksum of a frame at `offset`.
    pub(crate) fn seed(&self, offset: u64) -> FrameSeed {
        FrameSeed { salt: self.salt, segment: self.segment, offset }
    }

    fn found_ahead(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let (start, bytes) = self.ahead?;
        let from = usize::try_from(offset.checked_sub(start)?).ok()?;
        bytes.get(from..from.checked_add(len)?)
    }

    /// Reads at `offset`.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64, bytes_read: &mut u64) -> Result<()> {
        let len = buffer.len();
        *bytes_read += len as u64;
        if let Some(found) = self.found_ahead(offset, len) {
            buffer.copy_from_slice(found);
            return Ok(());
        }
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| Error::io(format_args!("read {len} bytes at {offset}"), self.path, error))
    }
}
