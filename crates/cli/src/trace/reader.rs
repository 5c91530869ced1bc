//! The file of a trace, line by line, plain or gzip.
//!
//! May touch one file, read-only. Knows nothing of what a line says.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::event::Line;
use crate::text;

/// Greatest length of one line, in bytes: a batch of 32 completions of 131 K tokens fits.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 256 << 10;

/// How far a trace was read: lines, and the checksum of their bytes, which tells this trace from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// Lines read.
    pub lines: u64,
    /// CRC-32 of these lines, line ends included.
    pub crc32: u32,
}

/// What is wrong with a trace, and where.
#[derive(Debug)]
pub struct TraceError {
    path: PathBuf,
    line: Option<u64>,
    what: String,
}

impl TraceError {
    /// The line that the error is about, from 1; `None` where it is about the whole file.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = text::path(&self.path);
        match self.line {
            Some(line) => write!(f, "{path}: line {line}: {}", self.what),
            None => write!(f, "{path}: {}", self.what),
        }
    }
}

impl std::error::Error for TraceError {}

/// Reads a trace from its start to its end.
pub struct TraceReader {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    line: Vec<u8>,
    position: Position,
    bytes_read: Arc<AtomicU64>,
    size_bytes: u64,
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReader")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens a trace; gzip is known by its first two bytes, whatever the name.
    ///
    /// # Errors
    /// When the file cannot be opened or is a directory.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |error: &io::Error| TraceError { path: path.to_owned(), line: None, what: error.to_string() };
        #[expect(clippy::disallowed_types, reason = "a trace is no part of a store")]
        let file = fs::File::open(path).map_err(|error| failed(&error))?;
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        if metadata.is_dir() {
            return Err(failed(&io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Self::new(path, file, metadata.len())
    }

    /// Reads a trace of `size_bytes` from anywhere; `path` is what errors call it.
    ///
    /// # Errors
    /// When its first bytes cannot be read.
    pub fn new(path: &Path, file: impl Read + 'static, size_bytes: u64) -> Result<Self, TraceError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: file, bytes_read: Arc::clone(&bytes_read) };
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, counted);
        let failed = |error: io::Error| TraceError { path: path.to_owned(), line: None, what: error.to_string() };
        let packed = raw.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        let lines: Box<dyn BufRead> = if packed {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, flate2::bufread::MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Self {
            path: path.to_owned(),
            lines,
            line: Vec::new(),
            position: Position::default(),
            bytes_read,
            size_bytes,
        })
    }

    /// The next line's event; `None` at the end. Empty lines are passed over.
    ///
    /// # Errors
    /// When the line cannot be read, is too long, is no event, or holds one that contradicts itself.
    pub fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        while self.read_line()? {
            let json = self.line.trim_ascii_end();
            if !json.is_empty() {
                let number = self.position.lines;
                return Line::parse(number, json).map(Some).map_err(|what| self.error_at(number, what));
            }
        }
        Ok(None)
    }

    /// Reads up to `position` without looking into the lines.
    ///
    /// # Errors
    /// When the trace is shorter, or its bytes up to there are not those that gave the position.
    pub fn skip_to(&mut self, position: Position) -> Result<(), TraceError> {
        while self.position.lines < position.lines && self.read_line()? {}
        if self.position == position {
            return Ok(());
        }
        let what = format!(
            "not the trace that was replayed before: its first {} lines have the checksum {:08x}, expected {:08x} of {} lines",
            self.position.lines, self.position.crc32, position.crc32, position.lines
        );
        Err(TraceError { path: self.path.clone(), line: None, what })
    }

    /// Reads to the end without looking into the lines, and counts them.
    ///
    /// # Errors
    /// When a line cannot be read or is too long.
    pub fn count_lines(mut self) -> Result<u64, TraceError> {
        while self.read_line()? {}
        Ok(self.position.lines)
    }

    /// How far the trace was read.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The trace's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file read so far, and in all; packed where the file is.
    #[must_use]
    pub fn progress_bytes(&self) -> (u64, u64) {
        (self.bytes_read.load(Ordering::Relaxed), self.size_bytes)
    }

    /// Reads one line into the buffer; false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let number = self.position.lines.saturating_add(1);
        let read = self.lines.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| self.error_at(number, format!("could not be read: {error}")))?;
        if u64::try_from(read).is_ok_and(|read| read > LINE_BYTES_MAX) {
            return Err(self.error_at(number, format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if read == 0 {
            return Ok(false);
        }
        let mut hasher = crc32fast::Hasher::new_with_initial(self.position.crc32);
        hasher.update(&self.line);
        self.position = Position { lines: number, crc32: hasher.finalize() };
        Ok(true)
    }

    fn error_at(&self, line: u64, what: impl Into<String>) -> TraceError {
        TraceError { path: self.path.clone(), line: Some(line), what: what.into() }
    }
}

/// A reader that counts what passes.
struct Counted<R> {
    inner: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes_read.fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(read)
    }
}
