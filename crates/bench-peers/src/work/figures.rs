//! Named figures of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures by name; the name ends with the unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Single figures.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Figures a step, for plots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) series: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    /// Sets a figure; one that is no number, since nothing was there to be divided by, is left out.
    pub(crate) fn set(&mut self, name: &str, figure: f64) {
        if !figure.is_finite() {
            return;
        }
        let before = self.figures.insert(name.to_owned(), figure);
        debug_assert!(before.is_none(), "{name} is set once");
    }
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "figures, not sums to check")]
pub(crate) fn count(count: impl TryInto<u64>) -> f64 {
    count.try_into().map_or(f64::NAN, |count| count as f64)
}
