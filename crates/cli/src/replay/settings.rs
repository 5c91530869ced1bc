//! What a replay was asked to do.
//!
//! May touch nothing. Knows nothing of stores.

use serde::Serialize;

use crate::args::{Clock, Mode, ReplayArgs};
use crate::exit::{Failure, Outcome};
use crate::trace::At;

/// The options that decide the result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Settings {
    pub(super) mode: Mode,
    pub(super) clock: Clock,
    pub(super) window: u64,
    pub(super) lag: u64,
    pub(super) every: u64,
}

impl Settings {
    pub(super) fn new(args: &ReplayArgs) -> Self {
        let ReplayArgs { mode, clock, window, lag, .. } = *args;
        let every = args.every.unwrap_or_else(|| default_every(window, lag));
        Self { mode, clock, window, lag, every }
    }

    /// The identity under which the store is made: a replay with other options is refused by the store itself.
    pub(super) fn identity(&self) -> Outcome<Vec<u8>> {
        let json = serde_json::to_string(self)
            .map_err(|error| Failure::could_not_look(format!("could not write the options down: {error}")))?;
        Ok(format!("rollstore replay {json}").into_bytes())
    }

    /// The step of an event by the clock in use.
    pub(super) fn step(&self, at: At) -> Outcome<u64> {
        self.step_if_any(at).ok_or_else(|| {
            Failure::could_not_look(format!("the event needs the field `{}`, which is the clock", self.clock_name()))
        })
    }

    /// As [`Settings::step`], for events that may come without a step.
    pub(super) fn step_if_any(&self, at: At) -> Option<u64> {
        match self.clock {
            Clock::V => at.v,
            Clock::Micro => at.micro,
        }
    }

    pub(super) fn clock_name(&self) -> &'static str {
        match self.clock {
            Clock::V => "v",
            Clock::Micro => "micro",
        }
    }

    /// Whether the static schedule keeps served log-probs exactly as fresh as the store does: both count policy
    /// versions, and a schedule of every N leaves them at most N - 1 old.
    pub(super) fn is_same_bound(&self) -> bool {
        self.mode == Mode::Refresh && self.clock == Clock::V && self.every == default_every(self.window, self.lag)
    }
}

fn default_every(window: u64, lag: u64) -> u64 {
    window.min(lag).saturating_add(1)
}
