//! How a list of rollouts is sorted, and what is shown of each.
//!
//! May touch nothing. Knows nothing of stores.

use clap::ValueEnum;

/// What rollouts are sorted by; among equals by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RolloutOrder {
    /// The rollout's number
    Id,
    /// The step at which it was sampled
    Created,
    /// The version of its old log-probs; those without any come first
    Version,
    /// Steps since it was born
    Age,
    /// Prompt and completion tokens
    Tokens,
    /// Bytes of its columns
    Bytes,
}

/// One thing that is shown of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RolloutColumn {
    /// The rollout's number
    Id,
    /// The string that its number is the hash of
    Key,
    /// The step at which it was sampled
    Created,
    /// The step from which its old log-probs count as fresh
    Born,
    /// The version of its old log-probs
    Version,
    /// Steps since it was born
    Age,
    /// Advances of the reference version since its old log-probs
    Behind,
    /// Prompt and completion tokens
    Tokens,
    /// Bytes of its columns
    Bytes,
    /// The rollouts that share its prompt
    Group,
    /// What it was worth
    Reward,
    /// Its advantage
    Advantage,
    /// Fresh, or why it is not
    State,
}
