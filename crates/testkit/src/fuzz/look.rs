//! What any reader may do with a store whose files are not to be trusted.

use std::sync::Arc;

use rollstore::disk::sim::SimDisk;
use rollstore::{Error, ErrorKind, Rollout, RolloutStore, inspect};

use crate::store::{self, DIR};

/// Checks that an error is one of bytes that are not to be read. Nothing on the disk fails here, so that `Io` would tell of
/// a length that was believed.
pub(super) fn check_refusal(what: &str, error: &Error) {
    let fits = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::TooNew);
    assert!(fits, "{what}: {error:?}");
}

/// The result, where there is one; an error must be a proper refusal.
pub(super) fn or_refusal<T>(what: &str, result: rollstore::Result<T>) -> Option<T> {
    result.map_err(|error| check_refusal(what, &error)).ok()
}

/// The same where a manifest may say, with right checksums, that it is a checkpoint's.
fn or_refusal_to_write<T>(what: &str, result: rollstore::Result<T>) -> Option<T> {
    let is_checkpoint =
        |error: &Error| error.kind() == ErrorKind::Invalid && error.to_string().contains("is a checkpoint");
    if result.as_ref().err().is_some_and(is_checkpoint) { None } else { or_refusal(what, result) }
}

/// Opens the store for reading alone.
pub(super) fn open_read_only(disk: &SimDisk) -> rollstore::Result<RolloutStore> {
    store::options(Arc::new(disk.clone())).read_only(true).create(false).open(DIR)
}

/// Opens the store for writing.
pub(super) fn open(disk: &SimDisk) -> rollstore::Result<RolloutStore> {
    store::options(Arc::new(disk.clone())).create(false).open(DIR)
}

/// Reads all that a store shows, and passes each rollout that can be read to `visit`.
pub(super) fn read_all(store: &RolloutStore, mut visit: impl FnMut(&Rollout)) {
    or_refusal("stats", store.stats());
    let step = store.clock().unwrap_or(0);
    for id in store.ids() {
        let view = store.get(id);
        let Some(view) = or_refusal("get", view) else { continue };
        let view = view.unwrap_or_else(|| panic!("rollout {id} is listed and not there"));
        for info in view.columns() {
            or_refusal("a column", view.values(&info.column).map(drop));
        }
        let _ = (view.staleness(step), view.metadata(), view.key(), view.group(), view.version_spans());
        visit(&view);
    }
    let _ = (store.stale(), store.needs_recompute(step), store.missing(), store.from_future(step));
}

/// Verifies, and tells whether the store is sound; `None` where it cannot be read at all.
pub(super) fn verify(disk: &SimDisk) -> Option<bool> {
    or_refusal("verify", inspect::verify_on(disk, DIR.as_ref())).map(|seen| seen.is_sound())
}

/// Goes through everything that may be done with a spoiled store: look, read, repair, open and write.
///
/// # Panics
/// Where anything but an answer or a proper refusal comes back, or where what was repaired or written does not open again.
pub(super) fn survive(disk: &SimDisk) {
    verify(&disk.kill());
    if let Some(store) = or_refusal("open read-only", open_read_only(&disk.kill())) {
        read_all(&store, |_| {});
    }
    repair(&disk.kill());
    let disk = disk.kill();
    if let Some(store) = or_refusal_to_write("open", open(&disk)) {
        read_all(&store, |_| {});
        write(store, &disk);
    }
}

/// Repairs, and opens what is left.
pub(super) fn repair(disk: &SimDisk) -> Option<RolloutStore> {
    or_refusal_to_write("repair", store::options(Arc::new(disk.clone())).repair(DIR))?;
    let found = inspect::verify_on(disk, DIR.as_ref()).unwrap_or_else(|error| panic!("verify after repair: {error}"));
    assert!(found.is_sound(), "repaired, and still damaged: {:?}", found.findings);
    let repaired = open(disk).unwrap_or_else(|error| panic!("repaired, and does not open: {error}"));
    read_all(&repaired, |_| {});
    Some(repaired)
}

/// Writes one rollout, which must be there after a reopen.
fn write(store: RolloutStore, disk: &SimDisk) {
    let (step, version) = (store.clock().unwrap_or(0), store.ref_version());
    let allocated = store.allocate_ids(1).map(|mut ids| ids.next().expect("one was asked for"));
    let inserted = allocated.and_then(|id| {
        let lsn = store.insert(store::rollout(id.get(), step, version))?;
        Ok((id, lsn))
    });
    let before = store.len();
    let closed = store.close();
    let (id, lsn) = match inserted {
        Ok(inserted) => inserted,
        // The numbers in the files leave no room for more.
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Invalid, "insert: {error}"),
    };
    closed.unwrap_or_else(|error| panic!("close: {error}"));
    let store = open(disk).unwrap_or_else(|error| panic!("written to, and does not open: {error}"));
    let view = store.get(id).unwrap_or_else(|error| panic!("rollout {id}, just written: {error}"));
    let view = view.unwrap_or_else(|| panic!("rollout {id}, just written, is not there"));
    assert_eq!((view.insert_lsn(), store.len()), (lsn, before), "another rollout than was written");
    store::check_content(&view);
}
