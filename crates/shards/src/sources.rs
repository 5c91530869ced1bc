//! The shards as they are given: opened to be read, and shards of one run.
//!
//! May touch stores, read-only.
//!
//! Always true:
//! - S1. No byte of a shard is changed.
//! - S2. All shards have one identity and the same options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::{Disk, EntryKind};
use rollstore::{Options, RolloutStore};

use crate::error::{Error, Result};

/// Greatest number of shards: their numbers have five digits.
pub(crate) const SHARDS_MAX: u32 = 100_000;

/// What a directory of shards calls them.
const PREFIXES: [&str; 2] = ["shard-", "rank-"];

/// One shard.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) store: RolloutStore,
}

/// The name of a shard in a directory of shards: `shard-00002`.
#[must_use]
pub fn shard_name(shard: u32) -> String {
    format!("shard-{shard:05}")
}

/// Opens the shards; a directory of shards stands for all that are in it, in their order.
pub(crate) fn open(disk: &Arc<dyn Disk>, paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources: Vec<Source> = Vec::new();
    for path in paths.iter().map(|path| shards_in(&**disk, path)).collect::<Result<Vec<_>>>()?.concat() {
        let same = |path: &Path| disk.absolute(path).unwrap_or_else(|_| path.to_owned());
        if sources.iter().any(|source| same(&source.path) == same(&path)) {
            return Err(Error::Invalid(format!("shard {} is given twice", path.display())));
        }
        let store = RolloutStore::options().read_only(true).disk(Arc::clone(disk)).open(&path)?;
        sources.push(Source { path, store });
    }
    match sources.split_first() {
        None => return Err(Error::Invalid("no shard was given".into())),
        Some((first, others)) => others.iter().try_for_each(|other| first.check_same(other))?,
    }
    Ok(sources)
}

/// The shards in a directory, or the store that the path names itself.
fn shards_in(disk: &dyn Disk, path: &Path) -> Result<Vec<PathBuf>> {
    if disk.entry_kind(path).map_err(Error::io("look at", path))? != Some(EntryKind::Directory) {
        return Ok(vec![path.to_owned()]);
    }
    let names = disk.list(path).map_err(Error::io("look into", path))?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
    let Some(prefix) = PREFIXES.iter().find(|prefix| names.iter().any(|name| number(name, prefix).is_some())) else {
        return Ok(vec![path.to_owned()]);
    };
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| number(name, prefix)).collect();
    numbers.sort_unstable();
    // All of them: a run that lost a rank's part must not look as if it had fewer.
    match (0..).zip(&numbers).find(|(place, number)| place != *number) {
        Some((place, _)) => Err(Error::Invalid(format!(
            "{} holds shards up to {prefix}{:05}, but no {prefix}{place:05}; name the shards one by one if it is not missed",
            path.display(),
            numbers.last().copied().unwrap_or_default()
        ))),
        None => Ok(numbers.iter().map(|number| path.join(format!("{prefix}{number:05}"))).collect()),
    }
}

/// The number of the shard that is called so.
pub(crate) fn shard_number(name: &str) -> Option<u32> {
    number(name, "shard-")
}

fn number(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    (digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

impl Source {
    fn check_same(&self, other: &Self) -> Result<()> {
        let facts = |Self { store, .. }: &Self| {
            [
                ("the run identity", format!("\"{}\"", store.run_identity().escape_ascii())),
                ("the window", store.window().to_string()),
                ("the greatest version lag", store.max_version_lag().to_string()),
                ("the step skew", store.step_skew().to_string()),
                ("the greatest jump of a step", store.step_jump_max().to_string()),
            ]
        };
        let differ = facts(self).into_iter().zip(facts(other)).find(|(ours, theirs)| ours != theirs);
        match differ {
            Some(((what, a), (_, b))) => {
                Err(Error::Mismatch { what, a: (self.path.clone(), a), b: (other.path.clone(), b) })
            }
            None => Ok(()),
        }
    }

    /// Options of a store like this one.
    pub(crate) fn options(&self) -> Options {
        let Self { store, .. } = self;
        let options = RolloutStore::options().window(store.window()).max_version_lag(store.max_version_lag());
        let options = options.step_skew(store.step_skew()).step_jump_max(store.step_jump_max());
        match store.run_identity().as_slice() {
            [] => options,
            identity => options.run_identity(identity),
        }
    }
}
