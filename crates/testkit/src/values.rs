//! Values that say what they are of, so that whoever reads one can tell whether it is the right one.

/// A log-prob that stands for a number, exactly.
///
/// # Panics
/// Where an f32 cannot tell the number from its neighbours.
#[must_use]
pub fn logp(number: u64) -> f32 {
    -f32::from(u16::try_from(number).expect("a number that f32 and u16 both hold"))
}
