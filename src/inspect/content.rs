//! What the files of a store amount to, read without a lock: the state and the index that an open would come to.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Access, Disk, FileSystem};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Location, Lsn, RolloutId};
use crate::index::FileOptions;
use crate::log::frame::Frame;
use crate::log::segment::ReadMode;
use crate::recovery::{Base, Recovered, Request, Survey, live, manifests};

/// Reads a store that may be written to meanwhile.
pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Recovered> {
    live::read(disk, dir, || look(disk, dir))
}

fn look(disk: &dyn Disk, dir: &Path) -> Result<Recovered> {
    let none = || Error::not_found(format!("{} holds no store", dir.display())).at(dir);
    let manifest = manifests::newest(disk, dir)?.ok_or_else(none)?;
    // A map of a file on another machine may go away under its reader.
    let is_local = disk.file_system(dir).is_ok_and(|file_system| file_system == FileSystem::Local);
    let request = Request {
        disk,
        dir,
        access: Access::Read,
        read_mode: ReadMode { mapped: is_local, recheck_always: false },
        index_file: &FileOptions { cache_bytes: 0, ..FileOptions::default() },
    };
    let base = Base::load(&request, &manifest);
    Survey::read(&request, manifest, &base)?.load(&request, base)
}

/// The frame `lsn` of a rollout, which stands at `at`.
pub(super) fn frame(store: &Recovered, at: Location, id: RolloutId, lsn: Lsn) -> Result<Frame> {
    // They ascend, as the manifest lists them.
    let segment = store.segments.binary_search_by_key(&at.segment, |segment| segment.id).ok();
    let segment = segment.and_then(|place| store.segments.get(place));
    let none = || Error::new(ErrorKind::Io, format!("segment {} of rollout {id} is not listed", at.segment));
    Frame::open(Arc::clone(segment.ok_or_else(none)?), at, id, lsn)
}
