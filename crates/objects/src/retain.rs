//! Retention: older checkpoints end, and segments that no checkpoint has.
//!
//! Always true:
//! - T1. A checkpoint goes before its segments do: killed anywhere, what is left is garbage that the next retention takes.
//! - T2. No segment is deleted while there is a checkpoint of its run that cannot be read: that one may have it.

use std::collections::HashSet;

use rollstore::Result;

use crate::lease::{Lease, Work};
use crate::options::Options;
use crate::record::{SEGMENTS, checkpoint_key, run_name};
use crate::remote::Remote;
use crate::runtime;
use crate::{local, look, random_name};

/// A retention works so much shorter than an upload: others wait for one that was killed.
const SHORTER: u32 = 5;

/// What a retention deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retained {
    /// Checkpoints that are left.
    pub checkpoints: u64,
    /// Checkpoints that were deleted.
    pub deleted_checkpoints: u64,
    /// Segments that were deleted.
    pub deleted_segments: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
}

/// Keeps the newest `keep` checkpoints under a URL, and at least one; deletes the others, and segments that are neither a
/// checkpoint's nor of an upload under way. What a killed upload left goes once ten minutes passed without a sign of life.
///
/// # Errors
/// `Invalid` for a URL that is none; `NotFound`, `Damaged` where a checkpoint that is kept cannot be read: no segment is deleted
/// then; `Io`.
pub fn retain(url: &str, keep: u64, options: &Options) -> Result<Retained> {
    retain_those(url, &Kept::Newest(keep), options)
}

/// [`retain()`], of the checkpoints of these numbers, and of those above the highest of them: who has just put one may not have told
/// its number yet.
///
/// # Errors
/// As for [`retain()`].
pub fn retain_only(url: &str, numbers: &[u64], options: &Options) -> Result<Retained> {
    retain_those(url, &Kept::Only(numbers), options)
}

fn retain_those(url: &str, kept: &Kept<'_>, options: &Options) -> Result<Retained> {
    let remote = Remote::new(url, options)?;
    runtime::run(|| async { retain_on(&remote, None, kept).await })
}

/// Which checkpoints stay.
pub(crate) enum Kept<'a> {
    Newest(u64),
    Only(&'a [u64]),
}

impl Kept<'_> {
    /// Those that stay, newest first, and those that end.
    fn split(&self, mut numbers: Vec<u64>) -> (Vec<u64>, Vec<u64>) {
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let (mut kept, mut ended): (Vec<_>, Vec<_>) = match self {
            Self::Newest(count) => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX).min(numbers.len());
                let ended = numbers.split_off(count);
                (numbers, ended)
            }
            Self::Only(some) => {
                let highest = some.iter().max();
                numbers
                    .into_iter()
                    .partition(|number| some.contains(number) || highest.is_none_or(|highest| number > highest))
            }
        };
        // One is kept whatever was asked for.
        if kept.is_empty() && !ended.is_empty() {
            kept.push(ended.remove(0));
        }
        (kept, ended)
    }
}

/// Of one run, or of the one that there is.
pub(crate) async fn retain_on(remote: &Remote, run: Option<[u8; 16]>, kept: &Kept<'_>) -> Result<Retained> {
    let lease = Lease::take(remote, Work::Retention, &random_name(), remote.options.lease / SHORTER).await?;
    let retained = sweep(remote, &lease, run.map(run_name), kept).await;
    lease.end().await;
    retained
}

async fn sweep(remote: &Remote, lease: &Lease<'_>, run: Option<String>, kept: &Kept<'_>) -> Result<Retained> {
    let mut retained = Retained::default();
    // Notes before checkpoints: an upload that ends in between is seen in one of them.
    let others = lease.others().await?;
    let numbers = look::numbers(remote).await?;
    let (kept, ended) = kept.split(numbers.into_iter().map(|(number, _)| number).collect());
    let Some(newest) = kept.first() else { return Ok(retained) };
    let run = match run {
        Some(run) => run,
        None => look::record(remote, *newest).await?.line.run,
    };
    remote.delete(ended.iter().map(|number| checkpoint_key(*number)).collect()).await?;
    retained.checkpoints = kept.len() as u64;
    retained.deleted_checkpoints = ended.len() as u64;

    let mut needed: HashSet<String> = others.needed.into_iter().collect();
    for number in kept {
        needed.extend(look::record(remote, number).await?.line.objects().map(|(key, _)| key));
    }
    let segments = remote.list(&format!("{SEGMENTS}/{run}")).await?;
    let garbage: Vec<_> = segments.into_iter().filter(|segment| !needed.contains(&segment.key)).collect();
    for some in garbage.chunks(1000) {
        if !lease.is_fresh() {
            tracing::warn!("a retention took too long and leaves the rest to the next one");
            return Ok(retained);
        }
        retained.deleted_segments += some.len() as u64;
        retained.deleted_bytes += some.iter().map(|segment| segment.bytes).sum::<u64>();
        remote.delete(some.iter().map(|segment| segment.key.clone()).collect()).await?;
    }
    if let Some(dir) = remote.directory(&format!("{SEGMENTS}/{run}")) {
        local::remove_staged(&dir, others.now - remote.options.lease);
    }
    remote.delete(others.gone).await?;
    Ok(retained)
}
