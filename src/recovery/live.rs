//! Looks at a store that a writer may change meanwhile.
//!
//! Always true:
//! - W1. What looks damaged is told only where the store stood still while it was looked at, or never came to rest.

use std::path::Path;

use super::manifests;
use crate::disk::Disk;
use crate::error::{ErrorKind, Result};

/// How often a store is looked at before damage is believed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Looks while no manifest is replaced: what is read while it is written may look damaged, and soon does not.
    still: u32,
    /// Looks in all: a reader on a busy machine is slow beside a writer that drops a segment each millisecond.
    all: u32,
}

impl Patience {
    /// Of who reads the state, which takes little.
    const SHORT: Self = Self { still: 5, all: 50 };

    /// Of who reads every byte.
    pub(crate) const LONG: Self = Self { still: 1, all: 5 };
}

/// Reads the state of a store without its lock. A manifest that is replaced under the reader, or a frame that was being written when
/// its place was read, looks like damage: it is looked at again.
pub(crate) fn read<T>(disk: &dyn Disk, dir: &Path, read: impl FnMut() -> Result<T>) -> Result<T> {
    let is_doubtful = |error| matches!(error, ErrorKind::Damaged | ErrorKind::Io);
    look(disk, dir, Patience::SHORT, |read| read.as_ref().is_err_and(|error| is_doubtful(error.kind())), read)
}

/// Looks at a store without its lock, again where what is seen is in doubt and may come from a change meanwhile.
pub(crate) fn look<T>(
    disk: &dyn Disk,
    dir: &Path,
    patience: Patience,
    is_doubtful: impl Fn(&Result<T>) -> bool,
    mut look: impl FnMut() -> Result<T>,
) -> Result<T> {
    let (mut still, mut all) = (0, 0);
    loop {
        let generation = newest_generation(disk, dir)?;
        let looked = look();
        if !is_doubtful(&looked) {
            return looked;
        }
        still += u32::from(newest_generation(disk, dir)? == generation);
        all += 1;
        if still == patience.still || all == patience.all {
            return looked;
        }
    }
}

fn newest_generation(disk: &dyn Disk, dir: &Path) -> Result<Option<u64>> {
    Ok(manifests::Listing::read(disk, dir)?.generations.first().copied())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::error::Error;
    use crate::format::names::manifest_file_name;

    /// Reads with looks that find damage, as many as are given; the first of them replace a manifest each. Gives the looks that
    /// were taken, and whether the last found damage.
    fn looks(damaged: u64, replaced: u64) -> (u64, bool) {
        let (disk, dir, taken) = (SimDisk::new(), Path::new("store"), Cell::new(0));
        disk.create_dir_all(dir).unwrap();
        let seen = read(&disk, dir, || {
            taken.set(taken.get() + 1);
            if taken.get() <= replaced {
                disk.create(&dir.join(manifest_file_name(taken.get()))).unwrap();
            }
            if taken.get() > damaged { Ok(()) } else { Err(Error::new(ErrorKind::Damaged, "a segment is gone")) }
        });
        (taken.get(), seen.is_err())
    }

    #[test]
    fn w1_damage_is_told_once_the_store_stood_still() {
        assert_eq!(looks(0, 0), (1, false));
        assert_eq!(looks(4, 0), (5, false), "a frame that was being written");
        assert_eq!(looks(u64::MAX, 0), (5, true));
        assert_eq!(looks(u64::MAX, 3), (8, true));
    }

    #[test]
    fn w1_a_store_that_changes_all_the_time_is_looked_at_until_it_is_seen_whole() {
        assert_eq!(looks(30, u64::MAX), (31, false));
        assert_eq!(looks(u64::MAX, u64::MAX), (50, true), "but not for ever");
    }
}
