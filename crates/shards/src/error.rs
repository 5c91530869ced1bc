//! Why shards cannot be made into others.
//!
//! Knows nothing of how that is done.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rollstore::{ErrorKind, RolloutId};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why shards cannot be made into others. The shards are as they were, and nothing has the new name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A store could not be read or written: its own error says which file, and what to do.
    Store(rollstore::Error),
    /// A directory could not be made, named or looked into.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The shards, or the name of what is to be made, are not what they must be: fix the call.
    Invalid(String),
    /// Something has the name already.
    Exists(PathBuf),
    /// Someone else makes the same at this time.
    Busy {
        /// Where.
        path: PathBuf,
        /// What is known of who does.
        holder: String,
    },
    /// Shards are of different runs, or have different options: they are not shards of one store.
    Mismatch {
        /// What differs.
        what: &'static str,
        /// One of them, and what it has.
        a: (PathBuf, String),
        /// Another one.
        b: (PathBuf, String),
    },
    /// Shards stand at different places of the trainer's data: say which cursor to take.
    Cursors {
        /// One of them.
        a: PathBuf,
        /// Another one.
        b: PathBuf,
    },
    /// Versions of a shard mean nothing in the others' count: give them labels.
    Versions {
        /// The shard.
        shard: PathBuf,
        /// The shard by whose count the versions would be told.
        by: PathBuf,
        /// `ref` or `kl_ref`.
        clock: &'static str,
        /// The lowest of them.
        version: u64,
    },
    /// Rollouts live in more than one shard: say which to take.
    Conflicts {
        /// The first of them.
        first: Vec<Conflict>,
        /// The number of all.
        count: u64,
    },
    /// A partial rollout lost a piece to damage: abandon it first.
    BrokenPartial {
        /// The shard.
        shard: PathBuf,
        /// The rollout.
        id: RolloutId,
    },
    /// What was made does not hold what the shards hold. That is a defect of this program.
    Miscount(String),
    /// The caller said to stop. The same call again goes on.
    Interrupted,
}

/// A rollout that lives in more than one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The rollout.
    pub id: RolloutId,
    /// The shards, in the order given.
    pub shards: Vec<PathBuf>,
    /// Whether it is the same in all of them, bit for bit.
    pub is_same: bool,
}

impl Error {
    /// What the caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => ErrorKind::Full,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
            Self::Io { .. } | Self::Miscount(_) => ErrorKind::Io,
            Self::Busy { .. } => ErrorKind::Locked,
            Self::BrokenPartial { .. } => ErrorKind::Damaged,
            Self::Interrupted => ErrorKind::Compute,
            _ => ErrorKind::Invalid,
        }
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io { doing, path, source } => write!(f, "could not {doing} {}: {source}", path.display()),
            Self::Invalid(what) => f.write_str(what),
            Self::Exists(path) => {
                write!(f, "{} is there already, and stays as it is; choose another name, or remove it", path.display())
            }
            Self::Busy { path, holder } => write!(f, "{} is being made by another: {holder}", path.display()),
            Self::Mismatch { what, a: (a, in_a), b: (b, in_b) } => {
                let (a, b) = (a.display(), b.display());
                write!(f, "{what} of {a} is {in_a}, of {b} it is {in_b}: they are no shards of one run")
            }
            Self::Cursors { a, b } => {
                let (a, b) = (a.display(), b.display());
                write!(f, "the cursors of {a} and {b} differ; say of which shard to take it, or take none")
            }
            Self::Versions { shard, by, clock, version } => write!(
                f,
                "{clock} version {version} of {} cannot be told in the versions of {}: their numbers differ, and it has no \
                 label that is known there; advance all shards under one label, or retire what stands on it",
                shard.display(),
                by.display()
            ),
            Self::Conflicts { first, count } => {
                let live = if *count == 1 { "rollout lives" } else { "rollouts live" };
                write!(f, "{count} {live} in more than one shard:")?;
                for (place, Conflict { id, shards, is_same }) in first.iter().enumerate() {
                    let names =
                        shards.iter().map(|shard| shard.display().to_string()).collect::<Vec<_>>().join(" and ");
                    let same = if *is_same { "the same" } else { "different" };
                    write!(f, "{} {id} ({same} in {names})", if place == 0 { "" } else { "," })?;
                }
                let more = count.saturating_sub(first.len() as u64);
                if more > 0 {
                    write!(f, ", and {more} more")?;
                }
                f.write_str("; take the newest of each, or retire the others")
            }
            Self::BrokenPartial { shard, id } => {
                write!(f, "partial rollout {id} of {} lost a piece to damage; abandon it first", shard.display())
            }
            Self::Miscount(what) => write!(f, "what was made is not what the shards hold, and was removed: {what}"),
            Self::Interrupted => f.write_str("interrupted; the same call again goes on"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<rollstore::Error> for Error {
    fn from(error: rollstore::Error) -> Self {
        Self::Store(error)
    }
}
