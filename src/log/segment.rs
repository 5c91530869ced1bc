//! One segment file, read in place through its map, or by positioned reads where it cannot be mapped.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::disk::aligned::AlignedBuf;
use crate::disk::map::Map;
use crate::disk::private::Private;
use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::format::fault::Fault;
use crate::format::frame::FrameSeed;
use crate::ids::{Location, SegmentId};

/// How segments are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadMode {
    /// Through a map; otherwise by positioned reads into aligned heap memory.
    pub(crate) mapped: bool,
    /// Check checksums on every access instead of once a process.
    pub(crate) recheck_always: bool,
}

/// A segment file, open for reading.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) path: PathBuf,
    salt: u64,
    /// Kept open only where the file is not mapped: descriptors are scarcer than maps.
    file: Option<Arc<dyn DiskFile>>,
    map: Option<Map>,
    /// Bytes below this may be read.
    published: AtomicU64,
    verified: Verified,
    /// This process wrote what lies below, and knows its checksums: nothing of it stands in `verified`.
    own_end: AtomicU64,
    recheck_always: bool,
}

impl Segment {
    /// Opens a segment whose bytes below `end` never change.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        id: SegmentId,
        salt: u64,
        end: u64,
        mode: ReadMode,
    ) -> Result<Arc<Self>> {
        let file = disk.open(path, Access::Read).map_err(|error| Error::io("open segment", path, error))?;
        let segment = Self::over(file, path, id, salt, end, mode);
        segment.publish(end);
        Ok(Arc::new(segment))
    }

    /// A handle on an open file of which nothing is published yet; it may grow to `capacity` bytes.
    pub(crate) fn over(
        file: Arc<dyn DiskFile>,
        path: &Path,
        id: SegmentId,
        salt: u64,
        capacity: u64,
        mode: ReadMode,
    ) -> Self {
        // Where mapping fails (a limit, a file system without it), positioned reads serve just as well.
        let map = if mode.mapped { file.map(capacity).unwrap_or_default() } else { None };
        let file = map.is_none().then_some(file);
        Self {
            id,
            path: path.to_owned(),
            salt,
            file,
            map,
            published: AtomicU64::new(0),
            verified: Verified::new(capacity),
            own_end: AtomicU64::new(0),
            recheck_always: mode.recheck_always,
        }
    }

    /// Lets readers see the bytes below `end`.
    pub(crate) fn publish(&self, end: u64) {
        if let Some(map) = &self.map {
            map.publish(end);
        }
        self.published.fetch_max(end, Ordering::Release);
    }

    /// Bytes that may be read.
    pub(crate) fn published_bytes(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The seed of the header checksum of a frame at `offset`.
    pub(crate) fn seed(&self, offset: u64) -> FrameSeed {
        FrameSeed { salt: self.salt, segment: self.id, offset }
    }

    /// The bytes of a range below the published end.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Result<Bytes<'_>> {
        let published = self.published.load(Ordering::Acquire);
        if range.start > range.end || range.end > published {
            return Err(self.damage(
                range.start,
                format!("bytes up to {}", range.end),
                format!("an end at {published}"),
            ));
        }
        let Some(file) = &self.file else { return Ok(Bytes::Mapped(self.mapped(range).unwrap_or_default())) };
        let len =
            usize::try_from(range.end - range.start).map_err(|_| Error::new(ErrorKind::Io, "range exceeds memory"))?;
        let mut buffer = AlignedBuf::zeroed(len);
        file.read_exact_at(&mut buffer, range.start)
            .map_err(|error| Error::io(format_args!("read {len} bytes at {}", range.start), &self.path, error))?;
        Ok(Bytes::Copied(buffer))
    }

    /// Says that the frame at this place will be read soon.
    pub(crate) fn prefetch(&self, at: Location) {
        /// Header, descriptor of a few columns and the first values.
        const HEAD_BYTES: u64 = 384;
        let Some(map) = &self.map else { return };
        let start = at.offset_bytes();
        map.prefetch(start..start.saturating_add(HEAD_BYTES).min(self.published_bytes()));
    }

    /// The mapped bytes of a range; `None` where reads copy.
    pub(crate) fn mapped(&self, range: Range<u64>) -> Option<&[u8]> {
        self.map.as_ref()?.get(range)
    }

    /// A private map of bytes that this segment lent; `None` where it cannot be had. See [`Map::private`].
    pub(crate) fn private(&self, lent: &[u8]) -> Option<Private> {
        self.map.as_ref()?.private(&self.path, lent)
    }

    /// Asks for the pages of a range, so that a failing disk is an error and not a signal, unless this process checked the
    /// object at `offset`, of which the range is a part, before.
    pub(crate) fn populate_once(&self, offset: u64, range: Range<u64>) -> Result<()> {
        let Some(map) = self.map.as_ref().filter(|_| !self.is_verified(offset)) else { return Ok(()) };
        let (len, start) = (range.end.saturating_sub(range.start), range.start);
        let populated = map.populate(range);
        populated.map_err(|error| Error::io(format_args!("read {len} bytes at {start}"), &self.path, error))
    }

    /// Whether this process wrote or checked the object at `offset`, and need not check it again.
    pub(crate) fn is_verified(&self, offset: u64) -> bool {
        let is_own = || offset < self.own_end.load(Ordering::Acquire);
        !self.recheck_always && (is_own() || self.verified.contains(offset))
    }

    /// Runs `check` on an object at `offset` unless this process did before. `range` is what the check reads.
    pub(crate) fn verify_once(&self, offset: u64, range: Range<u64>, check: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_verified(offset) {
            return Ok(());
        }
        self.populate_once(offset, range)?;
        check()?;
        self.verified.insert(offset);
        Ok(())
    }

    /// This process wrote all that lies below `end`, and knows its checksums.
    pub(crate) fn mark_own(&self, end: u64) {
        self.own_end.fetch_max(end, Ordering::Release);
    }

    /// The error for bytes that are not what was written.
    pub(crate) fn damage(&self, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::damaged(Damage { file: self.path.clone(), offset, expected: expected.into(), found: found.into() })
    }

    /// The error for what `format` refused in an object at `offset`.
    pub(crate) fn fault(&self, offset: u64, fault: Fault) -> Error {
        fault_at(&self.path, offset, fault)
    }
}

/// The error for what `format` refused in an object at `offset` of a file.
pub(crate) fn fault_at(path: &Path, offset: u64, fault: Fault) -> Error {
    damage_of(path, offset, fault).map_or_else(|error| error, Error::damaged)
}

/// What `format` refused, as damage; an error where it is not damaged but too new.
pub(crate) fn damage_of(path: &Path, offset: u64, fault: Fault) -> Result<Damage> {
    match fault {
        Fault::TooNew { what, found } => {
            let message =
                format!("{} holds {what} {found}, newer than this version reads; upgrade rollstore", path.display());
            Err(Error::new(ErrorKind::TooNew, message).at(path))
        }
        Fault::Damaged { what, offset: within, expected, found } => Ok(Damage {
            file: path.to_owned(),
            offset: offset.saturating_add(within),
            expected: format!("{what} {expected}"),
            found,
        }),
    }
}

/// Bytes of a segment: in place, or a copy aligned to 64 bytes.
#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    Mapped(&'a [u8]),
    Copied(AlignedBuf),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Copied(buffer) => buffer,
            Self::Mapped(bytes) => bytes,
        }
    }
}

/// Which objects of a segment were checked: one bit for each 64-byte unit, allocated on the first insert.
#[derive(Debug)]
struct Verified {
    words: OnceLock<Box<[AtomicU64]>>,
    word_count: usize,
}

impl Verified {
    const UNITS_PER_WORD: u64 = u64::BITS as u64;

    fn new(capacity: u64) -> Self {
        let words = capacity.div_ceil(Location::UNIT_BYTES * Self::UNITS_PER_WORD);
        Self { words: OnceLock::new(), word_count: usize::try_from(words).unwrap_or(0) }
    }

    fn place(offset: u64) -> (usize, u64) {
        let unit = offset / Location::UNIT_BYTES;
        (usize::try_from(unit / Self::UNITS_PER_WORD).unwrap_or(usize::MAX), 1 << (unit % Self::UNITS_PER_WORD))
    }

    fn contains(&self, offset: u64) -> bool {
        let (word, bit) = Self::place(offset);
        let words = self.words.get().and_then(|words| words.get(word));
        words.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn insert(&self, offset: u64) {
        let (word, bit) = Self::place(offset);
        let words = self.words.get_or_init(|| bytemuck::zeroed_slice_box(self.word_count));
        if let Some(word) = words.get(word) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}
