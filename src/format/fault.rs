//! Why bytes were refused: where, what was expected and what was found.
//!
//! May touch nothing. Knows nothing of files: the layer that read the bytes adds their file and place.

use std::fmt;

/// A refusal by a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are not what a writer of this format wrote.
    Damaged {
        /// The part that is wrong: "frame header".
        what: &'static str,
        /// Byte offset of that part within the object that was given.
        offset: u64,
        expected: String,
        found: String,
    },
    /// The bytes hold together, but a newer format wrote them.
    TooNew {
        /// The part that is unknown: "frame kind".
        what: &'static str,
        found: String,
    },
}

impl Fault {
    pub(crate) fn damaged(
        what: &'static str,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::Damaged { what, offset, expected: expected.to_string(), found: found.to_string() }
    }

    pub(crate) fn too_new(what: &'static str, found: impl fmt::Display) -> Self {
        Self::TooNew { what, found: found.to_string() }
    }

    /// A checksum that disagrees: `stored` stands in the bytes, `computed` is that of the bytes.
    pub(crate) fn checksum(what: &'static str, offset: u64, stored: u32, computed: u32) -> Self {
        Self::damaged(what, offset, format_args!("checksum {stored:#010x}"), format_args!("{computed:#010x}"))
    }

    /// Fewer bytes than the object has.
    pub(super) fn too_short(what: &'static str, expected: usize, found: usize) -> Self {
        Self::damaged(what, 0, format_args!("{expected} bytes"), format_args!("{found} bytes"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { what, offset, expected, found } => {
                write!(f, "{what} at byte {offset}: expected {expected}, found {found}")
            }
            Self::TooNew { what, found } => write!(f, "{what} {found} is of a newer format"),
        }
    }
}

impl std::error::Error for Fault {}

/// `Ok` where `holds`; else damage in `what` at `offset`. For checks whose numbers are cheap to format.
pub(super) fn ensure(
    holds: bool,
    what: &'static str,
    offset: u64,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::damaged(what, offset, expected, found)) }
}
