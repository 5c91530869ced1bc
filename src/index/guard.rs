//! The guard around every call into redb: what fails or panics inside becomes a value.
//!
//! May touch redb and `error`. Knows nothing of tables or rows.
//!
//! Always true:
//! - G1. No panic passes the guard. (A program built with `panic = "abort"` has no guard: redb's own checks at open,
//!   which report damage as errors, are then what is left.)

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::Database;

use crate::error::{Error, ErrorKind, Result};

/// What can go wrong inside a guarded call.
#[derive(Debug)]
pub(super) enum Failure {
    Redb(redb::Error),
    Rejected(String),
    Panicked(String),
    /// What was to be written could not be had.
    Source(Error),
}

pub(super) fn reject(what: impl Into<String>) -> Failure {
    Failure::Rejected(what.into())
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redb(error) => fmt::Display::fmt(error, f),
            Self::Rejected(what) => f.write_str(what),
            Self::Panicked(what) => write!(f, "panic inside redb: {what}"),
            Self::Source(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Failure {
    /// The error of a flush to this file.
    pub(super) fn into_error(self, path: &Path) -> Error {
        match self {
            Self::Source(error) => error,
            Self::Redb(redb::Error::Io(error)) => Error::io("write the index", path, error),
            Self::Redb(error) => {
                Error::new(ErrorKind::Io, format!("could not write the index: {}: {error}", path.display()))
                    .at(path)
                    .caused_by(error)
            }
            other => {
                Error::new(ErrorKind::Io, format!("could not write the index: {}: {other}", path.display())).at(path)
            }
        }
    }
}

/// Runs a call into redb; a panic inside is a failure. What the call leaves half done is thrown away by the caller.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Failure::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
    })
}

/// Closes a database that is not needed any more; what fails or panics in doing so has nobody to tell.
pub(super) fn drop_guarded(db: Database) {
    drop(catch_unwind(AssertUnwindSafe(|| drop(db))));
}

#[cfg(test)]
mod tests {
    use std::io;

    use redb::{Builder, StorageBackend};

    use super::*;

    /// A backend that panics when redb uses it, as a bug inside redb would.
    #[derive(Debug)]
    struct Panicking;

    impl StorageBackend for Panicking {
        fn len(&self) -> io::Result<u64> {
            panic!("planted {}", "text")
        }

        fn read(&self, _offset: u64, _out: &mut [u8]) -> io::Result<()> {
            panic!("planted")
        }

        fn set_len(&self, _len: u64) -> io::Result<()> {
            panic!("planted")
        }

        fn sync_data(&self) -> io::Result<()> {
            panic!("planted")
        }

        fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
            panic!("planted")
        }
    }

    #[test]
    fn g1_a_panic_inside_redb_is_a_failure_with_its_message() {
        let opened = guarded(|| Ok(Builder::new().create_with_backend(Panicking)?)).map(drop_guarded);
        assert_eq!(opened.unwrap_err().to_string(), "panic inside redb: planted text");
        let plain = guarded(|| -> Result<(), Failure> { panic!("plain") });
        assert_eq!(plain.unwrap_err().to_string(), "panic inside redb: plain");
    }

    #[test]
    fn a_full_disk_keeps_its_kind() {
        let full: Failure = io::Error::from(io::ErrorKind::StorageFull).into();
        assert_eq!(full.into_error(Path::new("index.redb")).kind(), ErrorKind::Full);
        let panicked = Failure::Panicked("planted".to_owned()).into_error(Path::new("index.redb"));
        assert_eq!(panicked.kind(), ErrorKind::Io);
        assert_eq!(panicked.to_string(), "could not write the index: index.redb: panic inside redb: planted");
    }
}
