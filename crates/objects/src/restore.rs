//! A checkpoint in object storage, brought back.
//!
//! Always true:
//! - D1. The library's own restore has the last word: it reads every segment's frames before anything takes its place.

use std::collections::HashSet;
use std::io::IoSlice;
use std::path::Path;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore::inspect::{self, Parts};
use rollstore::{Error, Result, RolloutStore};

use crate::fetch::{fetch_all, file_error};
use crate::options::Options;
use crate::record::{Record, run_name};
use crate::remote::Remote;
use crate::{local, look, runtime};

/// What a restore brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The checkpoint's number under the URL.
    pub number: u64,
    /// The step that the trainer was at.
    pub step: Option<u64>,
    /// Segments that it has.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Brings a checkpoint back into `dir`, as [`RolloutStore::restore`] does: the newest one under the URL, or the one of a number.
/// Segments are fetched several at once into `dir.fetching` and checked; a restore that ended early goes on there.
///
/// # Errors
/// `Invalid` for a URL that is none, `NotFound` where there is no such checkpoint or bucket, `Damaged` where an object is not what
/// was put, `Io` where the service cannot be reached or refuses; and as for [`RolloutStore::restore`]. No store appears then, and
/// one that was there is as it was.
pub fn restore(url: &str, dir: impl AsRef<Path>, number: Option<u64>, options: &Options) -> Result<Restored> {
    let (dir, remote) = (dir.as_ref(), Remote::new(url, options)?);
    let fetching = local::fetching(dir);
    let (number, record) = runtime::run(|| async {
        let (number, record) = look::found(&remote, number).await?;
        check_run(dir, &record)?;
        let line = &record.line;
        let expected: HashSet<_> = line.segments.iter().map(|segment| segment.part().file_name()).collect();
        local::prepare(&fetching, &expected)?;
        fetch_all(&remote, line, &look::sizes(&remote).await?, &fetching).await?;
        Ok((number, record))
    })?;
    write_manifest(&fetching, &record)?;
    RolloutStore::restore(&fetching, dir)?;
    local::finished(&fetching);
    let line = &record.line;
    Ok(Restored { number, step: line.step, segments: line.segments.len() as u64, bytes: line.bytes() })
}

/// Refuses a target of another run before anything is fetched.
fn check_run(dir: &Path, record: &Record) -> Result<()> {
    // A damaged store is what a restore is for.
    let Ok(Some(there)) = inspect::parts(dir) else { return Ok(()) };
    if run_name(there.run) == record.line.run {
        return Ok(());
    }
    Err(Error::invalid(format!("{} is a store of another run; restore elsewhere", dir.display())))
}

/// Writes what makes the directory a checkpoint. It is read back by who restores it, and need not be durable: what is made
/// of it is.
fn write_manifest(dir: &Path, record: &Record) -> Result<()> {
    let (run, segments) = ([0; 16], Vec::new());
    let parts = Parts { run, is_checkpoint: true, clock: None, generation: record.line.generation, segments };
    let path = dir.join(parts.manifest_file_name());
    let written = || OsDisk.create(&path)?.write_all_vectored_at(&mut [IoSlice::new(&record.manifest)], 0);
    written().map_err(|error| file_error(&path, &error))
}
