//! The sync of a Buffered store: in the background, and as a barrier.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::planted::{Bug, planted};
use crate::store::RolloutStore;
use crate::store::core::Core;
use crate::store::options::Durability;
use crate::store::waker::Waker;

/// When the log of a store is synced.
#[derive(Debug)]
pub(crate) struct Syncer {
    pub(crate) durability: Durability,
    /// Bytes that may be written and not durable before a commit waits.
    unsynced_bytes_max: u64,
    pub(crate) waker: Waker,
}

impl Syncer {
    pub(crate) fn new(durability: Durability, unsynced_bytes_max: u64) -> Self {
        Self { durability, unsynced_bytes_max, waker: Waker::default() }
    }

    /// Before a commit: waits while too much is written and not durable.
    pub(crate) fn wait_for_room(&self, core: &Core) -> Result<()> {
        match self.durability {
            Durability::Synced => Ok(()),
            Durability::Buffered { .. } => core.group.wait_unsynced_below(core, self.unsynced_bytes_max),
        }
    }

    /// Behind a commit: the thread is to sync it in time.
    pub(crate) fn committed(&self) {
        if let Durability::Buffered { .. } = self.durability {
            self.waker.wake();
        }
    }

    /// One round of the background thread: lets commits gather, then syncs them.
    pub(crate) fn round(core: &Core) {
        let Durability::Buffered { max_delay } = core.syncer.durability else { return };
        let Some(since) = core.group.unsynced_since() else { return };
        core.syncer.waker.rest(left_of(max_delay, since));
        // A store that closes syncs by itself, and one that is abandoned does not.
        if !core.syncer.waker.is_stopped() && core.group.unsynced_since().is_some() {
            // A failure stops the store, which tells it to every later call.
            let _ = core.group.wait_durable(core, core.group.written());
        }
    }
}

/// What is left of `delay` for something that began at `since`.
fn left_of(delay: Duration, since: Instant) -> Duration {
    delay.saturating_sub(since.elapsed())
}

impl RolloutStore {
    /// Returns once everything that was committed before is durable: it then survives power loss. The barrier of a
    /// [`Durability::Buffered`] store; a Synced one has nothing to wait for.
    ///
    /// # How do I make a step durable before I tell someone about it?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::Duration;
    /// use rollstore::{Durability, NewRollout, RolloutStore};
    /// let buffered = Durability::Buffered { max_delay: Duration::from_millis(100) };
    /// let store = RolloutStore::options().window(8).durability(buffered).open(dir.path().join("rollouts"))?;
    /// let mut batch = store.batch();
    /// batch.insert(NewRollout::new(1, 0).completion_ids(&[7, 8, 9][..]))?;
    /// let committed = batch.commit()?; // written and seen: a killed process loses nothing of it
    /// store.sync()?;                   // now a power cut does not either
    /// assert!(committed.is_durable(&store));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Poisoned` with the first cause, where this sync or an earlier one failed: what was committed since the last one that
    /// went well may be lost with the power. `Invalid` for a closed or read-only store.
    pub fn sync(&self) -> Result<()> {
        self.core.check_writable()?;
        if planted(Bug::SyncReturnsEarly) {
            self.core.syncer.waker.wake();
            return Ok(());
        }
        self.core.group.wait_durable(&self.core, self.core.group.written())
    }

    /// The highest LSN known to be durable: every commit up to it survives power loss. Each commit tells its LSN
    /// ([`Committed::lsn`](crate::Committed::lsn)). In a Synced store, nothing beyond it is acknowledged. A
    /// read-only handle tells the last LSN that it read.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.core.group.durable()
    }

    /// Returns once every commit up to `lsn` is durable: [`RolloutStore::sync`] for one commit, which later ones do not
    /// hold up.
    ///
    /// # Errors
    /// As for [`RolloutStore::sync`]; `Invalid` for an LSN that was never written.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        let durable = self.durable_lsn();
        if lsn <= durable {
            return Ok(());
        }
        self.core.check_writable()?;
        let written = self.core.group.written();
        if lsn > written {
            return Err(Error::invalid(format!("LSN {lsn} was never written; the last one is {written}")));
        }
        self.core.group.wait_durable(&self.core, lsn)
    }
}
