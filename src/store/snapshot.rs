//! What one committed state knows of a rollout: enough to open a view after the lock was let go.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::ids::{Location, Lsn, RolloutId};
use crate::index::{Entry, KlEntry};
use crate::log::event::Incarnation;
use crate::log::frame::Frame;
use crate::log::segment::Segment;
use crate::store::core::Published;
use crate::store::rules::Rules;
use crate::store::view::Rollout;

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
        let segment = published.segment(at.segment)?;
        segment.prefetch(at);
        Ok(Box::new(Self { segment, at, lsn, frame: OnceLock::new() }))
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
    segment: Arc<Segment>,
    old: Option<Box<Part>>,
    kl: Option<Box<Part>>,
    first_old: Option<Box<Part>>,
}

impl Snapshot {
    /// Looks a rollout up; `None` where it is not live.
    #[inline]
    pub(crate) fn of(published: &Published, id: RolloutId) -> Result<Option<Self>> {
        let Some((entry, extra)) = published.index.get_with_extra(id) else { return Ok(None) };
        let segment = published.segment(entry.insert.segment)?;
        segment.prefetch(entry.insert);
        let part = |at: Location, lsn| (at != entry.insert).then(|| Part::new(published, at, lsn)).transpose();
        Ok(Some(Self {
            entry,
            newest_kl: extra.kl,
            lag: published.state.ref_clock.lag(entry.ref_version),
            segment,
            old: part(entry.old, entry.old_lsn)?,
            kl: extra.kl.map(|kl| part(kl.at, kl.lsn)).transpose()?.flatten(),
            first_old: extra.first_old.map(|first| part(first.at, first.lsn)).transpose()?.flatten(),
        }))
    }

    /// Looks up live rollouts; an id that is not live is an error.
    pub(crate) fn of_all(published: &Published, ids: &[RolloutId]) -> Result<Vec<Self>> {
        let find = |id: &RolloutId| {
            Self::of(published, *id)?.ok_or_else(|| Error::not_found(format!("rollout {id} is not live")).of(*id))
        };
        ids.iter().map(find).collect()
    }

    /// The rollout's incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { id: self.entry.id, insert_lsn: self.entry.insert_lsn }
    }

    /// Opens the view.
    #[inline]
    pub(crate) fn open(self, rules: &Rules) -> Result<Rollout> {
        let Self { entry, newest_kl, lag, segment, old, kl, first_old } = self;
        let insert =
            Frame::open(segment, entry.insert, entry.id, entry.insert_lsn).map_err(|error| error.of(entry.id))?;
        let kl_version = newest_kl.map(|kl| kl.version);
        Ok(Rollout { entry, kl_version, rules: *rules, lag, insert, old, kl, first_old })
    }
}

#[cfg(test)]
mod tests;
