//! Fills a store with what it is to hold, and goes on with one that a killed process left.
//!
//! May touch stores. Takes memory for one batch, whatever the shards hold.
//!
//! Always true:
//! - F1. What a store that was left holds is its own progress: each rollout is compared with its shard's, bit for bit, and the
//!   store goes on where all are the same, or begins anew.
//! - F2. A rollout is read from its shard with every checksum.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::{Clocks, NewRollout, Options, Past, RolloutId, RolloutStore};

use crate::counters::computed;
use crate::error::{Error, Result};
use crate::rollout::{Maps, brought, is_same, is_same_partial};
use crate::rows::{PartialRow, Row};
use crate::sources::Source;

/// Bytes of arrays in a commit, about; a single rollout may have more. Each is synced: what a killed process, or the power,
/// leaves is never less than it said, and numbers of versions go on without a gap.
const BATCH_BYTES: u64 = 32 << 20;

/// Rollouts that are looked up, and committed, at a time.
pub(crate) const BATCH_ROWS: usize = 4096;

/// What the stores that are made have in common.
pub(crate) struct Common<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) sources: &'a [Source],
    pub(crate) maps: &'a [Maps],
    pub(crate) clocks: Clocks,
    pub(crate) cursor: Option<Arc<[u8]>>,
}

/// What one of them is to hold.
pub(crate) struct Target<'a> {
    /// Those of one shard behind each other.
    pub(crate) rows: Vec<&'a Row>,
    pub(crate) partials: Vec<&'a PartialRow>,
    pub(crate) past: Past,
}

impl Common<'_> {
    fn options(&self) -> Options {
        let options = self.sources.first().map_or_else(RolloutStore::options, Source::options);
        options.disk(Arc::clone(self.disk)).background_compaction(false)
    }

    /// Reads a store that was made.
    pub(crate) fn read(&self, dir: &Path) -> rollstore::Result<RolloutStore> {
        self.options().read_only(true).open(dir)
    }

    /// Whether what a killed process left in a directory is a part of the target.
    pub(crate) fn is_begun(
        &self,
        target: &Target<'_>,
        dir: &Path,
        tick: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<bool> {
        // Whatever keeps it from being read, it is made anew.
        let Ok(left) = self.read(dir) else { return Ok(false) };
        let Some((rows, partials)) = held(target, &left) else { return Ok(false) };
        let mut past = target.past.clone();
        past.counters.inserted += rows.len() as u64;
        past.counters.computed += computed(rows.iter().copied());
        let cursor = left.cursor();
        if left.clocks() != self.clocks || left.past() != past || (cursor.is_some() && cursor != self.cursor) {
            return Ok(false);
        }
        for batch in batches(&rows) {
            let ids: Vec<RolloutId> = batch.iter().map(|row| row.id).collect();
            let Ok(ours) = left.get_many(&ids) else { return Ok(false) };
            let source = &self.sources[batch[0].shard];
            let theirs = source.store.get_many(&ids)?;
            for pair in ours.iter().zip(&theirs) {
                let (Some(ours), Some(theirs)) = pair else { return Ok(false) };
                // A shard that is damaged is found by the copy.
                let same = is_same((&left, ours, &Maps::SAME), (&source.store, theirs, &self.maps[batch[0].shard]));
                if !same.unwrap_or_default() {
                    return Ok(false);
                }
            }
            tick(0)?;
        }
        for PartialRow { id, shard, .. } in partials {
            let theirs = self.sources[*shard].store.partial(*id)?;
            let Ok(ours) = left.partial(*id) else { return Ok(false) };
            if !ours.zip(theirs).is_some_and(|(ours, theirs)| is_same_partial(&ours, &theirs)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fills a directory with what is not there yet.
    pub(crate) fn fill(
        &self,
        target: &Target<'_>,
        dir: &Path,
        is_begun: bool,
        tick: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let store = if is_begun {
            self.options().create(false).open(dir)?
        } else {
            self.options().clocks(self.clocks.clone()).past(target.past.clone()).open(dir)?
        };
        let live: HashSet<RolloutId> = store.ids().into_iter().collect();
        let left: Vec<&Row> = target.rows.iter().copied().filter(|row| !live.contains(&row.id)).collect();
        tick(target.rows.len() - left.len())?;
        for batch in batches(&left) {
            self.copy(batch, &store)?;
            tick(batch.len())?;
        }
        let open: HashSet<RolloutId> = store.partials().iter().map(|partial| partial.id).collect();
        for partial in target.partials.iter().filter(|partial| !open.contains(&partial.id)) {
            self.copy_partial(partial, &store)?;
        }
        if let Some(cursor) = self.cursor.as_deref().filter(|cursor| store.cursor().as_deref() != Some(cursor)) {
            store.set_cursor(cursor)?;
        }
        Ok(store.close()?)
    }

    /// One commit.
    fn copy(&self, rows: &[&Row], store: &RolloutStore) -> Result<()> {
        let (source, maps) = (&self.sources[rows[0].shard], &self.maps[rows[0].shard]);
        let ids: Vec<RolloutId> = rows.iter().map(|row| row.id).collect();
        let rollouts = source.store.get_many(&ids)?;
        let mut batch = store.batch();
        for rollout in rollouts.iter().flatten() {
            batch.insert(brought(&source.store, rollout, maps)?)?;
        }
        batch.commit()?;
        Ok(())
    }

    /// One commit: it is there in whole, or not.
    fn copy_partial(&self, PartialRow { id, shard, .. }: &PartialRow, store: &RolloutStore) -> Result<()> {
        let Some(partial) = self.sources[*shard].store.partial(*id)? else { return Ok(()) };
        let mut new = match &partial.key {
            Some(key) => NewRollout::with_key(key, partial.created_step),
            None => NewRollout::new(*id, partial.created_step),
        };
        if let Some(group) = partial.group {
            new = new.group(group);
        }
        if let Some(prompt) = &partial.prompt_ids {
            new = new.prompt_ids(prompt);
        }
        let mut batch = store.batch();
        batch.begin_partial(new)?;
        let mut from = 0;
        for (version, count) in &partial.version_spans {
            let to = from + *count as usize;
            let (Some(tokens), Some(logps)) =
                (partial.completion_ids.get(from..to), partial.sampler_logps.get(from..to))
            else {
                return Err(Error::Miscount(format!("the spans of partial rollout {id} are longer than it is")));
            };
            batch.append(*id, tokens, logps, (*version, *count))?;
            from = to;
        }
        batch.commit()?;
        Ok(())
    }
}

/// What a store holds of a target; `None` where it holds anything else.
fn held<'t>(target: &Target<'t>, store: &RolloutStore) -> Option<(Vec<&'t Row>, Vec<&'t PartialRow>)> {
    let wanted: HashMap<RolloutId, &Row> = target.rows.iter().map(|row| (row.id, *row)).collect();
    let mut rows = store.ids().iter().map(|id| wanted.get(id).copied()).collect::<Option<Vec<_>>>()?;
    rows.sort_by_key(|row| (row.shard, row.born_step, row.id));
    let wanted: HashMap<RolloutId, &PartialRow> = target.partials.iter().map(|row| (row.id, *row)).collect();
    let partials =
        store.partials().iter().map(|partial| wanted.get(&partial.id).copied()).collect::<Option<Vec<_>>>()?;
    Some((rows, partials))
}

/// Rows of one shard each, so many that a commit is worth its sync and small enough for memory.
fn batches<'s, 'r>(mut rows: &'s [&'r Row]) -> impl Iterator<Item = &'s [&'r Row]> {
    std::iter::from_fn(move || {
        let first = rows.first()?;
        let mut bytes = 0;
        let fits = |row: &&&Row| {
            bytes += row.array_bytes;
            row.shard == first.shard && (row.id == first.id || bytes <= BATCH_BYTES)
        };
        let count = rows.iter().take(BATCH_ROWS).take_while(fits).count();
        let (batch, rest) = rows.split_at(count);
        rows = rest;
        Some(batch)
    })
}
