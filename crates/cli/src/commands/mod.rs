//! The inspector: what is in a store, shown without touching it.
//!
//! May touch stores, read-only. Knows nothing of traces and replays.
//!
//! Always true:
//! - I1. Nothing is written, created or locked: a trainer may be writing to the store.
//! - I2. Damage in one rollout is told on standard error, turns the exit code to 1, and does not hide the others.
//! - I3. What stands in for an option that was not given is said in the output.

mod chosen;
pub(crate) mod diagnose;
pub(crate) mod diff;
pub(crate) mod dump;
mod frame;
pub(crate) mod get;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod report;
mod row;
pub(crate) mod segments;
pub(crate) mod stat;
pub(crate) mod sweeps;
mod tokens;
pub(crate) mod verify;
mod watch;

use std::path::Path;

use rollstore::{RolloutId, RolloutStore};

use crate::exit::{Failure, Outcome};
use crate::text;

/// Opens a store to look at it; the window is the one last used unless given.
fn open(path: &Path, window: Option<u64>) -> Outcome<RolloutStore> {
    let options = RolloutStore::options().read_only(true);
    let options = match window {
        Some(window) => options.window(window),
        None => options,
    };
    Ok(options.open(path)?)
}

/// The step at which ages are taken, and where it comes from.
#[derive(Debug, Clone, Copy)]
struct Step {
    step: u64,
    origin: &'static str,
}

impl Step {
    /// The step that was asked for; else the last that the trainer acted at; else, before it acted, the newest born.
    fn of(store: &RolloutStore, asked: Option<u64>) -> Outcome<Self> {
        if let Some(step) = asked {
            return Ok(Self { step, origin: "as given" });
        }
        if let Some(step) = store.clock() {
            return Ok(Self { step, origin: "the store's clock" });
        }
        let youngest = store.ids().last().copied();
        let step = match youngest.map(|id| store.get(id)).transpose()?.flatten() {
            Some(rollout) => rollout.born_step(),
            None => 0,
        };
        Ok(Self { step, origin: "the newest born, since the trainer has not acted yet" })
    }
}

impl Step {
    /// The step, window and lag that flags are for, each with where it comes from.
    fn words(self, store: &RolloutStore, asked_window: Option<u64>) -> String {
        let Self { step, origin } = self;
        let (window, lag) = (text::bound(store.window()), text::bound(store.max_version_lag()));
        let window_origin = if asked_window.is_some() { "as given" } else { "as last used" };
        format!("step {step} ({origin}), window {window} ({window_origin}), lag {lag} (as last used)")
    }
}

fn not_live(store: &Path, named: &str) -> Failure {
    Failure::could_not_look(format!("{} is not live in {}", rollout_named(named), text::path(store)))
}

/// How a rollout is called in a message that was named so: by number or by key.
fn rollout_named(named: &str) -> String {
    match named.parse::<RolloutId>() {
        Ok(id) => format!("rollout {id}"),
        Err(_) => format!("a rollout of the key {named:?}"),
    }
}
