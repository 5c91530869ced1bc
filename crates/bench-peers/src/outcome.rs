//! What every measurement returns: its figures, or why there are none.

/// A result whose error is for a person to read.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Fails unless what was read is what had been written: a fast wrong answer is no figure.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}").into()) }
}
