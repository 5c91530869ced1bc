//! Files come and go under whoever reads a store beside its writer: what was replaced meanwhile is looked for anew, and is
//! neither damage nor a failure.
//!
//! Method: a hook before each opening of a file removes it, as a writer does with what it replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rollstore::disk::Disk;
use rollstore::disk::sim::{OpKind, SimDisk};
use rollstore::{ErrorKind, RolloutStore, inspect};
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::store::{DIR, open, options, rollout};

/// A store of two manifest generations, and the paths of these, the older one first.
fn begin() -> (SimDisk, RolloutStore, Vec<PathBuf>) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for id in 0..2 {
        store.insert(rollout(id, 0, 0)).unwrap();
        store.checkpoint("/saved").unwrap();
    }
    let names = disk.list(DIR.as_ref()).unwrap();
    let generations = names.iter().filter(|name| name.to_string_lossy().starts_with("MANIFEST-"));
    let generations: Vec<_> = generations.map(|name| Path::new(DIR).join(name)).collect();
    assert_eq!(generations.len(), 2);
    (disk, store, generations)
}

/// A disk that does something once, before this file is opened for the first time.
fn before_opening(disk: &SimDisk, path: &Path, act: impl Fn() + Send + Sync + 'static) -> Hooked {
    let (path, waiting) = (path.to_owned(), AtomicBool::new(true));
    Hooked::new(Arc::new(disk.clone()), move |kind, opened| {
        if kind == OpKind::Open && opened == path && waiting.swap(false, Ordering::SeqCst) {
            act();
        }
        Ok(())
    })
}

#[test]
fn a_spare_manifest_that_the_writer_removes_meanwhile_is_no_failure() {
    let (disk, _store, generations) = begin();
    let (inner, spare) = (disk.clone(), generations[0].clone());
    let hooked = before_opening(&disk, &generations[0], move || inner.remove_file(&spare).unwrap());
    assert!(inspect::verify_on(&hooked, DIR.as_ref()).unwrap().is_sound());
    assert!(disk.entry_kind(&generations[0]).unwrap().is_none(), "it was removed under the inspector");
}

#[test]
fn a_writer_that_is_faster_than_its_reader_is_followed() {
    /// More often than a reader looks again for other reasons.
    const TIMES: u64 = 12;
    let (disk, store, _) = begin();
    let times = AtomicU64::new(0);
    // Whenever the reader opens the generation that it listed as the newest, that is gone: three others came.
    let hooked = Hooked::new(Arc::new(disk), move |kind, path| {
        let of_manifest = path.to_string_lossy().contains("MANIFEST-");
        if kind == OpKind::Open && of_manifest && times.load(Ordering::SeqCst) < TIMES {
            let round = times.fetch_add(1, Ordering::SeqCst);
            for id in 0..3 {
                store.insert(rollout(10 + round * 3 + id, 0, 0)).unwrap();
                store.checkpoint("/saved").unwrap();
            }
        }
        Ok(())
    });
    let reader = options(Arc::new(hooked)).read_only(true).open(DIR).unwrap();
    assert_eq!(reader.len() as u64, 2 + TIMES * 3, "what the reader opens is the store as of now");
}

#[test]
fn a_generation_that_is_listed_and_cannot_be_opened_stays_a_failure() {
    let (disk, store, generations) = begin();
    store.close().unwrap();
    let newest =
        disk.list(DIR.as_ref()).unwrap().into_iter().filter(|name| name.to_string_lossy().starts_with("MANIFEST-"));
    let newest = Path::new(DIR).join(newest.max().unwrap_or_else(|| generations[1].clone().into()));
    let hooked = Hooked::new(Arc::new(disk), move |kind, opened| {
        let fails = kind == OpKind::Open && opened == newest;
        if fails { Err(std::io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    });
    let error = options(Arc::new(hooked)).read_only(true).open(DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}
