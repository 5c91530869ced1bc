//! One error type, whose kind says what the caller does next.
//!
//! May touch nothing but `ids`. Knows nothing of files beyond their names.
//!
//! Always true:
//! - E1. A message says what, where and the numbers, in lower case, and names the next step where there is one.
//! - E2. A new kind exists only where a caller would act differently.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::ids::RolloutId;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call was wrong: fix the arguments. Nothing changed.
    Invalid,
    /// There is no such rollout, column, store or file.
    NotFound,
    /// Another writer holds the store: stop it, or open read-only.
    Locked,
    /// No space: free some, then go on. Where the store stopped over it, the message says so and later calls are `Poisoned`.
    Full,
    /// Bytes on disk are not what was written: verify, then restore or repair.
    Damaged,
    /// An earlier write failed: reopen the store. Reads go on.
    Poisoned,
    /// Another writer took the store over, on a file system without locks: end this one. What it acknowledged is safe.
    Fenced,
    /// The store was written by a newer format: upgrade.
    TooNew,
    /// The operating system refused or failed an operation.
    Io,
    /// The caller's own closure failed; its error is the source. Nothing of its work was stored.
    Compute,
}

/// Where bytes on disk differ from what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// Byte offset in the file of the damaged object.
    pub offset: u64,
    /// What should stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, expected, found } = self;
        write!(f, "{} is damaged at byte {offset}: expected {expected}, found {found}", file.display())
    }
}

/// An error: what happened, where, with which numbers, and what to do next.
///
/// # What do I do with it?
/// ```
/// use rollstore::{ErrorKind, RolloutStore};
/// let error = RolloutStore::options().window(8).create(false).open("/no/such/store").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    rollout: Option<RolloutId>,
    damage: Option<Damage>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// What the caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory that the error is about, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The rollout that the error is about, where there is one.
    #[must_use]
    pub fn rollout(&self) -> Option<RolloutId> {
        self.0.rollout
    }

    /// File, offset, expected and found, for an error of kind [`ErrorKind::Damaged`].
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.0.damage.as_ref()
    }

    /// An error of your own, for what extends the store: it comes to the caller as the store's own errors do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Inner { kind, message, path: None, rollout: None, damage: None, source: None }))
    }

    /// [`Error::new`] of kind [`ErrorKind::Invalid`], for what you hand to the store: a
    /// [`GatherInto`](crate::GatherInto) that refuses rows, say.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// A failed disk operation: `what` is what was being done ("write 4096 bytes at 8192"), `path` is the file.
    pub(crate) fn io(what: impl fmt::Display, path: &Path, source: io::Error) -> Self {
        let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let kind = if full { ErrorKind::Full } else { ErrorKind::Io };
        let message = format!("could not {what}: {}: {source}", path.display());
        Self::new(kind, message).at(path).caused_by(source)
    }

    pub(crate) fn damaged(damage: Damage) -> Self {
        let message = format!("{damage}; run \"rollstore verify\" for the extent");
        let mut error = Self::new(ErrorKind::Damaged, message).at(&damage.file);
        error.0.damage = Some(damage);
        error
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    pub(crate) fn of(mut self, rollout: RolloutId) -> Self {
        self.0.rollout = Some(rollout);
        self
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
