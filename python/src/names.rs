//! Names of columns: ours, and the trainers' for the same.

use pyo3::prelude::*;
use rollstore::Column;

/// The trainers' names of well-known columns, and ours.
const ALIASES: [(&str, &str); 9] = [
    ("old_per_token_logps", "old_logps"),          // TRL
    ("sampling_per_token_logps", "sampler_logps"), // TRL
    ("ref_per_token_logps", "kl_ref_logps"),       // TRL
    ("old_log_probs", "old_logps"),                // verl
    ("rollout_log_probs", "sampler_logps"),        // verl
    ("ref_log_prob", "kl_ref_logps"),              // verl
    ("proximal_logp", "old_logps"),                // AReaL
    ("prox_logp", "old_logps"),                    // AReaL
    ("logprobs", "sampler_logps"),                 // AReaL
];

/// Our name of a column, whichever of its names it is asked by.
#[pyfunction]
pub(crate) fn column_name(name: &str) -> &str {
    ALIASES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
}

/// The column, whichever of its names it is asked by.
pub(crate) fn column(name: &str) -> Column {
    Column::from_name(column_name(name))
}
