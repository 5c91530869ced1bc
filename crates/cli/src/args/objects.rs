//! The options of `checkpoint`, `checkpoints` and `restore`.
//!
//! May touch nothing. Knows nothing of object storage but what a URL looks like.

use std::path::PathBuf;

use clap::Args;

const URL_HELP: &str = "\
A URL is s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///directory. Credentials come from the \
environment alone: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for a service that is not \
Amazon's; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY. A prefix is of one run: \
each shard has its own.";

/// Options of `checkpoint`.
#[derive(Debug, Args)]
#[command(after_help = URL_HELP)]
pub struct CheckpointArgs {
    /// Directory of a store that no trainer has open
    pub store: PathBuf,
    /// Directory of the checkpoint; one of the same run is replaced, anything else is refused. Or a URL, under which it gets the
    /// next number; only segments that are not there are sent
    #[arg(value_name = "DIR|URL")]
    pub dir: PathBuf,
    /// Under a URL, keep the last K checkpoints and delete what no other has
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
}

/// Options of `checkpoints`.
#[derive(Debug, Args)]
#[command(after_help = URL_HELP)]
pub struct CheckpointsArgs {
    /// The URL that checkpoints were sent to
    pub url: String,
    /// Print one JSON object a checkpoint
    #[arg(long)]
    pub json: bool,
}

/// Options of `restore`.
#[derive(Debug, Args)]
#[command(after_help = URL_HELP)]
pub struct RestoreArgs {
    /// Directory of a checkpoint, or the URL that it was sent to
    #[arg(value_name = "CHECKPOINT|URL")]
    pub checkpoint: PathBuf,
    /// A fresh directory, or a store of the same run, whose state since the checkpoint is abandoned
    pub dir: PathBuf,
    /// Under a URL, which checkpoint [default: the newest]
    #[arg(long, value_name = "N")]
    pub number: Option<u64>,
}
