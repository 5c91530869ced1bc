//! The command line: every command, option and default, and the help that explains them.
//!
//! May touch nothing. Knows nothing of how commands work.

mod at;
mod filter;
mod look;
mod objects;
mod period;
mod shards;
mod table;
mod transfer;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::Output;

pub use at::AtArgs;
pub use filter::{Filter, Span};
pub use look::{CompletionsArgs, DiffArgs, GroupArgs, HistoryArgs, LogArgs, ReportArgs, SegmentOrder, SegmentsArgs};
pub use objects::{CheckpointArgs, CheckpointsArgs, RestoreArgs};
pub use period::Period;
pub use shards::{MergeArgs, OnConflict, ReshardArgs, ShardsArgs};
pub use table::{RolloutColumn, RolloutOrder};
pub use transfer::{Compression, DumpArgs, DumpFormat, LoadArgs};

const ABOUT: &str =
    "A crash-safe store for RL rollouts: replay a recorded run against it, look inside, check and repair";

const STAT_HELP: &str = "\
Examples:
  rollstore stat run/rollouts
  rollstore stat run/rollouts --every 2s
  rollstore stat run/rollouts --every 1m --json >> stat.jsonl

With --every a terminal shows the newest look alone; elsewhere looks follow each other. A JSON line then has seconds, since \
the first look, and per_second: inserted, computed, retired and log_bytes since the look before; null in the first one.";

const LS_HELP: &str = "\
Examples:
  rollstore ls run/rollouts --stale --limit 20
  rollstore ls run/rollouts --sort bytes --reverse --limit 10 --columns id,tokens,bytes
  rollstore ls run/rollouts --columns id,reward --json";

const VERIFY_JSON: &str = "\
The JSON object: sound (bool), checkpoint (bool: not a store), segments, frames, bytes (of segments, checked), in_flight_bytes \
(behind the last whole batch: a write under way, or cut short by a crash), last_lsn, and findings: a list of {file (its \
name within the store), offset (in bytes), expected, found, rollouts (ids, as strings, that the damaged bytes still \
name)}. Of a URL: sound, checkpoints, segments, bytes (of segments, read), and findings: a list of {object (its URL), what, \
checkpoints (their numbers, which cannot be restored for it)}.

Exit code: 0 sound, 1 damage was found, 2 could not look.";

const REPAIR_JSON: &str = "\
Damaged files are moved to STORE/damaged as they are; whole frames of them are copied to new segments. Where an advance or \
a retirement may be among what was lost, every rollout is made stale. A batch that lost a frame comes back in parts. \
Restoring a checkpoint loses less where there is one.

The JSON object: findings (as in verify), rollouts_lost (ids, as strings, whose newest data was lost), frames_kept, \
set_aside (names within the store) and all_stale (bool). A sound store gives empty lists.

Exit code: 0 nothing was wrong or all was repaired, 1 damaged and left so, since the answer was no, 2 could not repair, or \
there was nobody to ask.";

const AFTER_HELP: &str = "\
Exit code: 0 sound, 1 damage or a difference was found, 2 could not look (bad input, no such store, full disk). \
Data goes to standard output, everything else to standard error. NO_COLOR is honoured.

In JSON, ids of rollouts and groups are strings, since many readers keep 53 bits of a number. NaN, Infinity and \
-Infinity are strings of that name; a NaN with unusual bits has them behind it: \"NaN(0x7fc00001)\". Other numbers are numbers, with the fewest digits that give the same f32 back. \
Metadata that is not UTF-8 is {\"hex\": \"...\"}.";

#[derive(Debug, Parser)]
#[command(name = "rollstore", version, about = ABOUT, after_help = AFTER_HELP, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay a recorded trainer run against a store and report what it did
    Replay(ReplayArgs),
    /// Show a store's clocks, options, sizes and counters
    Stat(StatArgs),
    /// List live rollouts, oldest born first
    Ls(LsArgs),
    /// Show one rollout, or the values of one of its columns
    Get(GetArgs),
    /// Print rollouts with all their columns as JSON Lines, or write them to a Parquet or safetensors file
    Dump(DumpArgs),
    /// Make a store of what dumps hold, or add it to one
    Load(LoadArgs),
    /// Make one store of the shards of a run
    Merge(MergeArgs),
    /// Make another number of shards of the shards of a run
    Reshard(ReshardArgs),
    /// Show the rollouts of a group, and whether it is complete
    Group(GroupArgs),
    /// Show every frame of one rollout in the log, and what became of each
    History(HistoryArgs),
    /// Show the log frame by frame, and what is written from now on
    Log(LogArgs),
    /// Show what each segment holds, and how much of it is alive
    Segments(SegmentsArgs),
    /// Say what differs between two stores or checkpoints
    Diff(DiffArgs),
    /// Say why rollouts are not fresh, and which option would change that
    Diagnose(DiagnoseArgs),
    /// Make a page with charts of a store: staleness, recomputes, ends, differences, disk
    Report(ReportArgs),
    /// Show the sweeps whose progress is stored, and how far each has come
    Sweeps(SweepsArgs),
    /// Check every byte of a store or checkpoint, read-only, also beside a running trainer
    Verify(VerifyArgs),
    /// Make a damaged store usable from what is whole of it; asks first
    Repair(RepairArgs),
    /// Save a store, as of now, in a directory of its own or in object storage
    Checkpoint(CheckpointArgs),
    /// List the checkpoints in object storage
    Checkpoints(CheckpointsArgs),
    /// Bring a checkpoint back, exactly
    Restore(RestoreArgs),
    /// Set a store back to an older step without a checkpoint; everything is stale then
    Rewind(RewindArgs),
    /// Give back the space of rollouts that ended
    Compact(CompactArgs),
    /// Print a script that completes this program's commands in a shell
    Completions(CompletionsArgs),
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The trace: JSON Lines, plain or gzip
    pub trace: PathBuf,
    /// Directory of the store; a replay that was interrupted there goes on [default: a fresh temporary directory,
    /// printed to standard error]. A checkpoint is kept beside it in DIR.checkpoint
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// What an access does: compute old log-probs that are due, or serve them as they were inserted
    #[arg(long, value_enum, default_value_t = Mode::Refresh)]
    pub mode: Mode,
    /// Steps for which old log-probs count as fresh
    #[arg(long, value_name = "W", default_value_t = 8)]
    pub window: u64,
    /// Advances of the reference version that old log-probs may lag behind
    #[arg(long, value_name = "L", default_value_t = 2)]
    pub lag: u64,
    /// The static schedule to compare with: recompute everything at each version divisible by N
    /// [default: min(W, L) + 1, which bounds the age of served log-probs alike]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// What counts as the step: the trace's policy version or its micro-step
    #[arg(long, value_enum, default_value_t = Clock::V)]
    pub clock: Clock,
    /// Run the replay in a child process, kill it at K random moments and resume it from the store each time
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub kill: u32,
    /// Print one JSON object in place of the table
    #[arg(long)]
    pub json: bool,
    /// The replay reports to the process that started it.
    #[arg(long, hide = true, conflicts_with_all = ["kill", "json"], requires = "store")]
    pub report_to_parent: bool,
}

/// What an access of the trainer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Old log-probs that are due are computed first
    Refresh,
    /// Old log-probs are served as they are
    Snapshot,
}

/// What counts as the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The policy version: optimizer steps taken
    V,
    /// The micro-step: forward and backward passes
    Micro,
}

/// Options of `stat`.
#[derive(Debug, Args)]
#[command(after_help = STAT_HELP)]
pub struct StatArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// Look again and again, with rates: 500ms, 2s, 1m
    #[arg(long, value_name = "TIME")]
    pub every: Option<Period>,
    /// End after N looks
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print one JSON object, with --every one a look
    #[arg(long)]
    pub json: bool,
}

/// Options of `ls`.
#[derive(Debug, Args)]
#[command(after_help = LS_HELP)]
pub struct LsArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// Which rollouts
    #[command(flatten)]
    pub filter: Filter,
    /// For which step and window.
    #[command(flatten)]
    pub at: AtArgs,
    /// The order [default: oldest born first, then by id]
    #[arg(long, value_enum)]
    pub sort: Option<RolloutOrder>,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// What to show, in this order; with --json the fields have these names
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<RolloutColumn>,
    /// List at most K rollouts
    #[arg(long, value_name = "K")]
    pub limit: Option<u64>,
    /// Print one JSON object a rollout
    #[arg(long)]
    pub json: bool,
}

/// Options of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// The rollout's number, or its string key
    pub id: String,
    /// Print the values of this column alone, one a line
    #[arg(long, value_name = "NAME", conflicts_with = "tokens")]
    pub column: Option<String>,
    /// Print a line a completion token: its log-probs, their difference and ratio, the version that sampled it
    #[arg(long)]
    pub tokens: bool,
    /// Print one JSON object; with --tokens, one a token
    #[arg(long)]
    pub json: bool,
}

/// Options of `diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// For which step and window.
    #[command(flatten)]
    pub at: AtArgs,
    /// Advances of the reference version that old log-probs may lag behind [default: what the store last used]
    #[arg(long, value_name = "L")]
    pub lag: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `sweeps`.
#[derive(Debug, Args)]
pub struct SweepsArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// Print one JSON object a sweep
    #[arg(long)]
    pub json: bool,
}

/// Options of `verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_JSON)]
pub struct VerifyArgs {
    /// Directory of a store or checkpoint, or the URL that checkpoints were sent to, all of whose bytes are read
    #[arg(value_name = "STORE|URL")]
    pub store: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `repair`.
#[derive(Debug, Args)]
#[command(after_help = REPAIR_JSON)]
pub struct RepairArgs {
    /// Directory of a store that no trainer has open
    pub store: PathBuf,
    /// Repair without asking
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object; the question goes to standard error
    #[arg(long)]
    pub json: bool,
}

/// Options of `rewind`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("created_later").required(true).args(["keep", "drop"])))]
pub struct RewindArgs {
    /// Directory of a store that no trainer has open
    pub store: PathBuf,
    /// The step that the trainer is at now
    pub step: u64,
    /// Rollouts created after the step stay
    #[arg(long)]
    pub keep: bool,
    /// Rollouts created after the step are retired
    #[arg(long)]
    pub drop: bool,
}

/// Options of `compact`.
#[derive(Debug, Args)]
pub struct CompactArgs {
    /// Directory of a store that no trainer has open; one that has it open does this by itself
    pub store: PathBuf,
}

/// What the parser answers in place of a command: help, the version, or what is wrong.
#[derive(Debug)]
pub(crate) struct Answer(clap::Error);

pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Answer> {
    Cli::try_parse_from(arguments).map(|cli| cli.command).map_err(Answer)
}

/// The parser itself, for what is made of it.
pub(crate) fn parser() -> clap::Command {
    Cli::command()
}

impl Answer {
    /// Prints help or the version to standard output; what is wrong becomes one line of error.
    pub(crate) fn print(&self, out: &mut Output) -> Outcome<Verdict> {
        let text = self.0.render().to_string();
        if !self.0.use_stderr() {
            return out.line(text.trim_end()).map(|()| Verdict::Sound);
        }
        let told = text.split("\n\nUsage:").next().unwrap_or_default();
        let told = told.split("\n\nFor more information").next().unwrap_or_default();
        let told = told.strip_prefix("error: ").unwrap_or(told);
        let told = told.split_whitespace().filter(|word| *word != "tip:").collect::<Vec<_>>().join(" ");
        Err(Failure::could_not_look(format!("{told}; see \"rollstore --help\"")))
    }
}
