//! What one committed state knows of a rollout: enough to open a view after the lock was let go.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::ids::{Location, Lsn, RolloutId};
use crate::index::{Entry, KlEntry};
use crate::log::event::Incarnation;
use crate::log::frame::Frame;
use crate::log::segment::Segment;
use crate::rules::Rules;
use crate::store::core::Published;
use crate::store::view::Rollout;

/// Rollouts that are looked up at a time: what is sent for fits in the fastest caches.
pub(crate) const ROUND: usize = 64;

/// A frame beside the insert, opened when asked for. Few rollouts have one, so that views keep only room for a pointer.
#[derive(Debug)]
pub(crate) struct Part {
    segment: Arc<Segment>,
    at: Location,
    lsn: Lsn,
    frame: OnceLock<Frame>,
}

impl Part {
    fn new(published: &Published, at: Location, lsn: Lsn) -> Result<Box<Self>> {
        Ok(Box::new(Self { segment: published.segment(at.segment)?, at, lsn, frame: OnceLock::new() }))
    }

    /// The frame's LSN.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The frame, which must be of rollout `id`.
    pub(crate) fn frame(&self, id: RolloutId) -> Result<&Frame> {
        if let Some(frame) = self.frame.get() {
            return Ok(frame);
        }
        let frame = Frame::open(Arc::clone(&self.segment), self.at, id, self.lsn).map_err(|error| error.of(id))?;
        Ok(self.frame.get_or_init(|| frame))
    }
}

/// What one committed state knows of a rollout: enough to open a view after the lock was let go.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) entry: Entry,
    /// The newest KL reference log-probs.
    pub(crate) newest_kl: Option<KlEntry>,
    /// Advances of the ref version since that of the old logps.
    lag: Option<u64>,
    is_asked: bool,
    segment: Arc<Segment>,
    old: Option<Box<Part>>,
    kl: Option<Box<Part>>,
    first_old: Option<Box<Part>>,
}

impl Snapshot {
    /// Looks a rollout up; `None` where it is not live.
    #[inline]
    pub(crate) fn of(published: &Published, id: RolloutId) -> Result<Option<Self>> {
        let Some(slot) = published.index.find(id) else { return Ok(None) };
        prefetch(published, slot);
        Self::at(published, slot).map(Some)
    }

    /// Looks rollouts up, in the order asked; `None` for each that is not live.
    ///
    /// Finds some, sends for their frames, and only then reads them: the processor waits for many places of memory at once
    /// instead of one after the other.
    pub(crate) fn of_each(published: &Published, ids: &[RolloutId]) -> Result<Vec<Option<Self>>> {
        let mut snapshots = Vec::with_capacity(ids.len());
        let mut slots = Vec::with_capacity(ROUND);
        for round in ids.chunks(ROUND) {
            slots.clear();
            slots.extend(round.iter().map(|id| published.index.find(*id)));
            slots.iter().flatten().for_each(|slot| prefetch(published, *slot));
            for slot in &slots {
                snapshots.push(slot.map(|slot| Self::at(published, slot)).transpose()?);
            }
        }
        Ok(snapshots)
    }

    /// Looks up live rollouts; an id that is not live is an error.
    pub(crate) fn of_all(published: &Published, ids: &[RolloutId]) -> Result<Vec<Self>> {
        let snapshots = Self::of_each(published, ids)?.into_iter().zip(ids);
        let live = |(snapshot, id): (Option<Self>, &RolloutId)| {
            snapshot.ok_or_else(|| Error::not_found(format!("rollout {id} is not live")).of(*id))
        };
        snapshots.map(live).collect()
    }

    #[inline]
    fn at(published: &Published, slot: u32) -> Result<Self> {
        let (entry, extra) = published.index.at_slot(slot);
        let segment = published.segment(entry.insert.segment)?;
        let part = |at: Location, lsn| (at != entry.insert).then(|| Part::new(published, at, lsn)).transpose();
        Ok(Self {
            entry,
            newest_kl: extra.kl,
            lag: published.state.ref_clock.lag(entry.ref_version),
            is_asked: published.index.is_asked_at(slot),
            segment,
            old: part(entry.old, entry.old_lsn)?,
            kl: extra.kl.map(|kl| part(kl.at, kl.lsn)).transpose()?.flatten(),
            first_old: extra.first_old.map(|first| part(first.at, first.lsn)).transpose()?.flatten(),
        })
    }

    /// The rollout's incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { id: self.entry.id, insert_lsn: self.entry.insert_lsn }
    }

    /// The same, where no one had asked for it.
    pub(crate) fn first_time(&self) -> Option<Incarnation> {
        (!self.is_asked).then_some(self.incarnation())
    }

    /// Opens the view.
    #[inline]
    pub(crate) fn open(self, rules: &Rules) -> Result<Rollout> {
        let Self { entry, newest_kl, lag, segment, old, kl, first_old, .. } = self;
        let insert =
            Frame::open(segment, entry.insert, entry.id, entry.insert_lsn).map_err(|error| error.of(entry.id))?;
        let kl_version = newest_kl.map(|kl| kl.version);
        Ok(Rollout { entry, kl_version, rules: *rules, lag, insert, old, kl, first_old })
    }
}

/// Says that the frames of the rollout at this slot will be read soon.
fn prefetch(published: &Published, slot: u32) {
    let (insert, old) = published.index.frames_at(slot);
    published.prefetch(insert);
    if old != insert {
        published.prefetch(old);
    }
}

#[cfg(test)]
mod tests;
