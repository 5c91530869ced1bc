//! Stores to begin a test with, and rollouts whose content follows from their ids.
//!
//! Always true:
//! - The columns of a rollout follow from its id alone, so that whoever reads them can check them.

use std::sync::Arc;
use std::time::Duration;

use rollstore::disk::Disk;
use rollstore::{
    Budget, Durability, NewRollout, Options, Plan, Results, Rollout, RolloutId, RolloutStore, VersionSpan, limits,
};

use crate::settings::random;

/// Where tests keep their store on a simulated disk. Neither directory is there at first.
pub const DIR: &str = "run/rollouts";

/// Completion tokens of [`rollout`].
pub const TOKENS: usize = 16;

/// Options with the smallest segments, so that a short test rolls over several of them.
pub fn options(disk: Arc<dyn Disk>) -> Options {
    let options = RolloutStore::options().window(8).max_version_lag(1).segment_bytes(limits::SEGMENT_BYTES_MIN);
    // A compaction happens where a test asks for one, and no space is kept in reserve: disk operations are counted.
    options.background_compaction(false).reserve_bytes(0).disk(disk)
}

/// Opens the store in [`DIR`], creating it where there is none.
///
/// # Errors
/// As for [`Options::open`].
pub fn open(disk: &(impl Disk + Clone + 'static)) -> rollstore::Result<RolloutStore> {
    options(Arc::new(disk.clone())).open(DIR)
}

/// Opens the store in [`DIR`] with its index flushed in turn: every run of a workload takes the same operations.
///
/// # Errors
/// As for [`Options::open`].
pub fn open_in_turn(disk: &(impl Disk + Clone + 'static)) -> rollstore::Result<RolloutStore> {
    options(Arc::new(disk.clone())).flush_in_turn().open(DIR)
}

/// The same as a Buffered store, which syncs when it is told to or must, and not in the background.
///
/// # Errors
/// As for [`Options::open`].
pub fn open_buffered_in_turn(disk: &(impl Disk + Clone + 'static)) -> rollstore::Result<RolloutStore> {
    let buffered = Durability::Buffered { max_delay: Duration::MAX };
    options(Arc::new(disk.clone())).flush_in_turn().durability(buffered).open(DIR)
}

/// Old logps of a rollout as `version` makes them.
#[must_use]
pub fn old_logps(id: u64, version: u64, tokens: usize) -> Vec<f32> {
    logps(id ^ version.rotate_left(32), tokens)
}

/// Sampler logps of a rollout.
#[must_use]
pub fn sampler_logps(id: u64, tokens: usize) -> Vec<f32> {
    logps(!id, tokens)
}

/// Log-probs in `-8 ..= 0`, each another.
fn logps(seed: u64, tokens: usize) -> Vec<f32> {
    let logp = |place| -f32::from(u16::try_from(random(seed, place) >> 48).unwrap_or_default()) / 8192.0;
    (0..tokens as u64).map(logp).collect()
}

/// Token ids of a completion.
#[must_use]
pub fn completion_ids(id: u64, tokens: usize) -> Vec<u32> {
    (0..tokens as u64).map(|place| u32::try_from(random(id, place) >> 47).unwrap_or_default()).collect()
}

/// A rollout of [`TOKENS`] tokens with old logps of `version`. Odd ids have sampler logps too.
pub fn rollout(id: u64, created_step: u64, version: u64) -> NewRollout<'static> {
    rollout_of(id, created_step, version, TOKENS)
}

/// A rollout of so many tokens.
pub fn rollout_of(id: u64, created_step: u64, version: u64, tokens: usize) -> NewRollout<'static> {
    let rollout = NewRollout::new(id, created_step)
        .group(id / 4)
        .completion_ids(completion_ids(id, tokens))
        .old_logps(old_logps(id, version, tokens), version);
    if id % 2 == 1 { rollout.sampler_logps(sampler_logps(id, tokens)) } else { rollout }
}

/// A partial rollout to begin, with a prompt of four tokens.
pub fn partial(id: u64, created_step: u64) -> NewRollout<'static> {
    NewRollout::new(id, created_step).group(id / 4).prompt_ids(prompt_ids(id))
}

/// Token ids of the prompt of [`partial`].
#[must_use]
pub fn prompt_ids(id: u64) -> Vec<u32> {
    completion_ids(id.rotate_left(32), 4)
}

/// The tokens of a partial rollout behind the first `from`: ids, sampler logps, and the span of the version that made them.
#[must_use]
pub fn next_tokens(id: u64, from: usize, count: usize) -> (Vec<u32>, Vec<f32>, VersionSpan) {
    let (tokens, logps) = (completion_ids(id, from + count), sampler_logps(id, from + count));
    (tokens[from..].to_vec(), logps[from..].to_vec(), sampled_by(from, count))
}

/// The span of so many tokens behind the first `from`: the sampler moves on now and then.
#[must_use]
pub fn sampled_by(from: usize, count: usize) -> VersionSpan {
    (from as u64 / 20, u32::try_from(count).unwrap_or(u32::MAX))
}

/// Appends the tokens that come next to a partial rollout.
///
/// # Errors
/// As for [`RolloutStore::append`].
pub fn append(store: &RolloutStore, id: u64, count: usize) -> rollstore::Result<()> {
    let from = store.partial(id.into())?.map_or(0, |partial| partial.completion_ids.len());
    let (tokens, logps, span) = next_tokens(id, from, count);
    store.append(id.into(), tokens, logps, span)
}

/// Checks that a view shows what [`rollout_of`] and [`forward`] make, and nothing of another rollout.
///
/// # Panics
/// Where it does not.
pub fn check_content(view: &Rollout) {
    let id = view.id().get();
    let ids = view.completion_ids().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ids, completion_ids(id, ids.len()), "token ids of rollout {id}");
    let old = view.old_logps().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(old, old_logps(id, view.ref_version(), ids.len()), "old logps of rollout {id}");
    assert_eq!(view.group(), Some(id / 4), "group of rollout {id}");
    if id % 2 == 1 {
        let sampler = view.sampler_logps().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(sampler, sampler_logps(id, ids.len()), "sampler logps of rollout {id}");
    }
}

/// Stands in for a forward pass: the old logps of everything in the plan, under the plan's version.
///
/// # Errors
/// Where a rollout of the plan cannot be read.
pub fn forward(work: &Plan) -> rollstore::Result<Results> {
    let version = work.ref_version();
    let row = |view: &Rollout| {
        let tokens = view.completion_ids()?.len();
        Ok((view.id(), old_logps(view.id().get(), version, tokens)))
    };
    work.rollouts().map(row).collect()
}

/// Recomputes everything that is due at `step`.
///
/// # Errors
/// As for [`RolloutStore::recompute`].
pub fn recompute_all(store: &RolloutStore, step: u64) -> rollstore::Result<u64> {
    Ok(store.recompute(step, Budget::unlimited(), forward)?.computed)
}

/// The same ids, ascending: scans promise no order.
#[must_use]
pub fn sorted(mut ids: Vec<RolloutId>) -> Vec<RolloutId> {
    ids.sort_unstable();
    ids
}

/// Ids by their numbers.
#[must_use]
pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<RolloutId> {
    numbers.into_iter().map(RolloutId::new).collect()
}
