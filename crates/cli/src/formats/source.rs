//! The rollouts of a dump, and which of their columns are in it.
//!
//! May touch stores, read-only. Knows nothing of formats.

use std::cell::RefCell;

use rollstore::{ColumnInfo, ErrorKind, Rollout, RolloutId, RolloutStore};

use super::view::RolloutJson;
use crate::exit::{Failure, Outcome, note};

/// What is dumped.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) store: &'a RolloutStore,
    /// The rollouts, in their order.
    pub(crate) ids: Vec<RolloutId>,
    /// The columns; `None` for all.
    columns: Option<&'a [String]>,
    /// Those that no rollout had yet.
    unmet: RefCell<Vec<&'a str>>,
}

/// What is known of a rollout that is to be dumped.
pub(super) enum Found {
    Rollout(Box<Rollout>),
    /// Retired since the rollouts were listed.
    Gone,
    /// It cannot be read.
    Damaged(String),
}

impl<'a> Source<'a> {
    pub(crate) fn new(store: &'a RolloutStore, ids: Vec<RolloutId>, columns: Option<&'a [String]>) -> Self {
        let unmet = columns.unwrap_or_default().iter().map(String::as_str).collect();
        Self { store, ids, columns, unmet: RefCell::new(unmet) }
    }

    /// Columns that were asked for and that no rollout has which was dumped.
    pub(crate) fn unmet(&self) -> Vec<&'a str> {
        self.unmet.borrow().clone()
    }

    pub(super) fn get(&self, id: RolloutId) -> Outcome<Found> {
        match self.store.get(id) {
            Ok(Some(rollout)) => Ok(Found::Rollout(Box::new(rollout))),
            Ok(None) => Ok(Found::Gone),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                note(&format!("rollout {id}: {error}"));
                Ok(Found::Damaged(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A rollout that was there before.
    pub(super) fn again(&self, id: RolloutId) -> Outcome<Box<Rollout>> {
        match self.get(id)? {
            Found::Rollout(rollout) => Ok(rollout),
            Found::Gone | Found::Damaged(_) => Err(Failure::could_not_look(format!(
                "rollout {id} could be read and now cannot; dump the rollouts again"
            ))),
        }
    }

    fn takes(&self, column: &str) -> bool {
        self.unmet.borrow_mut().retain(|name| *name != column);
        self.columns.is_none_or(|columns| columns.iter().any(|name| name == column))
    }

    /// The columns of a rollout that are dumped.
    pub(super) fn columns(&self, rollout: &Rollout) -> impl Iterator<Item = ColumnInfo> {
        rollout.columns().into_iter().filter(|info| self.takes(info.column.name()))
    }

    /// Whether the rollout's first old log-probs are dumped: where all columns are.
    pub(super) fn takes_first(&self, rollout: &Rollout) -> bool {
        self.columns.is_none() && rollout.keeps_first_old_logps()
    }

    pub(super) fn json<'r>(&self, rollout: &'r Rollout) -> Outcome<RolloutJson<'r>> {
        RolloutJson::of(rollout, self.columns(rollout), self.takes_first(rollout))
    }
}
