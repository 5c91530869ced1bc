//! Lengths of frames in few bits: what compaction needs to know how much of a segment is alive.
//!
//! May touch nothing. A length is kept as a floating-point number of 7 bits and an exponent of 5, so that it is within one
//! part in 256 of the true one; the same length always gives the same number, so that sums go back to zero.

/// Lengths of a rollout's insert frame and of its newest old-logps frame, in 64-byte units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FrameSizes([u8; 3]);

const MANTISSA_BITS: u32 = 7;
const MANTISSA: u32 = 1 << MANTISSA_BITS;

impl FrameSizes {
    pub(super) fn new(insert_units: u32, old_units: u32) -> Self {
        let bytes = (pack(insert_units) | pack(old_units) << 12).to_le_bytes();
        Self([bytes[0], bytes[1], bytes[2]])
    }

    pub(super) fn insert_units(self) -> u32 {
        unpack(self.packed() & 0xfff)
    }

    pub(super) fn old_units(self) -> u32 {
        unpack(self.packed() >> 12)
    }

    fn packed(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// The length that is kept for a length.
pub(super) fn rounded(units: u32) -> u32 {
    unpack(pack(units))
}

/// Exponent 0 is exact; above it stand a hidden 1 and 7 bits, rounded to the nearest.
fn pack(units: u32) -> u32 {
    if units < MANTISSA {
        return units;
    }
    let shift = units.ilog2() - MANTISSA_BITS;
    let half = (1 << shift) >> 1;
    let mantissa = units.saturating_add(half) >> shift;
    // Rounding up may reach the next power of two, whose bits carry into the exponent as they should.
    (shift << MANTISSA_BITS) + mantissa
}

fn unpack(packed: u32) -> u32 {
    if packed < MANTISSA * 2 {
        return packed;
    }
    let shift = (packed >> MANTISSA_BITS) - 1;
    ((packed & (MANTISSA - 1)) | MANTISSA) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest frame: 1 GiB.
    const UNITS_MAX: u32 = 1 << 24;

    #[test]
    fn a_length_is_kept_within_one_part_in_256_and_keeping_it_again_changes_nothing() {
        let near_powers =
            (0..24).flat_map(|bit| (0..9).map(move |by| (1_u32 << bit).saturating_add(by).saturating_sub(4)));
        for units in (0..4096).chain(near_powers).chain((0..UNITS_MAX).step_by(4099)).chain([UNITS_MAX]) {
            let kept = rounded(units);
            assert!(kept.abs_diff(units) <= units / 256, "{units} is kept as {kept}");
            assert_eq!(rounded(kept), kept);
        }
    }

    #[test]
    fn the_two_lengths_do_not_meet() {
        for (insert, old) in [(0, 0), (1, UNITS_MAX), (UNITS_MAX, 1), (255, 256), (UNITS_MAX, UNITS_MAX)] {
            let sizes = FrameSizes::new(insert, old);
            assert_eq!((sizes.insert_units(), sizes.old_units()), (rounded(insert), rounded(old)));
        }
    }

    #[test]
    fn longer_frames_are_never_kept_as_shorter() {
        let kept: Vec<u32> = (0..1 << 16).map(rounded).collect();
        assert!(kept.is_sorted());
    }
}
