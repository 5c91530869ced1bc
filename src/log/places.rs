//! Where columns lie that were read before, so that reading many of them again opens no frame.
//!
//! Always true:
//! - P1. A place is that of a column whose checksum this process checked, in a frame whose header it checked.
//! - P2. It is handed out for the frame of the same number and version alone.

use std::ops::Range;

use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::format::dtype::DType;
use crate::format::meta::ColumnCode;
use crate::ids::Lsn;

/// Places that a segment keeps at most, about 7 MiB; then it begins anew.
const PLACES_MAX: usize = 1 << 16;

/// The column of one frame: what to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Where the frame begins, in units of 64 bytes.
    pub(crate) offset_units: u32,
    pub(crate) code: ColumnCode,
    /// The frame's number.
    pub(crate) lsn: Lsn,
    /// For old log-probs, the version that made them.
    pub(crate) ref_version: Option<u64>,
}

impl Wanted {
    fn hash(&self) -> u64 {
        let key = u64::from(self.offset_units) << 16 | u64::from(self.code.0);
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }
}

#[derive(Debug)]
struct Place {
    of: Wanted,
    dtype: DType,
    start: u64,
    bytes: u32,
}

/// The places of one segment.
#[derive(Debug, Default)]
pub(crate) struct Places(RwLock<HashTable<Place>>);

/// The places of one segment, held for many questions: a lock for each would keep them from being asked at once.
pub(crate) struct HeldPlaces<'a>(RwLockReadGuard<'a, HashTable<Place>>);

impl HeldPlaces<'_> {
    /// Type and bytes of a column within the segment; `None` where it was not read before.
    pub(crate) fn find(&self, wanted: Wanted) -> Option<(DType, Range<u64>)> {
        let place = self.0.find(wanted.hash(), |place| place.of == wanted)?;
        Some((place.dtype, place.start..place.start + u64::from(place.bytes)))
    }
}

impl Places {
    /// Holds them; nothing is noted meanwhile.
    pub(crate) fn hold(&self) -> HeldPlaces<'_> {
        HeldPlaces(self.0.read())
    }

    /// Takes down where a column lies that was read.
    pub(crate) fn note(&self, of: Wanted, dtype: DType, range: &Range<u64>) {
        let Ok(bytes) = u32::try_from(range.end.saturating_sub(range.start)) else { return };
        let mut places = self.0.write();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        if places.find(of.hash(), |place| place.of == of).is_none() {
            places.insert_unique(of.hash(), Place { of, dtype, start: range.start, bytes }, |place| place.of.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Wanted = Wanted { offset_units: 7, code: ColumnCode::OLD_LOGPS, lsn: Lsn::new(3), ref_version: Some(2) };

    #[test]
    fn a_place_is_that_of_one_column_of_one_frame() {
        let places = Places::default();
        places.note(OF, DType::F32, &(64..128));
        assert_eq!(places.hold().find(OF), Some((DType::F32, 64..128)));
        for other in [
            Wanted { offset_units: 8, ..OF },
            Wanted { code: ColumnCode::COMPLETION_IDS, ..OF },
            Wanted { lsn: Lsn::new(4), ..OF },
            Wanted { ref_version: Some(3), ..OF },
        ] {
            assert_eq!(places.hold().find(other), None, "{other:?}");
        }
    }

    #[test]
    fn places_are_bounded() {
        let places = Places::default();
        for offset_units in 0..=u32::try_from(PLACES_MAX).unwrap() {
            places.note(Wanted { offset_units, ..OF }, DType::F32, &(0..64));
        }
        assert_eq!(places.0.read().len(), 1);
        assert_eq!(places.hold().find(OF), None);
    }
}
