//! The step and the window that ages and flags are for.
//!
//! May touch nothing. Knows nothing of stores.

use clap::Args;

/// What decides whether a rollout is fresh, where it is not what the store last used.
#[derive(Debug, Clone, Copy, Args)]
pub struct AtArgs {
    /// The step at which ages are taken [default: the last that the trainer acted at]
    #[arg(long, value_name = "N")]
    pub step: Option<u64>,
    /// The window in steps [default: what the store last used]
    #[arg(long, value_name = "W")]
    pub window: Option<u64>,
}
