//! One step of compaction: copies what is alive in some segments to a new one, and lets go of those with nothing left.
//!
//! Always true:
//! - J1. The order is: copy sealed, manifest with the copy, places in the index, manifest without the sources, unlink. A crash
//!   between any two leaves a store that answers the same.
//! - J2. A place moves only where the index still holds the very frame that was copied.
//! - J3. A frame that retires a rollout goes only when no segment that stays holds the rollout's insert or a piece of it.
//! - J4. A segment with a frame that cannot be read whole stays as it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::choose::Haste;
use super::{copy, retired};
use crate::disk::{Access, DiskFile};
use crate::error::{Error, Result};
use crate::format::entry::{FrameEntry, Has};
use crate::format::manifest::SegmentRecord;
use crate::format::names::segment_file_name;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::ids::{Location, Lsn, RolloutId, SegmentId};
use crate::log::segment::Segment;
use crate::log::source::Source;
use crate::planted::{Bug, planted};
use crate::recovery::facts::{self, Facts};
use crate::store::core::Core;

/// Rollouts looked at, or moved, under one hold of the index's lock: so many take well below a millisecond.
const AT_A_TIME: usize = 512;

/// What one step did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) copied_bytes: u64,
    pub(super) freed_bytes: u64,
    pub(super) dropped: u64,
    pub(super) written: u64,
}

/// A segment that the step reads.
pub(super) struct Input {
    pub(super) record: SegmentRecord,
    pub(super) path: PathBuf,
    file: Arc<dyn DiskFile>,
    pub(super) facts: Facts,
    /// Whether something in it stays: it is damaged, or the budget ended first.
    pub(super) stays: bool,
    /// Whether a frame in it could not be read whole.
    pub(super) is_damaged: bool,
}

/// A frame that is alive.
pub(super) struct Move {
    /// Ref version, born step, id, LSN: stale and out-of-window rollouts are then read in sequence, and log-probs that were
    /// computed again lie behind their rollout.
    order: (u64, u64, RolloutId, Lsn),
    pub(super) input: usize,
    pub(super) entry: FrameEntry,
    /// Whether the rollout was ever asked for.
    pub(super) used: bool,
}

impl Move {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.entry.frame_units) * Location::UNIT_BYTES
    }
}

impl Input {
    fn open(core: &Core, record: SegmentRecord) -> Result<Self> {
        let path = core.dir.join(segment_file_name(record.id));
        let file = core.disk.open(&path, Access::Read).map_err(|error| Error::io("open segment", &path, error))?;
        let facts = facts::of_record(&*core.disk, &core.dir, &record)?;
        Ok(Self { record, path, file, facts, stays: false, is_damaged: false })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.record.len()
    }

    /// Lets go of what the system keeps in memory of the file, as far as no reader has it mapped.
    pub(super) fn release_pages(&self) {
        self.file.release_pages(0..self.bytes());
    }

    /// Reads a frame at once, as many bytes as `buffer` has. False where that fails: reading its parts tells why.
    pub(super) fn read_ahead(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.file.read_exact_at(buffer, offset).is_ok()
    }

    pub(super) fn source(&self) -> Source<'_> {
        let SegmentRecord { id, salt, .. } = self.record;
        Source {
            file: &*self.file,
            path: &self.path,
            segment: id,
            salt,
            start: SEGMENT_HEADER_BYTES as u64,
            end: self.bytes(),
            base_lsn: None,
            ahead: None,
        }
    }
}

/// Copies what is alive in these finished segments, as far as `budget` bytes go, and lets go of those with nothing left.
/// `None` where that would gain nothing, or the store is closing.
pub(super) fn run(core: &Core, haste: Haste, inputs: &[SegmentId], budget: u64) -> Result<Option<Step>> {
    let finished = core.lock_writer()?.finished();
    let chosen = finished.iter().filter(|record| inputs.contains(&record.id));
    let mut inputs: Vec<Input> = chosen.map(|record| Input::open(core, *record)).collect::<Result<_>>()?;
    let mut moves = plan(core, &inputs);
    let needed = retired::still_needed(core, &staying(&finished, &inputs), &going(&inputs))?;
    if !is_worth_it(&inputs, &moves, retired::bytes_of(&going(&inputs), &needed), core.segment_bytes) {
        return Ok(None);
    }
    cut(&mut moves, &mut inputs, budget.min(core.segment_bytes));
    let mut step = Step::default();
    if !(moves.is_empty() && needed.is_empty()) {
        let Some(output) = copy::write(core, haste, &finished, &mut inputs, &moves)? else { return Ok(None) };
        (step.copied_bytes, step.written) = (output.bytes, 1);
        core.compactor.copied_bytes.fetch_add(output.bytes, Ordering::Relaxed);
        core.lock_writer()?.relist(core, Some(output.record), &[])?;
        core.published.write().segments.insert(output.record.id, output.segment);
        for some in output.moved.chunks(AT_A_TIME) {
            let mut published = core.published.write();
            for entry in some {
                if planted(Bug::RelocateWithoutCompare) {
                    published.index.apply(output.record.id, entry);
                }
                published.index.relocate(output.record.id, entry);
            }
        }
    }
    inputs.iter().for_each(Input::release_pages);
    let gone = going(&inputs);
    (step.freed_bytes, step.dropped) = (gone.iter().map(|input| input.bytes()).sum(), gone.len() as u64);
    let_go(core, &gone)?;
    Ok(Some(step))
}

/// The finished segments that will be there afterwards, without the copy.
pub(super) fn staying(finished: &[SegmentRecord], inputs: &[Input]) -> Vec<SegmentRecord> {
    let goes = |record: &SegmentRecord| inputs.iter().any(|input| input.record.id == record.id && !input.stays);
    finished.iter().filter(|record| !goes(record)).copied().collect()
}

/// The inputs that will not.
pub(super) fn going(inputs: &[Input]) -> Vec<&Input> {
    inputs.iter().filter(|input| !input.stays).collect()
}

/// The frames that are alive, in the order in which they are to lie.
fn plan(core: &Core, inputs: &[Input]) -> Vec<Move> {
    let mut moves = Vec::new();
    for (place, input) in inputs.iter().enumerate() {
        for some in input.facts.entries.chunks(AT_A_TIME) {
            let published = core.published.read();
            for entry in some {
                let at = Location { segment: input.record.id, offset_units: entry.offset_units };
                if !published.index.holds(entry.id, at, entry.lsn) {
                    continue;
                }
                // A piece is of no rollout yet: such frames come first, and no reader looks for them there.
                let now = published.index.get(entry.id);
                let (ref_version, born_step) = now.map_or((0, 0), |now| (now.ref_version, now.born_step));
                let order = (ref_version, born_step, entry.id, entry.lsn);
                let used = now.is_some_and(|now| now.has.contains(Has::USED));
                moves.push(Move { order, input: place, entry: *entry, used });
            }
        }
    }
    moves.sort_unstable_by_key(|one| one.order);
    moves
}

/// Leaves out what the budget does not reach; the first frame always fits, so that a huge one blocks nothing.
fn cut(moves: &mut Vec<Move>, inputs: &mut [Input], budget: u64) {
    let mut bytes = 0;
    let fits = |one: &&Move| {
        let is_first = bytes == 0;
        bytes += one.bytes();
        is_first || bytes <= budget
    };
    let fitting = moves.iter().take_while(fits).count();
    for left in moves.drain(fitting..) {
        if let Some(input) = inputs.get_mut(left.input) {
            input.stays = true;
        }
    }
}

/// Whether all that is alive, copied, takes less than what it lies in now, or fewer segments.
fn is_worth_it(inputs: &[Input], moves: &[Move], retire_bytes: u64, segment_bytes: u64) -> bool {
    /// What a frame takes in the footer.
    const FOOTER_ROW_BYTES: u64 = 80;
    let frames: u64 = moves.iter().map(|one| one.bytes() + FOOTER_ROW_BYTES).sum();
    let copy = frames + retire_bytes;
    let now: u64 = inputs.iter().map(Input::bytes).sum();
    let is_smaller = copy + SEGMENT_HEADER_BYTES as u64 + now / 8 < now;
    copy == 0 || is_smaller || (inputs.len() > 1 && copy <= segment_bytes)
}

/// Takes segments with nothing alive out of the store, and unlinks them; views keep what they see.
fn let_go(core: &Core, gone: &[&Input]) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    // A checkpoint may be linking them.
    let _no_checkpoint = core.checkpointing.lock();
    let mut published = core.published.write();
    let is_dead = |input: &&&Input| published.index.live_bytes(input.record.id) == 0;
    let dead: Vec<&Input> = gone.iter().filter(is_dead).copied().collect();
    debug_assert_eq!(dead.len(), gone.len(), "what is let go holds nothing alive");
    let ids: Vec<SegmentId> = dead.iter().map(|input| input.record.id).collect();
    let taken: Vec<Arc<Segment>> = ids.iter().filter_map(|id| published.segments.remove(id)).collect();
    drop(published);
    // An index on disk that points to a file which is gone would be made anew at the next open, from every footer.
    if let Err(error) = core.flusher.flush(core) {
        tracing::warn!(%error, "the index was not flushed after a compaction; it is made anew at the next flush");
    }
    if planted(Bug::UnlinkInputsBeforeManifest) {
        dead.iter().for_each(|input| drop(core.disk.remove_file(&input.path)));
    }
    let relisted = core.lock_writer().and_then(|mut writer| writer.relist(core, None, &ids));
    if let Err(error) = relisted {
        core.published.write().segments.extend(taken.into_iter().map(|segment| (segment.id, segment)));
        return Err(error);
    }
    for input in dead {
        if let Err(error) = core.disk.remove_file(&input.path) {
            let path = input.path.display();
            tracing::warn!(%path, %error, "could not remove a segment that nothing lies in; the next open does");
        }
    }
    core.compactor.unlinked(&taken);
    Ok(())
}
