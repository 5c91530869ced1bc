//! What one simulated machine is: its tree, its faults, its options, and whether it still has power.
//!
//! May touch `tree` and `fault`. Knows nothing of handles.

use std::io;

use super::super::recorder::{OpKind, Request};
use super::fault::{Faults, Verdict};
use super::tree::Tree;
use super::{Machine, io_error};

/// What the simulated file system supports.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) hard_links: bool,
    pub(super) locks: bool,
    pub(super) exchange: bool,
    pub(super) capacity_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { hard_links: true, locks: true, exchange: true, capacity_bytes: None }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) faults: Faults,
    pub(super) options: Options,
    pub(super) dead: bool,
}

impl State {
    /// The successor of a machine: with the same options, and none of its faults.
    pub(super) fn after(old: &Self, tree: Tree) -> Self {
        Self { tree, options: old.options.clone(), ..Self::default() }
    }

    /// Bytes by which files may still grow; `None` for no limit.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.options.capacity_bytes.map(|capacity| capacity.saturating_sub(self.tree.used_bytes()))
    }
}

/// How much of an operation is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// Half of a write, which then fails.
    Half,
    /// Everything but what makes it durable: the power goes in the middle.
    Underway,
    /// Only the harm that a failed data sync does.
    Harm,
}

impl Machine {
    /// Runs one operation under the machine's lock: numbers it, lets its fault strike, and takes it down.
    pub(super) fn run<T, E: From<io::Error>>(
        &self,
        request: Request<'_>,
        act: impl FnOnce(&mut State, Extent) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.state.lock();
        if state.dead {
            return Err(io_error().into());
        }
        let begun = self.recorder.begin();
        let result = match state.faults.verdict(begun.number, request.kind, request.path) {
            Verdict::Pass => act(&mut state, Extent::Whole),
            Verdict::Halve => act(&mut state, Extent::Half),
            Verdict::Refuse(error) => {
                if request.kind == OpKind::SyncData {
                    let _ = act(&mut state, Extent::Harm);
                }
                Err(error.into())
            }
            Verdict::CutPower => {
                // Whether it would have gone well no longer matters.
                let _ = act(&mut state, Extent::Underway);
                state.dead = true;
                Err(io_error().into())
            }
        };
        self.recorder.end(begun, request, result.is_ok());
        result
    }
}
