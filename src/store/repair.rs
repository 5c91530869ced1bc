//! Repair: what is whole of a damaged store, in new segments; the damaged files are kept aside.
//!
//! Always true:
//! - X1. No byte of a damaged file changes: it gets a second name under `damaged/` before the first one goes.
//! - X2. The next manifest generation is the moment: a crash before it leaves the store as it was.
//! - X3. What is not known is taken for lost and said so. Where frames may have been lost that moved a clock or ended a
//!   rollout, every rollout is made stale: when in doubt, stale.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::disk::os::OsDisk;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::format::kind::FrameFlags;
use crate::format::manifest::{Manifest, ManifestKind, SegmentRecord, SegmentState};
use crate::format::names::{manifest_file_name, segment_file_name};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::ids::{Lsn, RolloutId, SegmentId};
use crate::inspect::walk::{Step, walk};
use crate::inspect::{Finding, verify_on};
use crate::log::active::Active;
use crate::log::check::ScannedFrame;
use crate::log::event::Event;
use crate::log::seal::read_footer;
use crate::log::segment::ReadMode;
use crate::log::source::Source;
use crate::recovery::{epoch, manifests};
use crate::state::State;
use crate::store::open::no_store;
use crate::store::options::Options;
use crate::store::owner::{LockKind, Owner};
use crate::store::transfer::Transfer;
use crate::store::{RolloutStore, random};

/// Where damaged files are kept.
const DAMAGED: &str = "damaged";

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Damaged places, as `verify` tells them.
    pub findings: Vec<Finding>,
    /// Files that were moved to `damaged/`, under their names there.
    pub set_aside: Vec<PathBuf>,
    /// Whole frames that were copied out of damaged files.
    pub frames_kept: u64,
    /// Rollouts whose newest data was lost, as far as the damaged bytes still told.
    pub rollouts_lost: Vec<RolloutId>,
    /// Whether every rollout was made stale, since an advance or a retirement may be among what was lost.
    pub all_stale: bool,
}

impl Repaired {
    fn finds(&self, file: &Path) -> bool {
        self.findings.iter().any(|finding| finding.damage.file == file)
    }
}

impl RolloutStore {
    /// Makes a damaged store usable again from what is whole of it. Damaged files are moved to `damaged/` as they are.
    /// A sound store is left alone. The store must not be open. Batches that were torn by the damage may come back in
    /// parts: this is the one place where a batch is not all or nothing.
    ///
    /// # Errors
    /// `NotFound` where there is no store, `Damaged` where no manifest can be read (restore a checkpoint), `Invalid` for
    /// a checkpoint, `Locked`, `Full`, `Io`.
    pub fn repair(dir: impl AsRef<Path>) -> Result<Repaired> {
        repair(&OsDisk, LockKind::File, dir.as_ref())
    }
}

impl Options {
    /// [`RolloutStore::repair`] on the file system of these options.
    ///
    /// # Errors
    /// As for [`RolloutStore::repair`].
    pub fn repair(&self, dir: impl AsRef<Path>) -> Result<Repaired> {
        repair(&*self.disk, self.lock, dir.as_ref())
    }
}

fn repair(disk: &dyn Disk, lock: LockKind, dir: &Path) -> Result<Repaired> {
    let newest = || manifests::newest(disk, dir)?.ok_or_else(|| no_store(dir));
    let found = newest()?;
    if found.kind == ManifestKind::Checkpoint {
        let message = format!("{} is a checkpoint, which never changes; restore another one", dir.display());
        return Err(Error::invalid(message).at(dir));
    }
    let owner = Owner::take(disk, dir, lock, found.owner)?;
    let old = newest()?;
    let verification = verify_on(disk, dir)?;
    let mut repaired = Repaired { findings: verification.findings, ..Repaired::default() };
    if repaired.findings.is_empty() {
        return Ok(repaired);
    }
    let mut repair = Repair::new(disk, dir, &old)?;
    owner.claim(dir, &mut repair.next)?;
    for record in &old.segments {
        let path = dir.join(segment_file_name(record.id));
        if repaired.finds(&path) || record.state == SegmentState::Active {
            repair.salvage(record, &path, &mut repaired)?;
        } else {
            repair.next.segments.push(*record);
        }
    }
    owner.check_before_acknowledging(disk, dir)?;
    repair.set_manifests_aside(&mut repaired)?;
    repair.finish(&mut repaired)?;
    // A rollout may have lost its insert and an update.
    repaired.rollouts_lost.sort_unstable();
    repaired.rollouts_lost.dedup();
    drop(owner);
    Ok(repaired)
}

struct Repair<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    old: &'a Manifest,
    next: Manifest,
    state: State,
    /// Events of the unsealed segment that the manifest does not reflect yet.
    events: Vec<(Lsn, Event)>,
}

impl<'a> Repair<'a> {
    fn new(disk: &'a dyn Disk, dir: &'a Path, old: &'a Manifest) -> Result<Self> {
        let listing = manifests::Listing::read(disk, dir)?;
        let mut next = old.clone();
        next.segments = Vec::new();
        next.next_segment_id = listing.next_segment(old).0;
        next.generation = listing.generations.first().copied().unwrap_or(old.generation) + 1;
        let state = State::from_snapshot(old.state.clone());
        Ok(Self { disk, dir, old, next, state, events: Vec::new() })
    }

    /// Copies the whole frames of one file into a new segment and keeps the file aside.
    fn salvage(&mut self, record: &SegmentRecord, path: &Path, repaired: &mut Repaired) -> Result<()> {
        let file = match self.disk.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                repaired.all_stale = true;
                return Ok(());
            }
            Err(error) => return Err(Error::io("open segment", path, error)),
        };
        let file_len = file.len().map_err(|error| Error::io("tell the length of", path, error))?;
        let mut scan = Source {
            file: &*file,
            path,
            segment: record.id,
            salt: record.salt,
            start: SEGMENT_HEADER_BYTES as u64,
            end: file_len,
            base_lsn: None,
            ahead: None,
        };
        // Behind the last frame of the segment being written to lies at most a write that was under way. Behind that of a
        // sealed one lies the footer; where that is damaged too, no one knows whether frames are missing before it.
        let mut end_is_known = true;
        match record.state {
            SegmentState::Cut { end, .. } => scan.end = end.min(file_len),
            SegmentState::Sealed { footer_crc, .. } => match read_footer(&scan, footer_crc, &mut 0) {
                Ok((_, trailer)) => scan.end = trailer.offset,
                Err(_) => end_is_known = false,
            },
            SegmentState::Active => {}
        }
        let end = scan.end;
        let is_active = record.state == SegmentState::Active;
        let mut frames = Vec::new();
        let mut seen = HashSet::new();
        let mut lost = false;
        // The last frame seen, and the last that is known to have been there: by the manifest, or by a frame before it.
        let mut last = Lsn::new(record.base_lsn.get().saturating_sub(1));
        let mut attested = match record.state {
            SegmentState::Active => self.state.lsn,
            SegmentState::Cut { end_lsn, .. } => end_lsn,
            SegmentState::Sealed { .. } => Lsn::NONE,
        };
        walk(&scan, SEGMENT_HEADER_BYTES as u64..end, &mut 0, |step| {
            repaired.rollouts_lost.extend(step.rollout());
            if let Some(header) = step.header() {
                last = last.max(header.lsn);
                attested = if is_active { attested.max(header.durable_lsn) } else { attested };
            }
            match step {
                // A number is given once: another frame of it is none.
                Step::Frame(frame) if !seen.insert(frame.header.lsn) => lost = true,
                Step::Frame(frame) => frames.push(*frame),
                Step::Lost { next, .. } if next == end && is_active => {}
                // What is missing is missed by itself: of a rollout in parts too, by the tokens in front of the next one.
                Step::Damaged { header, .. } if header.kind.is_rollout() => {}
                Step::Damaged { .. } | Step::Lost { .. } => lost = true,
            }
            Ok(())
        })?;
        repaired.all_stale |= lost || last < attested || !end_is_known;
        repaired.frames_kept += frames.len() as u64;
        let state_lsn = self.state.lsn;
        let newer = frames.iter().filter(|frame| frame.header.lsn > state_lsn);
        self.events.extend(newer.map(|frame| (frame.header.lsn, frame.event.clone())));
        if !frames.is_empty() {
            let record = self.copy(&scan, frames)?;
            self.next.segments.push(record);
        }
        self.set_aside(&segment_file_name(record.id), file_len, repaired)
    }

    fn copy(&mut self, scan: &Source<'_>, frames: Vec<ScannedFrame>) -> Result<SegmentRecord> {
        let base_lsn = frames.first().map_or(Lsn::NONE, |frame| frame.header.lsn);
        let header = SegmentHeader {
            segment: SegmentId(self.next.next_segment_id),
            kind: SegmentKind::Compacted,
            store_uuid: self.old.store_uuid,
            epoch: self.old.epoch + 1,
            salt: random::u64(),
            base_lsn,
            ref_version: self.state.ref_clock.current,
            step: self.state.clock,
            compatible_features: 0,
        };
        self.next.next_segment_id += 1;
        let bytes: u64 = frames.iter().map(|frame| frame.header.frame_len()).sum();
        let mode = ReadMode { mapped: false, recheck_always: false };
        let capacity = bytes + SEGMENT_HEADER_BYTES as u64;
        let mut active = Active::create(self.disk, self.dir, &header, capacity, mode)?;
        for mut frame in frames {
            let (offset, mut header) = (frame.offset, frame.header);
            // Its batch may have lost others: it is a batch of one now.
            header.flags = header.flags.with(FrameFlags::BATCH_BEGIN).with(FrameFlags::BATCH_END);
            header.frames_in_batch = 1;
            active.adopt(header, &mut frame.event, Lsn::NONE, |buffer, at| scan.read(buffer, offset + at, &mut 0))?;
        }
        let sealed = active.seal()?;
        let state = SegmentState::Sealed { len: sealed.len, footer_crc: sealed.footer_crc };
        let (id, kind, salt) = (header.segment, header.kind, header.salt);
        Ok(SegmentRecord { id, kind, state, salt, base_lsn, min_insert_lsn: sealed.min_insert_lsn })
    }

    /// Keeps damaged manifests, of which the one that was believed is none.
    fn set_manifests_aside(&self, repaired: &mut Repaired) -> Result<()> {
        for generation in manifests::Listing::read(self.disk, self.dir)?.generations {
            let name = manifest_file_name(generation);
            let path = self.dir.join(&name);
            if repaired.finds(&path) {
                let file =
                    self.disk.open(&path, Access::Read).map_err(|error| Error::io("open manifest", &path, error))?;
                let len = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
                self.set_aside(&name, len, repaired)?;
            }
        }
        Ok(())
    }

    /// Gives a damaged file a second name, one that nothing has: what an earlier repair kept stays too.
    fn set_aside(&self, name: &str, file_len: u64, repaired: &mut Repaired) -> Result<()> {
        let damaged = self.dir.join(DAMAGED);
        self.disk.create_dir_all(&damaged).map_err(|error| Error::io("create directory", &damaged, error))?;
        let (mut kept_name, mut copies) = (name.to_owned(), 1);
        while self.is_taken(&damaged.join(&kept_name))? {
            copies += 1;
            kept_name = format!("{name}.{copies}");
        }
        // All of it, whatever the manifest says of its length.
        Transfer::new(self.disk, self.dir, &damaged).bring_file(name, &kept_name, file_len)?;
        self.disk.sync_dir(&damaged).map_err(|error| Error::io("sync directory", &damaged, error))?;
        repaired.set_aside.push(damaged.join(kept_name));
        Ok(())
    }

    fn is_taken(&self, path: &Path) -> Result<bool> {
        Ok(self.disk.entry_kind(path).map_err(|error| Error::io("look at", path, error))?.is_some())
    }

    /// Writes the manifest of what is left, and removes the first names of the damaged files.
    fn finish(mut self, repaired: &mut Repaired) -> Result<()> {
        self.events.sort_by_key(|(lsn, _)| *lsn);
        for (lsn, event) in self.events {
            if lsn > self.state.lsn {
                self.state.apply(lsn, &event);
            }
        }
        self.next.segments.sort_by_key(|record| record.id);
        self.next.state = self.state.to_snapshot();
        epoch::begin(&mut self.next, &[self.old]);
        if repaired.all_stale {
            let (ref_version, kl_version) = (self.next.state.ref_clock.next, self.next.state.kl_clock.next);
            self.next.state.ref_clock.restart(ref_version);
            self.next.state.kl_clock.restart(kl_version);
        }
        manifests::write(self.disk, self.dir, &self.next)?;
        manifests::remove_past(self.disk, self.dir, &self.next)?;
        manifests::remove_orphans(self.disk, self.dir, &self.next)
    }
}
