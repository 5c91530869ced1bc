//! What a store went through, as a value: for a new store that takes its rollouts over.
//!
//! May touch counters. Knows nothing of rollouts, clocks or files.

use crate::error::{Error, Result};
use crate::ids::RolloutId;
use crate::state::State;
use crate::store::RolloutStore;
use crate::store::stats::StatsCounters;

/// What a store counted, and which ids it used: [`Options::past`](crate::Options::past) makes a new store that goes on from
/// there. [`Clocks`](crate::Clocks) say where it stands.
///
/// # How do the counts of two stores go on in one?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, Reason, RolloutStore};
/// let run = RolloutStore::options().window(8).open(dir.path().join("run"))?;
/// run.insert(NewRollout::new(7, 98))?;
/// run.insert(NewRollout::new(8, 98))?;
/// run.retire(&[8.into()], Reason::Trained)?;
///
/// let mut past = run.past();
/// past.counters.inserted -= 1; // rollout 7 is inserted again
/// let copy = RolloutStore::options().window(8).past(past).open(dir.path().join("copy"))?;
/// copy.insert(NewRollout::new(7, 98))?;
/// assert_eq!(copy.stats()?.counters, run.stats()?.counters);
/// assert_eq!(copy.allocate_ids(1)?.next(), Some(9.into())); // 8 was used
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Counts for the life of the lineage.
    pub counters: StatsCounters,
    /// The lowest counted id that was neither used nor handed out.
    pub next_id: u64,
}

impl RolloutStore {
    /// What the store went through, as one committed state.
    #[must_use]
    pub fn past(&self) -> Past {
        let state = std::sync::Arc::clone(&self.core.published.read().state);
        Past { counters: StatsCounters::at(&state, &self.core.usage), next_id: state.id_ceiling }
    }

    /// Whether a live rollout was ever given to a plan, a gather or `get_or_compute`: one that ends before is counted as unused.
    #[must_use]
    pub fn was_asked(&self, id: RolloutId) -> bool {
        let published = self.core.published.read();
        published.index.find(id).is_some_and(|slot| published.index.is_asked_at(slot))
    }
}

impl Past {
    /// Gives the state of a new store what it counts from.
    pub(crate) fn begin(&self, state: &mut State) -> Result<()> {
        if self.next_id > RolloutId::FIRST_KEYED {
            return Err(Error::invalid(format!(
                "past: next_id {} is the hash of a key; ids end at 2^63",
                self.next_id
            )));
        }
        state.counters = self.counters.counters();
        state.id_ceiling = self.next_id;
        Ok(())
    }
}
