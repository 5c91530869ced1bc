//! What a sweep set aside: rollouts whose computation failed.
//!
//! Pure but for its one lock. Lives as long as the open store: after a restart every rollout is tried again.
//!
//! Always true:
//! - A1. A sweep of one name runs once at a time.
//! - A2. A rollout whose computation is under way is set aside already: where the closure panics, the next call goes on
//!   with others.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::ids::RolloutId;
use crate::limits::SWEEPS_MAX;
use crate::log::event::Incarnation;
use crate::sync::Mutex;

/// What the named sweeps of an open store set aside; `None` while a sweep runs and has it.
#[derive(Debug, Default)]
pub(crate) struct Asides(Mutex<HashMap<String, Option<Aside>>>);

/// A rollout whose computation failed in a [`Sweep`](crate::Sweep).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// The rollout.
    pub id: RolloutId,
    /// How often it failed since the store was opened, the version changed or the pass began, whichever came last.
    pub attempts: u32,
    /// Whether it is not tried again: it failed once more than the sweep retries, or it cannot be read.
    pub given_up: bool,
    /// What went wrong the last time.
    pub reason: String,
}

#[derive(Debug, Clone)]
struct Failure {
    attempts: u32,
    given_up: bool,
    /// It failed together with others, or may have: it is tried alone.
    is_suspect: bool,
    reason: String,
}

/// What one sweep set aside.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// The version that the failed computations were made with.
    version: u64,
    failures: HashMap<Incarnation, Failure>,
}

impl Aside {
    /// Whether the rollout failed before.
    pub(super) fn has(&self, rollout: &Incarnation) -> bool {
        self.failures.contains_key(rollout)
    }

    /// Whether the rollout is to be tried by itself.
    pub(super) fn is_suspect(&self, rollout: &Incarnation) -> bool {
        self.failures.get(rollout).is_some_and(|failure| failure.is_suspect)
    }

    /// Whether the rollout is not tried again.
    pub(super) fn is_given_up(&self, rollout: &Incarnation) -> bool {
        self.failures.get(rollout).is_some_and(|failure| failure.given_up)
    }

    /// How often the rollout failed.
    pub(super) fn attempts(&self, rollout: &Incarnation) -> u32 {
        self.failures.get(rollout).map_or(0, |failure| failure.attempts)
    }

    /// Whether there is anything to try again.
    pub(super) fn is_retryable(&self) -> bool {
        self.fewest_attempts().is_some()
    }

    /// How often those failed that are to be tried again next; `None` where there are none.
    pub(super) fn fewest_attempts(&self) -> Option<u32> {
        self.failures.values().filter(|failure| !failure.given_up).map(|failure| failure.attempts).min()
    }

    /// The rollouts are handed out now. Whatever becomes of the closure, they are tried alone the next time, unless a result
    /// or a failure of their own is noted.
    pub(super) fn hand_out(&mut self, rollouts: &[Incarnation]) {
        for rollout in rollouts {
            let reason = || "the computation did not end".to_owned();
            let new = || Failure { attempts: 0, given_up: false, is_suspect: true, reason: reason() };
            self.failures.entry(*rollout).or_insert_with(new).is_suspect = true;
        }
    }

    /// The computation of all of these together failed. Whose fault it is can be told for one alone.
    pub(super) fn fail_together(&mut self, rollouts: &[Incarnation], reason: &str, retries: u32) {
        if let [rollout] = rollouts {
            self.fail(*rollout, reason.to_owned(), retries);
            self.failures.entry(*rollout).and_modify(|failure| failure.is_suspect = true);
        } else {
            for rollout in rollouts {
                self.failures.entry(*rollout).and_modify(|failure| reason.clone_into(&mut failure.reason));
            }
        }
    }

    /// The computation of this one failed.
    pub(super) fn fail(&mut self, rollout: Incarnation, reason: String, retries: u32) {
        let attempts = self.attempts(&rollout).saturating_add(1);
        self.failures.insert(rollout, Failure { attempts, given_up: attempts > retries, is_suspect: false, reason });
    }

    /// The rollout cannot be read: trying again is of no use.
    pub(super) fn give_up(&mut self, rollout: Incarnation, reason: String) {
        self.fail(rollout, reason, 0);
    }

    /// The rollout was computed.
    pub(super) fn settle(&mut self, rollout: &Incarnation) {
        self.failures.remove(rollout);
    }

    /// Begins anew with every rollout.
    pub(super) fn clear(&mut self) {
        self.failures.clear();
    }

    /// Begins anew where the weights are others.
    pub(super) fn with_version(&mut self, version: u64) {
        if self.version != version {
            self.failures.clear();
        }
        self.version = version;
    }

    /// Forgets rollouts that are not to be computed any more.
    pub(super) fn keep(&mut self, is_left: impl Fn(&Incarnation) -> bool) {
        self.failures.retain(|rollout, _| is_left(rollout));
    }

    /// What failed, by id.
    pub(super) fn report(&self) -> Vec<SetAside> {
        let failure = |(rollout, failure): (&Incarnation, &Failure)| SetAside {
            id: rollout.id,
            attempts: failure.attempts,
            given_up: failure.given_up,
            reason: failure.reason.clone(),
        };
        let mut report: Vec<_> = self.failures.iter().map(failure).collect();
        report.sort_unstable_by_key(|failure| failure.id);
        report
    }
}

/// What a running sweep set aside; goes back when the run ends, however it does.
pub(super) struct Running<'a> {
    asides: &'a Asides,
    name: &'a str,
    pub(super) aside: Aside,
}

impl Asides {
    /// Takes what the sweep of this name set aside. No other call runs it until it is given back.
    pub(super) fn take<'a>(&'a self, name: &'a str) -> Result<Running<'a>> {
        let mut asides = self.0.lock();
        let aside = match asides.get_mut(name) {
            Some(aside) => aside.take().ok_or_else(|| {
                Error::invalid(format!("sweep {name:?} is running; wait for it, or give this one another name"))
            })?,
            None => Aside::default(),
        };
        asides.insert(name.to_owned(), None);
        Ok(Running { asides: self, name, aside })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut asides = self.asides.0.lock();
        asides.remove(self.name);
        // Names that no one runs any more must not add up.
        if asides.len() >= SWEEPS_MAX {
            asides.retain(|_, aside| aside.is_none());
        }
        if !self.aside.failures.is_empty() {
            asides.insert(self.name.to_owned(), Some(std::mem::take(&mut self.aside)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lsn;

    fn rollout(id: u64) -> Incarnation {
        Incarnation { id: RolloutId::new(id), insert_lsn: Lsn::new(1) }
    }

    #[test]
    fn one_that_failed_alone_is_given_up_after_its_retries() {
        let mut aside = Aside::default();
        for attempt in 1..=3 {
            aside.hand_out(&[rollout(1)]);
            aside.fail_together(&[rollout(1)], "no", 2);
            assert_eq!(aside.is_given_up(&rollout(1)), attempt > 2, "attempt {attempt}");
        }
    }

    #[test]
    fn those_that_failed_together_are_suspects_and_lose_no_attempt() {
        let mut aside = Aside::default();
        aside.hand_out(&[rollout(1), rollout(2)]);
        aside.fail_together(&[rollout(1), rollout(2)], "out of memory", 0);
        assert!(aside.is_suspect(&rollout(1)) && !aside.is_given_up(&rollout(1)) && aside.is_retryable());
        assert_eq!(aside.report()[1].reason, "out of memory");
        aside.settle(&rollout(1));
        assert_eq!(aside.report().len(), 1);
    }

    #[test]
    fn a_sweep_runs_once_at_a_time_and_keeps_what_it_set_aside() {
        let asides = Asides::default();
        let mut running = asides.take("a").unwrap();
        assert!(asides.take("a").is_err() && asides.take("b").is_ok());
        running.aside.fail(rollout(1), "no".to_owned(), 1);
        drop(running);
        assert!(asides.take("a").unwrap().aside.has(&rollout(1)));
    }

    #[test]
    fn other_weights_begin_anew() {
        let mut aside = Aside::default();
        aside.with_version(1);
        aside.fail(rollout(1), "no".to_owned(), 0);
        aside.with_version(1);
        assert!(aside.has(&rollout(1)));
        aside.with_version(2);
        assert!(!aside.has(&rollout(1)));
    }
}
