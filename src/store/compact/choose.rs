//! Which segments are worth copying.
//!
//! Pure: knows sizes alone.

use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::SegmentId;

/// A finished segment, by what it weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: SegmentId,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Bytes of the frames in it that are held.
    pub(super) live_bytes: u64,
}

impl Candidate {
    /// What a copy would not have: all but the frames that are held and the header.
    fn dead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes).saturating_sub(SEGMENT_HEADER_BYTES as u64)
    }

    fn is_half_dead(&self) -> bool {
        self.dead_bytes() >= self.live_bytes
    }
}

/// How soon dead bytes are worth the copying of living ones beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// Someone asked: every segment of which half is dead.
    Asked,
    /// Not before the dead outgrow a segment. Rollouts mostly end in the order in which they came, so that a segment which is
    /// half dead is about to be dead, and is then dropped without copying.
    Background,
}

/// More small segments than this are merged: each checkpoint and close ends one.
const SMALL_KEPT: usize = 16;
/// A segment is small below this part of a whole one.
pub(super) const SMALL_PART: u64 = 8;

/// Segments of which nothing is alive, as many as one step takes: their footers lie in memory.
pub(super) fn dead(candidates: &[Candidate]) -> Vec<SegmentId> {
    let dead = candidates.iter().filter(|candidate| candidate.live_bytes == 0);
    dead.take(SMALL_KEPT).map(|candidate| candidate.id).collect()
}

/// Segments to copy together into one of `segment_bytes`, with about `budget` bytes alive; none where it is not worth it.
pub(super) fn to_copy(candidates: &[Candidate], haste: Haste, segment_bytes: u64, budget: u64) -> Vec<SegmentId> {
    let sum = |of: fn(&Candidate) -> u64| candidates.iter().map(of).sum::<u64>();
    let (bytes, dead_bytes) = (sum(|candidate| candidate.bytes), sum(Candidate::dead_bytes));
    let too_dead = dead_bytes.saturating_mul(4) > bytes && (haste == Haste::Asked || dead_bytes > segment_bytes);
    let mut worst: Vec<&Candidate> = match haste {
        _ if too_dead => candidates.iter().filter(|candidate| candidate.dead_bytes() * 8 >= candidate.bytes).collect(),
        Haste::Asked => candidates.iter().filter(|candidate| candidate.is_half_dead()).collect(),
        Haste::Background => Vec::new(),
    };
    // The deadest first: they give most for what is copied. Among equals the oldest, whose rest is the likeliest to stay.
    worst.sort_by_key(|candidate| (candidate.live_bytes.saturating_mul(1024) / candidate.bytes.max(1), candidate.id));
    if worst.is_empty() {
        let small: Vec<&Candidate> =
            candidates.iter().filter(|candidate| candidate.bytes < segment_bytes / SMALL_PART).collect();
        if small.len() > SMALL_KEPT {
            worst = small;
        }
    }
    let most = segment_bytes.min(budget);
    let mut room = most;
    let fits = |candidate: &&&Candidate| {
        let fits = room == most || candidate.live_bytes <= room;
        room = room.saturating_sub(candidate.live_bytes);
        fits
    };
    worst.iter().take_while(fits).map(|candidate| candidate.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000 << 10;

    /// Candidates 1, 2, … of (KiB beside the header, KiB alive).
    fn candidates(sizes: &[(u64, u64)]) -> Vec<Candidate> {
        let candidate = |(id, (bytes, live_bytes)): (u32, &(u64, u64))| Candidate {
            id: SegmentId(id),
            bytes: (bytes << 10) + SEGMENT_HEADER_BYTES as u64,
            live_bytes: live_bytes << 10,
        };
        (1..).zip(sizes).map(candidate).collect()
    }

    fn chosen(sizes: &[(u64, u64)], haste: Haste) -> Vec<u32> {
        to_copy(&candidates(sizes), haste, SEGMENT, u64::MAX).iter().map(|id| id.0).collect()
    }

    #[test]
    fn what_is_asked_for_copies_every_segment_that_is_half_dead() {
        assert_eq!(chosen(&[(1000, 501), (1000, 1000), (1000, 1000)], Haste::Asked), [0_u32; 0]);
        assert_eq!(chosen(&[(1000, 500), (1000, 1000), (1000, 1000)], Haste::Asked), [1]);
        assert_eq!(chosen(&[(1000, 400), (1000, 1000), (1000, 100)], Haste::Asked), [3, 1]);
    }

    #[test]
    fn in_the_background_half_a_dead_segment_waits_until_it_is_all_dead() {
        assert_eq!(chosen(&[(1000, 100), (1000, 900), (1000, 1000)], Haste::Background), [0_u32; 0]);
        assert_eq!(chosen(&[(1000, 400), (1000, 500), (1000, 1000)], Haste::Background), [1, 2]);
    }

    #[test]
    fn a_store_that_is_a_quarter_dead_gives_up_its_worst_segments() {
        assert_eq!(chosen(&[(1000, 700), (1000, 700), (1000, 950)], Haste::Asked), [0_u32; 0]);
        assert_eq!(chosen(&[(1000, 600), (1000, 700), (1000, 900)], Haste::Asked), [1]);
    }

    #[test]
    fn an_output_is_not_longer_than_a_segment_and_a_larger_input_goes_alone() {
        assert_eq!(chosen(&[(3000, 400), (3000, 500), (3000, 600)], Haste::Asked), [1, 2]);
        assert_eq!(chosen(&[(9000, 4000), (9000, 4100)], Haste::Asked), [1]);
    }

    #[test]
    fn a_budget_takes_whole_segments_as_far_as_it_goes_and_one_at_least() {
        let sizes = [(1000, 300), (1000, 301), (1000, 302)];
        let chosen = |budget: u64| to_copy(&candidates(&sizes), Haste::Asked, SEGMENT, budget << 10).len();
        assert_eq!([1, 300, 600, 601, 903].map(chosen), [1, 1, 1, 2, 3]);
    }

    #[test]
    fn many_small_segments_are_merged_and_few_are_not() {
        let few = vec![(100, 95); SMALL_KEPT];
        assert_eq!(chosen(&few, Haste::Background), [0_u32; 0]);
        let many = vec![(50, 48); SMALL_KEPT + 1];
        assert_eq!(chosen(&many, Haste::Background).len(), SMALL_KEPT + 1);
    }

    #[test]
    fn what_is_dead_is_told_apart() {
        let all = candidates(&[(1000, 0), (1000, 1), (500, 0)]);
        assert_eq!(dead(&all), [SegmentId(1), SegmentId(3)]);
    }
}
