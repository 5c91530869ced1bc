//! How far a sweep comes with a commit.
//!
//! Pure.
//!
//! Always true:
//! - P1. Progress is written only where the sweep stands where it stood at hand-out, and the versions that its results are of
//!   have not been abandoned since.

use crate::error::{Error, Result};
use crate::format::manifest::{SweepProgress, SweepRecord};
use crate::limits;
use crate::log::event::{Clock, Event};
use crate::state::{State, oldest_finished};

/// An operation of a batch: how far a sweep comes with the results before it.
#[derive(Debug)]
pub(crate) struct Move {
    pub(super) name: String,
    /// The clock of the versions that the sweep computes with.
    pub(super) clock: Clock,
    /// As it was at hand-out; `None` where nothing was known of it.
    pub(super) was: Option<SweepProgress>,
    /// `None` where it is forgotten.
    pub(super) now: Option<SweepProgress>,
}

impl Move {
    /// What is written; nothing where something else came between.
    pub(crate) fn event(&self, state: &State) -> Result<Option<Event>> {
        let Self { name, clock, was, now } = self;
        let versions = if *clock == Clock::Ref { &state.ref_clock } else { &state.kl_clock };
        if state.sweep(name) != *was || now.is_some_and(|now| !versions.contains(now.version)) {
            return Ok(None);
        }
        if was.is_none() && now.is_some() {
            check_room(&state.sweeps)?;
        }
        Ok(Some(Event::Sweep { name: name.clone(), progress: *now }))
    }
}

/// Refuses another sweep where too many are under way.
pub(super) fn check_room(sweeps: &[SweepRecord]) -> Result<()> {
    let max = limits::SWEEPS_MAX;
    if sweeps.len() < max || oldest_finished(sweeps).is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{max} sweeps are under way, which is the limit; finish one, or forget_sweep those that no one goes on with"
    )))
}
