//! The gate between plans and weight updates: a plan is made of old weights or of new ones, never of weights in change.

use crate::error::{Error, Result};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Plans pass it shared, a weight update alone.
#[derive(Debug, Default)]
pub(crate) struct WeightGate {
    gate: RwLock<()>,
    /// The thread whose weight update is under way.
    updating: Mutex<Option<ThreadId>>,
}

/// A weight update under way.
#[derive(Debug)]
pub(crate) struct Updating<'a> {
    gate: &'a WeightGate,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Drop for Updating<'_> {
    fn drop(&mut self) {
        *self.gate.updating.lock() = None;
    }
}

impl WeightGate {
    /// Waits until no weight update is under way; none begins while the guard lives.
    pub(crate) fn plan(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.check("a plan")?;
        Ok(self.gate.read())
    }

    /// Waits until no plan is being made; none is made while the guard lives.
    pub(crate) fn update(&self) -> Result<Updating<'_>> {
        self.check("a weight update")?;
        let alone = self.gate.write();
        *self.updating.lock() = Some(thread::current().id());
        Ok(Updating { gate: self, _alone: alone })
    }

    fn check(&self, what: &str) -> Result<()> {
        if *self.updating.lock() == Some(thread::current().id()) {
            return Err(Error::invalid(format!(
                "{what} from inside a weight update's closure would wait for itself; end the closure first"
            )));
        }
        Ok(())
    }
}
