//! How much the suites do, and from which seed: set from outside, so that a night run and a repetition need no edit.

use std::env;
use std::fmt::Display;
use std::str::FromStr;

/// Multiplies the number of seeds, rounds and cases: 1 unless `ROLLSTORE_TEST_SCALE` says more.
#[must_use]
pub fn scale() -> u64 {
    number("ROLLSTORE_TEST_SCALE").unwrap_or(1)
}

/// The seed that all others derive from: 1 unless `ROLLSTORE_TEST_SEED` says another.
#[must_use]
pub fn seed() -> u64 {
    number("ROLLSTORE_TEST_SEED").unwrap_or(1)
}

/// How often a suite goes round: so many times, or as `ROLLSTORE_TEST_ROUNDS` says, times the scale.
#[must_use]
pub fn rounds(usual: u64) -> u64 {
    number("ROLLSTORE_TEST_ROUNDS").unwrap_or(usual) * scale()
}

/// The one point that a crash suite is to look at, from `ROLLSTORE_TEST_POINT`; `None` for all of them.
#[must_use]
pub fn point() -> Option<u64> {
    number("ROLLSTORE_TEST_POINT")
}

/// The one image at each point that a crash suite is to look at, from `ROLLSTORE_TEST_IMAGE`: its place, from 0; `None`
/// for all of them.
#[must_use]
pub fn image() -> Option<u64> {
    number("ROLLSTORE_TEST_IMAGE")
}

/// The one sequence of operations that a crash suite is to look at, from `ROLLSTORE_TEST_SEQUENCE`: names with commas
/// between them; `None` for all.
#[must_use]
pub fn sequence() -> Option<String> {
    env::var("ROLLSTORE_TEST_SEQUENCE").ok()
}

/// A number from the environment; a value that is none fails the test rather than being passed over.
fn number<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// One of a row of well-mixed numbers: `SplitMix64`, the same everywhere for the same seed and place.
#[must_use]
pub fn random(seed: u64, place: u64) -> u64 {
    let mut mixed = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
