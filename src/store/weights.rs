//! The gate between plans and weight updates: a plan is made of old weights or of new ones, never of weights in change.
//!
//! Always true:
//! - W1. While a weight update is under way no plan is made, and none begins while one waits.
//! - W2. A weight update that began advances the ref version, however it ends: when in doubt, stale.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::event::Clock;
use crate::store::RolloutStore;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex};

/// Plans pass it shared, a weight update alone.
#[derive(Debug, Default)]
pub(crate) struct WeightGate {
    passing: Mutex<Passing>,
    left: Condvar,
}

/// Who is inside, and who waits to be.
#[derive(Debug, Default)]
struct Passing {
    plans: usize,
    updates_waiting: usize,
    /// The thread that began the weight update which is under way.
    updating: Option<ThreadId>,
}

/// A plan being made.
#[derive(Debug)]
pub(crate) struct Planning<'a>(&'a WeightGate);

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        self.0.passing.lock().plans -= 1;
        self.0.left.notify_all();
    }
}

/// A weight update under way. It may end on another thread than it began on.
#[derive(Debug)]
pub(crate) struct Updating(Arc<WeightGate>);

impl Drop for Updating {
    fn drop(&mut self) {
        self.0.passing.lock().updating = None;
        self.0.left.notify_all();
    }
}

impl WeightGate {
    /// Waits until no weight update is under way; none begins while the guard lives.
    pub(crate) fn plan(&self) -> Result<Planning<'_>> {
        let mut passing = self.passing.lock();
        passing.check("a plan")?;
        while passing.updating.is_some() || passing.updates_waiting > 0 {
            self.left.wait(&mut passing);
        }
        passing.plans += 1;
        Ok(Planning(self))
    }

    /// Waits until no plan is being made; none is made while the guard lives.
    pub(crate) fn update(self: &Arc<Self>) -> Result<Updating> {
        let mut passing = self.passing.lock();
        passing.check("a weight update")?;
        passing.updates_waiting += 1;
        while passing.updating.is_some() || passing.plans > 0 {
            self.left.wait(&mut passing);
        }
        passing.updates_waiting -= 1;
        passing.updating = Some(thread::current().id());
        Ok(Updating(Arc::clone(self)))
    }
}

impl Passing {
    fn check(&self, what: &str) -> Result<()> {
        if self.updating == Some(thread::current().id()) {
            return Err(Error::invalid(format!(
                "{what} from inside a weight update's closure, or before it is finished, would wait for itself; end it first"
            )));
        }
        Ok(())
    }
}

/// A weight update under way: plans wait until it ends. Made by [`RolloutStore::begin_weight_update`].
///
/// Dropped without [`WeightUpdate::finish`] it advances the ref version all the same: when in doubt, stale.
#[derive(Debug)]
#[must_use = "plans wait until it is finished or dropped"]
pub struct WeightUpdate {
    store: RolloutStore,
    step: u64,
    /// None once it has ended.
    updating: Option<Updating>,
}

impl WeightUpdate {
    /// Advances the ref version and lets plans pass. Returns the new version.
    ///
    /// # Errors
    /// As for [`RolloutStore::advance_ref_version`].
    pub fn finish(mut self) -> Result<u64> {
        self.end()
    }

    fn end(&mut self) -> Result<u64> {
        let _updating = self.updating.take();
        match self.store.advance(Clock::Ref, Some(self.step), None) {
            // Someone else acted at a later step meanwhile. The weights changed all the same.
            Err(error) if error.kind() == ErrorKind::Invalid => self.store.advance(Clock::Ref, None, None),
            advanced => advanced,
        }
    }
}

impl Drop for WeightUpdate {
    fn drop(&mut self) {
        if self.updating.is_some()
            && let Err(error) = self.end()
        {
            tracing::warn!(%error, "a weight update was dropped, and the ref version could not be advanced");
        }
    }
}

impl RolloutStore {
    /// Begins a change of the weights at `step`, for a caller who cannot put it into one closure. Plans wait until it is
    /// finished or dropped; [`RolloutStore::weight_update`] does both.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::RolloutStore;
    /// # let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// let update = store.begin_weight_update(100)?;
    /// // … change the weights …
    /// assert_eq!(update.finish()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` from the thread that has a weight update under way, or for a step that the trainer cannot be at.
    pub fn begin_weight_update(&self, step: u64) -> Result<WeightUpdate> {
        // In a forked child the gate of a thread that is not there would never open.
        self.core.check_writable()?;
        let updating = self.core.gate.update()?;
        self.core.check_writable()?;
        self.core.rules.check_acted(self.clock(), step)?;
        Ok(WeightUpdate { store: self.clone(), step, updating: Some(updating) })
    }
}
