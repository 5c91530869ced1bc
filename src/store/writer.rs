//! The one writer: stages a batch, writes it, rolls segments, keeps the manifest.
//!
//! Always true:
//! - W1. A segment is listed durably before a frame in it is acknowledged.
//! - W2. A manifest is written only while nothing is pending or unsynced: its state is durable.
//! - W3. LSNs, versions and segment numbers stay below ceilings that a manifest holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::{Manifest, SegmentRecord, SegmentState};
use crate::format::segment::{BUFFERED, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::ids::{Lsn, SegmentId};
use crate::limits;
use crate::log::active::Active;
use crate::log::event::{Event, NewFrame};
use crate::planted::{Bug, planted};
use crate::recovery::manifests;
use crate::state::State;
use crate::store::core::Core;
use crate::store::group::Publication;
use crate::store::options::Durability;
use crate::store::stage::{Op, Outcome, Stage, Staged};
use crate::store::standing::Overlay;

/// Header and footer of a segment, rows aside.
const NEW_SEGMENT_BYTES: u64 = SEGMENT_HEADER_BYTES as u64 + 512;

/// What the writer alone knows. Guarded by one lock, which orders batches.
#[derive(Debug)]
pub(crate) struct Writer {
    active: Option<Active>,
    /// As last written.
    pub(crate) manifest: Manifest,
    /// Behind every batch written, published or not.
    pub(crate) state: State,
    overlay: Overlay,
    next_lsn: Lsn,
    /// The next counted id to hand out.
    pub(crate) next_id: u64,
    /// The frame that reserved the ids being handed out; none where a recovery found them reserved.
    pub(crate) ids_reserved_at: Lsn,
}

/// What a batch became.
#[derive(Debug)]
pub(crate) struct Written {
    /// LSN of the batch's last frame; of the last frame before it where the batch wrote none.
    pub(crate) last_lsn: Lsn,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) ref_version: u64,
}

impl Writer {
    /// A writer behind a recovered or new store, of which no segment is being written to.
    pub(crate) fn new(manifest: Manifest, state: State) -> Self {
        let (next_id, next_lsn) = (state.id_ceiling, state.lsn.next());
        let (overlay, ids_reserved_at) = (Overlay::default(), Lsn::NONE);
        Self { active: None, manifest, state, overlay, next_lsn, next_id, ids_reserved_at }
    }

    /// Writes a batch; it is acknowledged only after [`super::group::Group::wait`] for its last LSN.
    pub(crate) fn write(&mut self, core: &Core, ops: &[Op<'_>]) -> Result<Written> {
        core.check_writable()?;
        self.append(core, ops)
    }

    fn append(&mut self, core: &Core, ops: &[Op<'_>]) -> Result<Written> {
        core.check_lock()?;
        let advances = ops.iter().filter(|op| matches!(op, Op::Advance { .. })).count() as u64;
        self.raise_ceilings(core, advances)?;
        self.overlay.forget(core.group.published());
        let Staged { frames, mut events, outcomes, state, changes, dropped, tallied } =
            Stage::new(core, &self.overlay, self.state.clone(), self.next_lsn).run(ops)?;
        let ref_version = state.ref_clock.current;
        if frames.is_empty() {
            core.usage.dropped(dropped);
            return Ok(Written { last_lsn: self.state.lsn, outcomes, ref_version });
        }
        let bytes = frames.iter().map(NewFrame::frame_len).sum();
        let frees = ops.iter().all(Op::frees);
        if !frees {
            core.quota.check(self.bytes_behind(core, &events, bytes))?;
        }
        self.make_room(core, bytes, frees)?;
        let Some(active) = &mut self.active else { return Err(Error::invalid("no segment to write to")) };
        let durable = if planted(Bug::AttestUnsynced) { self.state.lsn } else { core.group.durable() };
        let mut append = || active.append(&frames, &mut events, self.next_lsn, durable);
        // The same bytes at the same place: no half of another batch can be left behind them.
        let appended = if frees { core.reserve.retry(&*core.disk, append) } else { append() };
        let log_end = appended.map_err(|error| core.group.poison(&error).caused_by(error))?;
        core.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
        core.usage.settle(&tallied);
        core.usage.dropped(dropped);
        self.next_lsn = state.lsn.next();
        self.next_id = self.next_id.max(counted_ids_end(&events));
        self.overlay.add(changes);
        self.state = state;
        let publication = Publication {
            last_lsn: self.state.lsn,
            segment: Arc::clone(&active.segment),
            end: active.end,
            log_end,
            events,
            state: Arc::new(self.state.clone()),
        };
        core.group.push(publication, bytes);
        core.pace.committed();
        Ok(Written { last_lsn: self.state.lsn, outcomes, ref_version })
    }

    /// Whether a batch of so many bytes goes into the active segment.
    fn fits(&self, core: &Core, batch_bytes: u64) -> bool {
        let fits = |active: &Active| active.is_empty() || active.end + batch_bytes <= core.segment_bytes;
        self.active.as_ref().is_some_and(fits)
    }

    /// Bytes of all segments behind a batch of these frames, every one of them sealed.
    fn bytes_behind(&self, core: &Core, events: &[Event], batch_bytes: u64) -> u64 {
        let finished: u64 = self.manifest.segments.iter().map(SegmentRecord::len).sum();
        let rows: u64 = events.iter().map(Event::footer_rows).sum();
        let active = self.active.as_ref().map_or(0, |active| active.end + active.footer_bytes_max(rows));
        let new = if self.fits(core, batch_bytes) { 0 } else { NEW_SEGMENT_BYTES };
        finished + active + new + batch_bytes
    }

    /// Makes sure that a batch of so many bytes fits into the active segment: a batch never spans two.
    fn make_room(&mut self, core: &Core, batch_bytes: u64, frees: bool) -> Result<()> {
        if self.fits(core, batch_bytes) {
            return Ok(());
        }
        core.group.wait_all(core)?;
        // The new segment first: where there is no space for it, nothing changed yet.
        let header = self.next_header(core, SegmentKind::Log)?;
        let capacity = core.segment_bytes.max(SEGMENT_HEADER_BYTES as u64 + batch_bytes);
        let create = || Active::create(&*core.disk, &core.dir, &header, capacity, core.read_mode);
        // What grows must not take the space that is kept for what frees some.
        let active = if frees { core.reserve.retry(&*core.disk, create)? } else { create()? };
        let sealed = self.seal(core)?;
        let record = SegmentRecord {
            id: header.segment,
            kind: header.kind,
            state: SegmentState::Active,
            salt: header.salt,
            base_lsn: header.base_lsn,
            min_insert_lsn: Lsn::NONE,
        };
        self.manifest.list(record);
        let listed = if planted(Bug::ListSegmentLate) { Ok(()) } else { self.write_manifest(core) };
        if let Err(error) = listed {
            // Nothing was sealed: the segment before goes on, and the new file is an orphan.
            self.manifest.segments.retain(|listed| listed.id != record.id);
            return Err(if sealed { core.group.poison(&error) } else { error });
        }
        {
            let mut published = core.published.write();
            published.segments.insert(header.segment, Arc::clone(&active.segment));
            published.active = Some(header.segment);
        }
        core.group.set_file(Some(Arc::clone(&active.file)));
        self.active = Some(active);
        // The index of a store that begins has nothing to tell yet.
        if sealed {
            core.flusher.wake(core);
        }
        core.compactor.waker.wake();
        Ok(())
    }

    /// The header of a new segment. Whatever becomes of the file, its number is used.
    pub(crate) fn next_header(&mut self, core: &Core, kind: SegmentKind) -> Result<SegmentHeader> {
        let segment = SegmentId(self.manifest.next_segment_id);
        self.manifest.next_segment_id = segment.0.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("{} has no segment numbers left; begin a new store", core.dir.display()))
        })?;
        Ok(SegmentHeader {
            segment,
            kind,
            store_uuid: self.manifest.store_uuid,
            epoch: self.manifest.epoch,
            salt: super::random::u64(),
            base_lsn: self.next_lsn,
            ref_version: self.state.ref_clock.current,
            step: self.state.clock,
            compatible_features: match core.syncer.durability {
                Durability::Synced => 0,
                Durability::Buffered { .. } => BUFFERED,
            },
        })
    }

    /// Seals the active segment, if there is one, in memory and on disk; the manifest is still to be written. Nothing may
    /// be pending.
    fn seal(&mut self, core: &Core) -> Result<bool> {
        let Some(mut active) = self.active.take() else { return Ok(false) };
        let id = active.segment.id;
        if active.is_empty() {
            self.manifest.segments.retain(|record| record.id != id);
        } else {
            // After a failed sync nothing is tried again: only where the footer did not fit.
            let written = core.reserve.retry(&*core.disk, || active.write_footer());
            let sealed = written.and_then(|sealed| active.sync().map(|()| sealed));
            let sealed = sealed.map_err(|error| core.group.poison(&error).caused_by(error))?;
            for record in self.manifest.segments.iter_mut().filter(|record| record.id == id) {
                record.state = SegmentState::Sealed { len: sealed.len, footer_crc: sealed.footer_crc };
                record.min_insert_lsn = sealed.min_insert_lsn;
            }
        }
        core.group.set_file(None);
        let mut published = core.published.write();
        (published.active, published.log_end) = (None, None);
        Ok(true)
    }

    /// Leaves no segment unsealed, and a manifest that says so.
    pub(crate) fn seal_all(&mut self, core: &Core) -> Result<()> {
        // Another writer's store may stand under our path by now: its files are not ours to write.
        core.check_lock()?;
        core.group.wait_all(core)?;
        let sealed = self.seal(core)?;
        if sealed || self.manifest.state.lsn != self.state.lsn {
            self.write_manifest(core).map_err(|error| core.group.poison(&error).caused_by(error))?;
        }
        Ok(())
    }

    /// Saves the counters that no frame carries yet, and leaves no segment unsealed.
    pub(crate) fn close(&mut self, core: &Core) -> Result<()> {
        if !core.usage.pending().is_empty() {
            self.append(core, &[Op::Tally { id_ceiling: self.next_id }])?;
        }
        self.seal_all(core)
    }

    /// The segments that are sealed or cut.
    pub(crate) fn finished(&self) -> Vec<SegmentRecord> {
        let finished = |record: &&SegmentRecord| record.state != SegmentState::Active;
        self.manifest.segments.iter().filter(finished).copied().collect()
    }

    /// Changes which finished segments make up the store, by the next generation.
    pub(crate) fn relist(&mut self, core: &Core, added: Option<SegmentRecord>, removed: &[SegmentId]) -> Result<()> {
        core.check_lock()?;
        core.group.wait_all(core)?;
        let mut manifest = self.manifest.clone();
        manifest.segments.retain(|record| !removed.contains(&record.id));
        added.into_iter().for_each(|record| manifest.list(record));
        self.replace_manifest(core, manifest)
    }

    /// Writes the next generation, with the state as it is. Nothing may be pending.
    fn write_manifest(&mut self, core: &Core) -> Result<()> {
        self.put_manifest(core, self.manifest.clone())
    }

    /// Makes `manifest` the next generation. Where that fails, what was last written is still what counts.
    fn put_manifest(&mut self, core: &Core, mut manifest: Manifest) -> Result<()> {
        debug_assert_eq!((core.group.durable(), core.group.published()), (self.state.lsn, self.state.lsn), "W2");
        manifest.state = self.state.to_snapshot();
        manifest.generation += 1;
        core.reserve.retry(&*core.disk, || manifests::write(&*core.disk, &core.dir, &manifest))?;
        self.manifest = manifest;
        // Before anything goes that an earlier generation lists.
        core.check_generation(self.manifest.generation)
    }

    /// Reserves numbers before they run out, so that they are never given twice even where the log is lost.
    fn raise_ceilings(&mut self, core: &Core, advances: u64) -> Result<()> {
        let lsn = self.next_lsn.get().saturating_add(u64::from(limits::BATCH_FRAMES_MAX) * 2);
        let ref_version = self.state.ref_clock.next.saturating_add(advances);
        let kl_version = self.state.kl_clock.next.saturating_add(advances);
        let manifest = &self.manifest;
        let enough = lsn < manifest.lsn_ceiling
            && ref_version < manifest.ref_version_ceiling
            && kl_version < manifest.kl_version_ceiling;
        if enough {
            return Ok(());
        }
        core.group.wait_all(core)?;
        let mut raised = self.manifest.clone();
        raised.lsn_ceiling = raised.lsn_ceiling.max(lsn + limits::LSNS_RESERVED);
        raised.ref_version_ceiling = raised.ref_version_ceiling.max(ref_version + limits::VERSIONS_RESERVED);
        raised.kl_version_ceiling = raised.kl_version_ceiling.max(kl_version + limits::VERSIONS_RESERVED);
        self.replace_manifest(core, raised)
    }

    /// Makes `manifest` the next generation, where a full disk is no reason to stop.
    fn replace_manifest(&mut self, core: &Core, manifest: Manifest) -> Result<()> {
        self.put_manifest(core, manifest).map_err(|error| match error.kind() {
            ErrorKind::Full => error,
            _ => core.group.poison(&error).caused_by(error),
        })
    }
}

/// One above the highest counted id that these events insert; 0 where they insert none.
fn counted_ids_end(events: &[Event]) -> u64 {
    let inserted = events.iter().filter_map(|event| match event {
        Event::Rollout(entry) if !entry.id.is_keyed() => Some(entry.id.get().saturating_add(1)),
        _ => None,
    });
    inserted.max().unwrap_or(0)
}
