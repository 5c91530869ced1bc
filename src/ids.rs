//! The numbers that name things: one newtype each, so that two of them cannot be swapped.
//!
//! May touch nothing. Knows nothing of where the things are kept.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The name of a rollout (one prompt with one sampled completion), unique among the live rollouts of a store.
///
/// Ids come from the caller, from [`crate::RolloutStore::allocate_ids`], or from a string key. The upper half of the
/// range (bit 63 set) is kept for keys, so that hashed and counted ids never meet.
///
/// # How do I use my engine's string ids?
/// ```
/// use rollstore::RolloutId;
/// let id = RolloutId::from_key("req-7f3a");
/// assert_eq!(id, RolloutId::from_key("req-7f3a"));
/// assert!(id.get() >> 63 == 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RolloutId(u64);

impl RolloutId {
    /// Ids at and above this number are hashes of string keys.
    pub(crate) const FIRST_KEYED: u64 = 1 << 63;

    /// The id with this number.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The id of a string key: FNV-1a (64 bit), mixed by the finaliser of `MurmurHash3`, with bit 63 set.
    ///
    /// The store keeps the key beside the rollout and refuses a second key with the same id. With 10 million keys the
    /// chance that any two collide is about 5 in a million.
    #[must_use]
    pub fn from_key(key: &str) -> Self {
        let fnv = key
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        Self((mixed ^ (mixed >> 33)) | Self::FIRST_KEYED)
    }

    /// Whether the id is the hash of a string key.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.0 >= Self::FIRST_KEYED
    }
}

impl From<u64> for RolloutId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for RolloutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for RolloutId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A log sequence number: the place of one frame in the order of all frames. Starts at 1; 0 means "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// No frame at all; below every frame's number.
    pub const NONE: Self = Self(0);

    /// The number of this frame.
    #[must_use]
    pub const fn new(lsn: u64) -> Self {
        Self(lsn)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of a segment file, never used twice within a store. `Display` gives the form in the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08}", self.0)
    }
}

/// Where a frame starts: a segment, and an offset in units of the 64-byte frame alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location {
    pub(crate) segment: SegmentId,
    pub(crate) offset_units: u32,
}

impl Location {
    /// Bytes in one unit of a location's offset.
    pub(crate) const UNIT_BYTES: u64 = 64;

    /// The byte offset in the segment file.
    pub(crate) fn offset_bytes(self) -> u64 {
        u64::from(self.offset_units) * Self::UNIT_BYTES
    }

    /// The location of a frame at a byte offset; `None` where the offset is unaligned or beyond 256 GiB.
    pub(crate) fn at(segment: SegmentId, offset_bytes: u64) -> Option<Self> {
        let offset_units = u32::try_from(offset_bytes / Self::UNIT_BYTES).ok()?;
        offset_bytes.is_multiple_of(Self::UNIT_BYTES).then_some(Self { segment, offset_units })
    }
}
