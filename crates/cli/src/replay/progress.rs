//! How far a replay has come, and what it has counted: the store's cursor.
//!
//! May touch nothing. Knows nothing of how the counts came about.

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome};
use crate::trace::Position;

/// The record that each commit of a replay carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// How far the trace was played.
    pub(super) position: Position,
    /// Whether the trace was played to its end.
    pub(super) finished: bool,
    /// What was counted up to there.
    pub(super) totals: Totals,
}

/// What a replay counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) inserted: u64,
    pub(super) access_rows: u64,
    pub(super) served_rows: u64,
    pub(super) recomputed_rows: u64,
    pub(super) recomputed_tokens: u64,
    pub(super) retired: u64,
    pub(super) advances: u64,
    pub(super) checkpoints: u64,
    pub(super) crashes: u64,
    pub(super) restores: u64,
    /// Rollouts that the static schedule would have computed.
    pub(super) static_modulo_rows: u64,
    pub(super) static_modulo_tokens: u64,
    pub(super) static_modulo_peak_rows: u64,
    /// Rollouts recomputed since the last advance.
    pub(super) step_rows: u64,
    pub(super) peak_rows_per_step: u64,
    /// CRC-32 of the old log-probs of every accessed rollout, in order.
    pub(super) values_crc32: u32,
}

/// What a replay ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) totals: Totals,
    /// Rollouts live in the store.
    pub(super) live: u64,
}

impl Progress {
    /// The record as the store's cursor.
    pub(super) fn to_cursor(self) -> Outcome<Vec<u8>> {
        serde_json::to_vec(&self)
            .map_err(|error| Failure::could_not_look(format!("could not write the cursor: {error}")))
    }

    /// The record in a store's cursor.
    pub(super) fn from_cursor(cursor: &[u8]) -> Outcome<Self> {
        serde_json::from_slice(cursor).map_err(|error| {
            Failure::could_not_look(format!("the store's cursor was not written by a replay: {error}"))
        })
    }
}

impl Totals {
    /// Takes the old log-probs of one accessed rollout into the checksum.
    pub(super) fn add_values(&mut self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut hasher = crc32fast::Hasher::new_with_initial(self.values_crc32);
        hasher.update(&bytes);
        self.values_crc32 = hasher.finalize();
    }

    /// Counts rollouts that were recomputed before an access.
    pub(super) fn add_recomputed(&mut self, rows: u64, tokens: u64) {
        self.recomputed_rows += rows;
        self.recomputed_tokens += tokens;
        self.step_rows += rows;
        self.peak_rows_per_step = self.peak_rows_per_step.max(self.step_rows);
    }

    /// Counts an advance of the reference version: the next step begins.
    pub(super) fn add_advance(&mut self) {
        self.advances += 1;
        self.step_rows = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_goes_on_after_a_restart() {
        let values = [1.0_f32, -0.0, f32::from_bits(0x7fc0_0001), -17.000_001];
        let mut whole = Totals::default();
        whole.add_values(&values);
        let mut first = Progress::default();
        first.totals.add_values(&values[..1]);
        first.totals.add_values(&[]);
        let mut second = Progress::from_cursor(&first.to_cursor().unwrap()).unwrap();
        second.totals.add_values(&values[1..]);
        assert_eq!(second.totals, whole);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(whole.values_crc32, crc32fast::hash(&bytes));
    }

    #[test]
    fn the_peak_is_the_most_between_two_advances() {
        let mut totals = Totals::default();
        for (rows, advance) in [(3, false), (4, true), (6, true), (0, true)] {
            totals.add_recomputed(rows, 10 * rows);
            if advance {
                totals.add_advance();
            }
        }
        assert_eq!((totals.recomputed_rows, totals.peak_rows_per_step, totals.advances), (13, 7, 3));
    }
}
