//! What the tests of rollstore share.

pub mod scratch;
