//! The quota: how many bytes the segments may take, decided before anything is written.
//!
//! Always true:
//! - Q1. A batch that is refused wrote nothing.
//! - Q2. What retires is never refused, and a compaction always has the space that one copy takes.

use crate::error::{Error, ErrorKind, Result};
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::planted::{Bug, planted};

/// The limit of a store's segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    /// `None` for no limit.
    bytes: Option<u64>,
    segment_bytes: u64,
}

impl Quota {
    pub(crate) fn new(bytes: Option<u64>, segment_bytes: u64) -> Self {
        Self { bytes, segment_bytes }
    }

    /// Kept for the copy that a compaction writes before it drops what it copied, and for retirements.
    fn reserve_bytes(self) -> u64 {
        self.segment_bytes / 4 * 3
    }

    /// Refuses a batch behind which the segments would take so many bytes.
    pub(crate) fn check(self, bytes_behind: u64) -> Result<()> {
        let Some(quota) = self.bytes else { return Ok(()) };
        let reserve = self.reserve_bytes();
        if bytes_behind <= quota.saturating_sub(reserve) || planted(Bug::IgnoreQuota) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "the store's segments would take {bytes_behind} bytes; its quota is {quota}, of which {reserve} are kept for \
                 compaction; nothing was written: retire rollouts and compact, or open it with a higher quota_bytes"
            ),
        ))
    }

    /// The most bytes of living frames that one step of a compaction may copy.
    pub(crate) fn copied_bytes_max(self) -> u64 {
        // Beside them lie a header and a footer, which takes a quarter of the smallest frames at most.
        let frames = self.reserve_bytes().saturating_sub(SEGMENT_HEADER_BYTES as u64 * 2) / 5 * 4;
        self.bytes.map_or(u64::MAX, |_| frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 64 << 10;

    #[test]
    fn a_store_without_a_quota_refuses_nothing() {
        let quota = Quota::new(None, SEGMENT);
        assert!(quota.check(u64::MAX).is_ok());
        assert_eq!(quota.copied_bytes_max(), u64::MAX);
    }

    #[test]
    fn a_quota_keeps_three_quarters_of_a_segment_and_says_the_numbers() {
        let quota = Quota::new(Some(10 * SEGMENT), SEGMENT);
        let most = 10 * SEGMENT - 48 * 1024;
        assert!(quota.check(most).is_ok());
        let error = quota.check(most + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        for number in [most + 1, 10 * SEGMENT, 48 * 1024] {
            assert!(error.to_string().contains(&number.to_string()), "{error}");
        }
        assert!(error.to_string().contains("retire"), "{error}");
    }

    #[test]
    fn a_copy_of_half_a_segment_always_fits_into_what_is_kept() {
        for segment in [SEGMENT, 1 << 20, 256 << 20] {
            let quota = Quota::new(Some(10 * segment), segment);
            assert!(quota.copied_bytes_max() >= segment / 2);
            assert!(quota.copied_bytes_max() * 5 / 4 + 4096 * 2 <= segment / 4 * 3);
        }
    }
}
