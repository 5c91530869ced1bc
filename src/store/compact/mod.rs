//! Compaction: gives back the space of what ended, a little at a time.
//!
//! Knows segments, frames and the index, and nothing of windows or staleness. There is no progress to remember: what a step
//! copied is alive in the copy and dead in its source, so that the next one, in this process or another, goes on from there.

mod choose;
mod copy;
mod job;
mod retired;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::error::Result;
use crate::log::segment::Segment;
use crate::store::RolloutStore;
use crate::store::core::Core;
use crate::store::waker::Waker;
use crate::sync::Mutex;
use choose::{Candidate, Haste};
use job::Step;

/// How much one call of [`RolloutStore::compact`] may copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactBudget {
    bytes: u64,
}

impl CompactBudget {
    /// About so many bytes. A call that copies at all may copy an eighth of a segment, so that it does not leave many small
    /// ones; with 0 it drops what is all dead, and copies nothing.
    #[must_use]
    pub fn bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Everything that is worth it.
    #[must_use]
    pub fn all() -> Self {
        Self { bytes: u64::MAX }
    }
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compacted {
    /// Bytes written: frames that are alive, in new segments.
    pub copied_bytes: u64,
    /// Bytes of the segments that were dropped. Views that still look into one hold its space until they go.
    pub freed_bytes: u64,
    /// Segments that were dropped.
    pub segments_dropped: u64,
    /// Segments that were written.
    pub segments_written: u64,
    /// Whether nothing is left that would be worth copying; otherwise the budget ended first.
    pub is_done: bool,
}

/// The background thread's waker, and what compaction counts.
#[derive(Debug)]
pub(crate) struct Compactor {
    pub(crate) waker: Waker,
    pub(crate) in_background: bool,
    /// Held by the one compaction under way.
    alone: Mutex<()>,
    /// Segments that were unlinked and that views may still look into.
    unlinked: Mutex<Vec<Weak<Segment>>>,
    copied_bytes: AtomicU64,
}

impl Compactor {
    pub(crate) fn new(in_background: bool) -> Self {
        Self {
            waker: Waker::default(),
            in_background,
            alone: Mutex::default(),
            unlinked: Mutex::default(),
            copied_bytes: AtomicU64::new(0),
        }
    }

    /// One round of the background thread: until nothing is worth it.
    pub(crate) fn round(core: &Core) {
        let _alone = core.compactor.alone.lock();
        while !core.compactor.waker.is_stopped() {
            match step(core, Haste::Background, u64::MAX) {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a compaction failed; nothing is lost, and it is tried again later");
                    return;
                }
            }
        }
    }

    /// Bytes that compaction wrote since the store was opened.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of unlinked segments that views still look into.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let mut unlinked = self.unlinked.lock();
        unlinked.retain(|segment| segment.strong_count() > 0);
        unlinked.iter().filter_map(Weak::upgrade).map(|segment| segment.published_bytes()).sum()
    }

    fn unlinked(&self, segments: &[Arc<Segment>]) {
        self.unlinked.lock().extend(segments.iter().map(Arc::downgrade));
    }
}

impl RolloutStore {
    /// Gives back the space of rollouts that ended: segments with nothing alive are dropped as they are, and what is alive
    /// in those that are half dead (or in the worst ones, where a quarter of the whole store is dead) is copied together.
    /// Many small segments are merged. Others may read and write meanwhile; views keep what they see.
    ///
    /// A thread of the store does the same in the background, more patiently. Killed anywhere, nothing is lost, and the next
    /// compaction goes on.
    ///
    /// # How do I give back everything at once?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{CompactBudget, NewRollout, Reason, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// for id in 0..100 {
    ///     store.insert(NewRollout::new(id, 0).completion_ids(vec![7; 1000]))?;
    /// }
    /// store.retire_created_before(1, Reason::Trained)?;
    /// let compacted = store.compact(CompactBudget::all())?;
    /// assert!(compacted.freed_bytes > 400_000 && compacted.is_done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Full` where there is no space for a copy, `Poisoned`, `Io`, `Invalid` for a closed or read-only store. What was
    /// given back by then stays so.
    pub fn compact(&self, budget: CompactBudget) -> Result<Compacted> {
        let core = &self.core;
        core.check_writable()?;
        let _hurry = core.pace.hurry();
        let _alone = core.compactor.alone.lock();
        seal_if_dead(core)?;
        let least = if budget.bytes == 0 { 0 } else { core.segment_bytes / choose::SMALL_PART };
        let most = budget.bytes.max(least);
        let mut done = Compacted::default();
        loop {
            let left = most.saturating_sub(done.copied_bytes);
            let Some(step) = step(core, Haste::Asked, left)? else {
                core.check_open()?;
                // What was freed may be needed at the next full disk.
                core.reserve.make(&*core.disk);
                done.is_done = left > 0;
                return Ok(done);
            };
            done.copied_bytes += step.copied_bytes;
            done.freed_bytes += step.freed_bytes;
            done.segments_dropped += step.dropped;
            done.segments_written += step.written;
        }
    }
}

/// One step: segments with nothing alive first, then what is worth copying.
fn step(core: &Core, haste: Haste, budget: u64) -> Result<Option<Step>> {
    let mut candidates = candidates(core);
    let mut inputs = choose::dead(&candidates);
    if !inputs.is_empty()
        && let Some(step) = job::run(core, haste, &inputs, u64::MAX)?
    {
        return Ok(Some(step));
    }
    if budget == 0 {
        return Ok(None);
    }
    // Under a quota a copy has so much space and no more.
    let room = core.quota.copied_bytes_max();
    candidates.retain(|candidate| candidate.live_bytes <= room);
    let budget = budget.min(room);
    inputs = choose::to_copy(&candidates, haste, core.segment_bytes, budget);
    if inputs.is_empty() {
        return Ok(None);
    }
    // What a failed copy wrote was removed: it may be tried again.
    core.reserve.retry(&*core.disk, || job::run(core, haste, &inputs, budget))
}

fn candidates(core: &Core) -> Vec<Candidate> {
    let published = core.published.read();
    let finished = published.segments.values().filter(|segment| Some(segment.id) != published.active);
    let candidate = |segment: &Arc<Segment>| Candidate {
        id: segment.id,
        bytes: segment.published_bytes(),
        live_bytes: published.index.live_bytes(segment.id),
    };
    finished.map(candidate).collect()
}

/// Ends the segment that is written to where most of it is dead: only a finished one gives space back.
fn seal_if_dead(core: &Core) -> Result<()> {
    /// Less than this is worth no segment of its own.
    const DEAD_BYTES_MIN: u64 = 16 << 10;
    let is_dead = {
        let published = core.published.read();
        let active = published.active.and_then(|id| published.segments.get(&id));
        active.is_some_and(|active| {
            let live_bytes = published.index.live_bytes(active.id);
            active.published_bytes().saturating_sub(live_bytes) > live_bytes.max(DEAD_BYTES_MIN)
        })
    };
    if is_dead {
        core.lock_writer()?.seal_all(core)?;
    }
    Ok(())
}
