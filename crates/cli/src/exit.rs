//! How a command ends: its exit code, and the one line that says why.
//!
//! May touch standard error. Knows nothing of what the commands do.
//!
//! Always true:
//! - X1. 0 means sound, 1 that damage or a difference was found, 2 that the program could not look.
//! - X2. A reader that closed the pipe is no error: the program ends quietly with 0.

use std::io::{self, Write};
use std::path::Path;

use crate::text;
use crate::trace::TraceError;

/// The result of everything that may end the program.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// What a command that ran to its end has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was wrong.
    Sound,
    /// Damage was met, told on standard error and passed.
    Damaged,
    /// What was looked at is not as it should be, or not the same.
    Different,
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of standard output went away.
    ReaderGone,
    /// Damage, or a difference between what was and what should be.
    Found(String),
    /// The program could not look: a bad argument, a bad trace, no such store, a failing disk.
    CouldNotLook(String),
    /// A child process ended with this code and has said why.
    Child(u8),
}

impl Failure {
    pub(crate) fn could_not_look(message: impl Into<String>) -> Self {
        Self::CouldNotLook(message.into())
    }

    /// The same failure, told as one of a line of a trace.
    pub(crate) fn at_line(self, trace: &Path, line: u64) -> Self {
        let place = |message| format!("{}: line {line}: {message}", text::path(trace));
        match self {
            Self::Found(message) => Self::Found(place(message)),
            Self::CouldNotLook(message) => Self::CouldNotLook(place(message)),
            Self::ReaderGone | Self::Child(_) => self,
        }
    }

    /// A failed operation on a file: `what` is what was being done.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::CouldNotLook(format!("could not {what} {}: {error}", text::path(path)))
    }
}

impl From<rollstore::Error> for Failure {
    fn from(error: rollstore::Error) -> Self {
        match error.kind() {
            rollstore::ErrorKind::Damaged => Self::Found(error.to_string()),
            _ => Self::CouldNotLook(error.to_string()),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::CouldNotLook(error.to_string())
    }
}

/// Tells the failure, if any, and gives the program's exit code.
pub(crate) fn finish(outcome: Outcome<Verdict>) -> u8 {
    match outcome {
        Ok(Verdict::Sound) | Err(Failure::ReaderGone) => 0,
        Ok(Verdict::Damaged | Verdict::Different) => 1,
        Err(Failure::Found(message)) => {
            note(&message);
            1
        }
        Err(Failure::CouldNotLook(message)) => {
            note(&message);
            2
        }
        Err(Failure::Child(code)) => code,
    }
}

/// Writes one line to standard error. Nobody can be told that standard error itself fails, so that is passed over.
pub(crate) fn note(message: &str) {
    let _ = writeln!(io::stderr().lock(), "rollstore: {}", text::escape(message));
}
