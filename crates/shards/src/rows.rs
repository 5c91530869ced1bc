//! What lives in the shards, in short: enough to say what goes where before anything is made.
//!
//! May touch stores, read-only. Takes some 80 bytes of memory a rollout, whatever its arrays hold.
//!
//! Always true:
//! - W1. Of each id one rollout is taken, or one partial rollout; which, the caller chose.

use std::collections::BTreeSet;

use rollstore::{OpenPartial, RolloutId};

use crate::census::array_bytes;
use crate::error::{Conflict, Error, Result};
use crate::fill::BATCH_ROWS;
use crate::rollout::{Maps, is_same, is_same_partial};
use crate::sources::Source;

/// Conflicts that an error names.
const NAMED: usize = 5;

/// A rollout of a shard.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: RolloutId,
    /// Place of its shard.
    pub(crate) shard: usize,
    pub(crate) array_bytes: u64,
    pub(crate) created_step: u64,
    pub(crate) born_step: u64,
    /// Told as the shard does.
    pub(crate) version: u64,
    pub(crate) token_count: u32,
    pub(crate) is_missing: bool,
    pub(crate) keeps_first: bool,
}

/// A partial rollout of a shard.
#[derive(Debug)]
pub(crate) struct PartialRow {
    pub(crate) id: RolloutId,
    pub(crate) shard: usize,
    pub(crate) tokens: u64,
}

/// All that lives in the shards.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) whole: Vec<Row>,
    pub(crate) partial: Vec<PartialRow>,
    /// The versions that each shard's rollouts stand on, of both clocks.
    pub(crate) used: Vec<[BTreeSet<u64>; 2]>,
    /// Rollouts that were not taken, since another one of their ids was.
    pub(crate) superseded: u64,
    /// Partial ones, likewise.
    pub(crate) superseded_partials: u64,
}

impl Rows {
    /// Reads every shard once, but no array.
    pub(crate) fn of(sources: &[Source], mut tick: impl FnMut(usize) -> Result<()>) -> Result<Self> {
        let mut rows = Self { used: vec![Default::default(); sources.len()], ..Self::default() };
        for (shard, Source { path, store }) in sources.iter().enumerate() {
            for ids in store.ids().chunks(BATCH_ROWS) {
                for rollout in store.get_many(ids)?.iter().flatten() {
                    let [ref_versions, kl_versions] = &mut rows.used[shard];
                    ref_versions.insert(rollout.ref_version());
                    kl_versions.extend(rollout.kl_ref_version());
                    rows.whole.push(Row {
                        id: rollout.id(),
                        shard,
                        array_bytes: array_bytes(rollout),
                        created_step: rollout.created_step(),
                        born_step: rollout.born_step(),
                        version: rollout.ref_version(),
                        token_count: rollout.token_count(),
                        is_missing: !rollout.has(&rollstore::Column::OldLogps),
                        keeps_first: rollout.keeps_first_old_logps(),
                    });
                }
                tick(ids.len())?;
            }
            for OpenPartial { id, tokens, is_whole, .. } in store.partials() {
                if !is_whole {
                    return Err(Error::BrokenPartial { shard: path.clone(), id });
                }
                rows.partial.push(PartialRow { id, shard, tokens });
            }
        }
        Ok(rows)
    }

    /// The ids that more than one shard has, with the places of those.
    fn conflicts(&self) -> Vec<(RolloutId, Vec<usize>)> {
        let whole = self.whole.iter().map(|row| (row.id, row.shard));
        let mut all: Vec<_> = whole.chain(self.partial.iter().map(|row| (row.id, row.shard))).collect();
        all.sort_unstable();
        let twice = all.chunk_by(|a, b| a.0 == b.0).filter(|of_id| of_id.len() > 1);
        twice.map(|of_id| (of_id[0].0, of_id.iter().map(|(_, shard)| *shard).collect())).collect()
    }

    /// Refuses ids that more than one shard has.
    pub(crate) fn check_conflicts(&self, sources: &[Source], maps: &[Maps]) -> Result<()> {
        let conflicts = self.conflicts();
        if conflicts.is_empty() {
            return Ok(());
        }
        let named = conflicts.iter().take(NAMED).map(|(id, shards)| {
            let is_same = shards.windows(2).map(|pair| is_same_in(sources, maps, *id, pair[0], pair[1]));
            let is_same = is_same.collect::<Result<Vec<_>>>()?.into_iter().all(|same| same);
            let shards = shards.iter().map(|shard| sources[*shard].path.clone()).collect();
            Ok(Conflict { id: *id, shards, is_same })
        });
        Err(Error::Conflicts { first: named.collect::<Result<_>>()?, count: conflicts.len() as u64 })
    }

    /// Takes the newest of each id: a whole one, created last, then computed last, then of the shard named last; of partial
    /// ones alone, the longest.
    pub(crate) fn take_newest(&mut self) {
        let before = (self.whole.len(), self.partial.len());
        self.whole.sort_by_key(|row| (row.id, row.created_step, row.born_step, row.shard));
        self.whole.dedup_by(|newer, kept| {
            let is_same = newer.id == kept.id;
            if is_same {
                std::mem::swap(newer, kept);
            }
            is_same
        });
        let whole = &self.whole;
        self.partial.retain(|partial| whole.binary_search_by_key(&partial.id, |row| row.id).is_err());
        self.partial.sort_by_key(|partial| (partial.id, std::cmp::Reverse((partial.tokens, partial.shard))));
        self.partial.dedup_by_key(|partial| partial.id);
        self.superseded = (before.0 - self.whole.len()) as u64;
        self.superseded_partials = (before.1 - self.partial.len()) as u64;
    }
}

/// Whether two shards have the same under an id.
fn is_same_in(sources: &[Source], maps: &[Maps], id: RolloutId, a: usize, b: usize) -> Result<bool> {
    let rollouts = [a, b].map(|shard| sources[shard].store.get(id));
    match rollouts {
        [Ok(Some(ours)), Ok(Some(theirs))] => {
            Ok(is_same((&sources[a].store, &ours, &maps[a]), (&sources[b].store, &theirs, &maps[b]))?)
        }
        [Ok(None), Ok(None)] => {
            let [ours, theirs] = [a, b].map(|shard| sources[shard].store.partial(id));
            Ok(ours?.zip(theirs?).is_some_and(|(ours, theirs)| is_same_partial(&ours, &theirs)))
        }
        [ours, theirs] => {
            ours?;
            theirs?;
            Ok(false)
        }
    }
}
