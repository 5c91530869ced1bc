//! Standard output: buffered, quiet when the reader has gone, loud when the bytes could not be written.
//!
//! May touch standard output, and wait at it. Knows nothing of what is written.
//!
//! Always true:
//! - O1. A closed pipe ends the command at the next write; any other failed write is an error.
//! - O2. Bold type is used only on a terminal, and not where `NO_COLOR` is set or `TERM` is `dumb`.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::exit::{Failure, Outcome};

/// Bytes gathered before a write: large enough that `dump` is not bound by system calls.
const BUFFER_BYTES: usize = 64 << 10;

/// The writer of a command's data.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    is_styled: bool,
    /// A terminal that can be cleared.
    is_screen: bool,
}

impl Output {
    /// The process's standard output.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_screen = stdout.is_terminal() && !dumb;
        let is_styled = is_screen && !set("NO_COLOR");
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, Box::new(RawStdout)), is_styled, is_screen }
    }

    /// The stream itself; what goes wrong with it is told by [`failure`].
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.writer
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Outcome {
        writeln!(self.writer, "{line}").map_err(|error| failure(&error))
    }

    /// Writes one line of JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Outcome {
        serde_json::to_writer(&mut self.writer, value).map_err(|error| failure(&error.into()))?;
        self.line("")
    }

    /// Writes everything gathered so far.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.writer.flush().map_err(|error| failure(&error))
    }

    /// Writes everything gathered so far and waits, for as long as there is a reader.
    pub(crate) fn wait(&mut self, time: Duration) -> Outcome {
        self.flush()?;
        let stdout = io::stdout();
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Errors are told whether or not they are asked for: a pipe without a reader is one.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut watched, timeout.as_ref()) {
                Ok(0) => return Ok(()),
                Ok(_) if watched.iter().any(|stdout| stdout.revents().intersects(PollFlags::ERR | PollFlags::HUP)) => {
                    return Err(Failure::ReaderGone);
                }
                // Some systems do not watch devices.
                Ok(_) => {
                    std::thread::sleep(left);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::could_not_look(format!("could not wait: {error}"))),
            }
        }
    }

    /// Clears a terminal, so that the next look stands where the last one did; puts an empty line between them elsewhere.
    pub(crate) fn next_look(&mut self, is_first: bool) -> Outcome {
        match (self.is_screen, is_first) {
            (true, _) => write!(self.writer, "\u{1b}[H\u{1b}[2J").map_err(|error| failure(&error)),
            (false, true) => Ok(()),
            (false, false) => self.line(""),
        }
    }

    /// The text in bold where escapes are in use.
    pub(crate) fn bold(&self, text: &str) -> String {
        if self.is_styled { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("is_styled", &self.is_styled).finish_non_exhaustive()
    }
}

/// Why a write to standard output ended the command.
pub(crate) fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::could_not_look(format!("could not write to standard output: {error}")),
    }
}

/// Standard output by its handle. The handle's own line buffer would write once a line, so each write is passed on and
/// flushed as one piece.
struct RawStdout;

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}
