//! The options of `merge` and `reshard`.
//!
//! May touch nothing. Knows nothing of how shards are made into others.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

const MERGE_HELP: &str = "\
Examples:
  rollstore merge run/shard-0 run/shard-1 -o run/all
  rollstore merge ckpt-100/shards -o all --on-conflict newest
  rollstore merge rank-0 rank-1 -o all --cursor-of 0

Shards are only read: stores that no trainer has open, or checkpoints of one step. All must be of one run (identity, window, \
lag) and have one cursor; versions whose numbers differ are told by their labels. The store appears when it is whole and on \
disk; a merge that was killed goes on when the same command is given again. Counts before and after are compared.

Exit code: 0 made, 1 a shard is damaged, 2 refused or failed: nothing is there.";

const RESHARD_HELP: &str = "\
Examples:
  rollstore reshard run/shards --shards 3 -o run/three
  rollstore reshard rank-0 rank-1 rank-2 --shards 8 -o eight --json

A directory of shards (shard-00000 and so on, or rank-00000) stands for all of them. Which rollout goes where follows from its \
id and the number of shards; one shard more takes rollouts from the others, and moves none between them. In all else as \
\"rollstore merge\".

Exit code: 0 made, 1 a shard is damaged, 2 refused or failed: nothing is there.";

/// What `merge` and `reshard` have in common.
#[derive(Debug, Args)]
pub struct ShardsArgs {
    /// The shards: directories of stores or checkpoints, or one of shards
    #[arg(required = true, value_name = "SHARD")]
    pub from: Vec<PathBuf>,
    /// What becomes of ids that more than one shard has: an error, or the newest is taken
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnConflict::Error)]
    pub on_conflict: OnConflict,
    /// Take the cursor of this shard, the first being 0 [default: the one that all have]
    #[arg(long, value_name = "N", conflicts_with = "no_cursor")]
    pub cursor_of: Option<usize>,
    /// Take no cursor
    #[arg(long)]
    pub no_cursor: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What becomes of ids that more than one shard has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnConflict {
    /// They are named, and nothing is made
    Error,
    /// Created last, then computed last, then of the shard named last
    Newest,
}

/// Options of `merge`.
#[derive(Debug, Args)]
#[command(after_help = MERGE_HELP)]
pub struct MergeArgs {
    /// Which shards, and how.
    #[command(flatten)]
    pub of: ShardsArgs,
    /// Directory of the store to make
    #[arg(short, long, value_name = "STORE")]
    pub output: PathBuf,
}

/// Options of `reshard`.
#[derive(Debug, Args)]
#[command(after_help = RESHARD_HELP)]
pub struct ReshardArgs {
    /// Which shards, and how.
    #[command(flatten)]
    pub of: ShardsArgs,
    /// How many shards to make
    #[arg(long, value_name = "K")]
    pub shards: NonZeroU32,
    /// Directory to make, with a store for each shard
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}
