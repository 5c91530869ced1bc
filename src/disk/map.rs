//! One read-only map of one file.

/// A read-only map of a file.
#[derive(Debug)]
pub struct Map;
