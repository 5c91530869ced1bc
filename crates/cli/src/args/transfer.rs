//! The options of `dump` and `load`.
//!
//! May touch nothing. Knows nothing of how the formats look.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{AtArgs, Filter};

const DUMP_HELP: &str = "\
Examples:
  rollstore dump run/rollouts | jq -c 'select(.reward) | [.id, .reward]'
  rollstore dump run/rollouts -o rollouts.parquet --compression snappy
  rollstore dump run/rollouts --group 280 --columns completion_ids,old_logps -o group.safetensors

A file appears under its name when it is whole and synced; it ends the one that was there. What cannot be read is told and \
left out; in JSON Lines it has an error in place of its values. Every dump has a mark with the number of its rollouts and a \
checksum, which \"rollstore load\" checks; in JSON Lines it is the last line. docs/cli.md says how each format looks.

Exit code: 0 sound, 1 damage was met and left out, 2 could not look, or could not write.";

const LOAD_HELP: &str = "\
Examples:
  rollstore load rollouts.parquet -o run/rollouts
  rollstore load shard-0.safetensors shard-1.safetensors -o all

All files are checked against their marks before anything is made. A new store has the versions, clock, cursor, window and \
lag of the dump; it appears when it is whole. A store that exists takes rollouts that it does not have, of versions that mean \
the same in it.

Exit code: 0 loaded, 1 loaded, but a dump left out what was damaged, 2 refused or failed.";

/// Options of `dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_HELP)]
pub struct DumpArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// The format [default: by the ending of the file, else JSON Lines]
    #[arg(long, value_enum)]
    pub format: Option<DumpFormat>,
    /// Write a file in place of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only these columns, beside what is one value a rollout
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// How the pages of a Parquet file are compressed
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Which rollouts
    #[command(flatten)]
    pub filter: Filter,
    /// For which step and window.
    #[command(flatten)]
    pub at: AtArgs,
    /// Accepted, since the output is JSON already
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// How a dump looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DumpFormat {
    /// JSON Lines: an object a rollout
    Jsonl,
    /// Parquet: a row a rollout, arrays as lists
    Parquet,
    /// Flat tensors, and the places at which each rollout's values begin
    Safetensors,
}

/// How the pages of a Parquet file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all: log-probs hardly become smaller
    None,
    /// Fast, and read by everything
    Snappy,
}

/// Options of `load`.
#[derive(Debug, Args)]
#[command(after_help = LOAD_HELP)]
pub struct LoadArgs {
    /// Files that "rollstore dump" wrote, in any of its formats
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory of the store: a new one, or one that no trainer has open
    #[arg(short, long, value_name = "STORE")]
    pub output: PathBuf,
}

impl DumpFormat {
    /// The format that a file's ending names.
    #[must_use]
    pub fn of_ending(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "parquet" | "pq" => Some(Self::Parquet),
            "safetensors" => Some(Self::Safetensors),
            _ => None,
        }
    }
}
