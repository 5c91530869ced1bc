//! The options of the commands that read the log, segments and groups, and that compare.
//!
//! May touch nothing. Knows nothing of how commands work.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use clap_complete::Shell;

use super::{AtArgs, Span};

const LOG_HELP: &str = "\
Examples:
  rollstore log run/rollouts | tail
  rollstore log run/rollouts --id 1000..1007 --limit 20
  rollstore log run/rollouts --follow --json | jq -c 'select(.kind == \"advance\")'

Frames stand in the order of segments and of places in them; a frame that compaction copied keeps its LSN and is marked \
as moved. Bytes behind the last whole batch are in flight: they are not told, and no damage.

A JSON line: segment, offset and bytes (of the frame, in the segment's file), lsn, kind, frames_in_batch, moved (bool), \
rollout and incarnation (null where the frame is of the store as a whole), said: an object of what this kind says. Of damage: \
kind \"damaged\", file, offset, expected, found, rollouts.

Exit code: 0 sound, 1 damage was met and passed, 2 could not look.";

const HISTORY_HELP: &str = "\
Examples:
  rollstore history run/rollouts 1000
  rollstore history run/rollouts req-7f3a --json | jq -r .fate

What became of a frame: served (readers get it), partly superseded (log-probs of it were computed again), superseded, \
ended (its incarnation was retired), moved (compaction copied it), end (it is itself a retirement). Frames of rollouts that \
ended are given back by compaction.

A JSON line: that of \"rollstore log\", with of (the incarnation that the frame brought to, or ended), fate, by (the LSN of \
the frame that superseded or ended it), reason and moved_to (a segment), each null where there is none; of a frame that \
lists other rollouts too, said names this one alone.

Exit code: 0 sound, 1 damage was met, 2 could not look, or the log tells nothing of it.";

const SEGMENTS_HELP: &str = "\
Examples:
  rollstore segments run/rollouts --sort dead --reverse
  rollstore segments run/rollouts --json | jq -s 'map(.dead_bytes) | add'

A JSON line: id, state (written, sealed, or cut: closed by a recovery), compacted (bool), bytes (of the file), frames, \
live_bytes and dead_bytes (null where the store does not open), first_lsn and last_lsn, first_born_step and last_born_step, \
first_ref_version and last_ref_version, begun_at_step and age (steps of the trainer's clock since), each null where there is none.

Exit code: 0 sound, 1 damage was found, 2 could not look.";

const GROUP_HELP: &str = "\
Examples:
  rollstore group run/rollouts 280 --size 4
  rollstore group run/rollouts 280 --json | jq .complete

The JSON object: group, size and complete (null without --size), live, fresh, partials (ids that are still being \
generated), and rollouts: objects as those of \"rollstore ls --json\".

Exit code: 0 complete, or no size was asked for; 1 fewer than --size are live, or one is damaged; 2 could not look, or there \
is no such group.";

const DIFF_HELP: &str = "\
Examples:
  rollstore diff run/rollouts run/ckpt-100/rollouts
  rollstore diff a b --json | jq -c 'select(.rollout)'

Columns are compared by type, length and checksum. How the files are laid out does not count.

A JSON line is one difference: {only_in: \"a\" or \"b\", rollout}, {rollout, what, a, b}, or {what, a, b} for clocks, versions, \
options, the cursor and counters; for what could not be compared kind \"damaged\", store (\"a\" or \"b\"), file, offset, expected, \
found, rollouts. No line: they are equal.

Exit code: 0 equal, 1 different or in part damaged, 2 could not look.";

const REPORT_HELP: &str = "\
Examples:
  rollstore report run/rollouts -o run.html
  rollstore report run/rollouts --json | jq .past.schedule

The page is one file that loads nothing: it can be opened, mailed and kept. A file of that name is replaced as a whole. The log \
and the log-probs of every live rollout are read; a trainer may be writing meanwhile.

The JSON object: store, buffer (live rollouts: the figures of \"rollstore stat --json\", fresh, and histograms: ages and lags \
by state, lengths), past (what the log still tells: total, steps, and schedule, an estimate of a static schedule), drift \
(old minus sampler log-probs: differences, and the worst rollouts with their tokens), segments (as in \"rollstore segments \
--json\") and damage (as the findings of \"rollstore verify --json\"). A histogram is {width, bins: [{from, ...}]}, bins that hold \
nothing left out. buffer and drift are null where the store does not open. past.is_complete is false where the log does not \
tell of all that the store has counted.

Exit code: 0 sound, 1 damage was met and told in the report, 2 could not look or write.";

const COMPLETIONS_HELP: &str = "\
Examples:
  rollstore completions bash > ~/.local/share/bash-completion/completions/rollstore
  rollstore completions zsh > ~/.zfunc/_rollstore
  rollstore completions fish > ~/.config/fish/completions/rollstore.fish";

/// Options of `log`.
#[derive(Debug, Args)]
#[command(after_help = LOG_HELP)]
pub struct LogArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// Only frames of this segment
    #[arg(long, value_name = "N")]
    pub segment: Option<u32>,
    /// Only frames that name a rollout from A to B: its own, those that retire it or say that it was asked for
    #[arg(long, value_name = "A..B")]
    pub id: Option<Span>,
    /// End after K frames
    #[arg(long, value_name = "K")]
    pub limit: Option<u64>,
    /// Go on with what is written from now on, until interrupted or until the reader goes
    #[arg(long)]
    pub follow: bool,
    /// Print one JSON object a frame
    #[arg(long)]
    pub json: bool,
}

/// Options of `history`.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_HELP)]
pub struct HistoryArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// The rollout's number, or its string key
    pub id: String,
    /// Print one JSON object a frame
    #[arg(long)]
    pub json: bool,
}

/// Options of `segments`.
#[derive(Debug, Args)]
#[command(after_help = SEGMENTS_HELP)]
pub struct SegmentsArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// The order
    #[arg(long, value_enum, default_value_t = SegmentOrder::Id)]
    pub sort: SegmentOrder,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// Print one JSON object a segment
    #[arg(long)]
    pub json: bool,
}

/// What segments are sorted by; among equals by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SegmentOrder {
    /// The number of the segment
    Id,
    /// Bytes of frames that nobody comes to any more
    Dead,
    /// Bytes of frames that readers may come to
    Live,
    /// Bytes of the file
    Bytes,
}

/// Options of `group`.
#[derive(Debug, Args)]
#[command(after_help = GROUP_HELP)]
pub struct GroupArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// The group's number
    pub group: u64,
    /// How many rollouts a complete group has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub size: Option<u64>,
    /// For which step and window.
    #[command(flatten)]
    pub at: AtArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub struct DiffArgs {
    /// Directory of a store or checkpoint
    pub a: PathBuf,
    /// Directory of the one to compare it with
    pub b: PathBuf,
    /// Print one JSON object a difference
    #[arg(long)]
    pub json: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP, group(ArgGroup::new("form").required(true).multiple(true).args(["output", "json"])))]
pub struct ReportArgs {
    /// Directory of a store or checkpoint
    pub store: PathBuf,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}
