//! Shards of one run with a life behind them, and all that a set of stores holds, as one value.
//!
//! May touch the public API alone. Knows nothing of how shards are made into others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::{
    Budget, Clocks, LogpKind, NewRollout, Options, Past, Provenance, Reason, Results, RolloutId, RolloutStore,
    VersionSpan,
};

use crate::settings::random;
use crate::state::{PartialState, RolloutState, StoreState};
use crate::store::{completion_ids, next_tokens, old_logps, prompt_ids, sampler_logps};

/// Steps of the life of a shard.
pub const STEPS: u64 = 12;

/// What all shards of a run have in common: their identity is `run`, their window 8, their lag 1.
pub fn options(disk: Arc<dyn Disk>) -> Options {
    let options = RolloutStore::options().window(8).max_version_lag(1).run_identity(b"run").step_skew(2);
    options.background_compaction(false).reserve_bytes(0).disk(disk)
}

/// Lets the store of shard `shard` of `shards` live for some steps, which follow from the seed: rollouts of every kind come and
/// go, are asked for and computed again, and generations are interrupted. All shards advance alike, each under a label; the
/// cursor is the same in all.
///
/// # Errors
/// What the store met.
pub fn live(store: &RolloutStore, seed: u64, shard: u64, shards: u64) -> rollstore::Result<()> {
    for step in 0..STEPS {
        live_step(store, seed, shard, shards, step)?;
    }
    // A recompute takes a shard's clock along; shards of a run stand at one step.
    store.advance_ref_version(STEPS, Some(100 + STEPS))?;
    store.set_cursor(b"epoch 1")?;
    Ok(())
}

/// One step of [`live`].
///
/// # Errors
/// What the store met.
pub fn live_step(store: &RolloutStore, seed: u64, shard: u64, shards: u64, step: u64) -> rollstore::Result<()> {
    let chance = |place: u64, of: u64| random(seed ^ (shard << 32) ^ (step << 16), place) % of;
    let mut batch = store.batch();
    for number in 0..chance(0, 8) {
        let id = (step * 8 + number) * shards + shard;
        batch.insert(rollout(id, step, store.ref_version(), store.kl_ref_version(), random(seed, id)))?;
    }
    batch.commit()?;
    let live = store.ids();
    let some = |place: u64, of: u64| -> Vec<RolloutId> {
        live.iter().copied().filter(|id| random(seed ^ place, id.get()).is_multiple_of(of)).collect()
    };
    drop(store.plan_for(&some(step, 5), step)?);
    // Old log-probs of some are computed again, each time under the current version.
    let version = store.ref_version();
    store.recompute(step, Budget::rollouts(2), |work| {
        let row = |view: &rollstore::Rollout| (view.id(), old_logps(view.id().get(), version, tokens_of(view)));
        Ok::<_, std::convert::Infallible>(work.rollouts().map(row).collect::<Results>())
    })?;
    store.retire(&some(step + 100, 9), Reason::ALL[usize::from(step.is_multiple_of(3))])?;
    if chance(1, 4) == 0 {
        interrupt(store, (1 << 40) + step * shards + shard, step)?;
    }
    // The same in all shards: they are of one run.
    if !random(seed, step).is_multiple_of(3) {
        store.advance_ref_version(step, Some(100 + step))?;
    }
    if step == STEPS / 2 {
        store.advance_kl_ref_version(Some(7))?;
    }
    Ok(())
}

fn tokens_of(view: &rollstore::Rollout) -> usize {
    view.completion_ids().map_or(0, <[u32]>::len)
}

/// A generation that was interrupted twice, after a weight update of the sampler.
fn interrupt(store: &RolloutStore, id: u64, step: u64) -> rollstore::Result<()> {
    store.begin_partial(NewRollout::new(id, step).group(id / 4).prompt_ids(prompt_ids(id)))?;
    for (from, count) in [(0, 20), (20, 7)] {
        let (tokens, mut logps, span) = next_tokens(id, from, count);
        logps[0] = f32::from_bits(0x7fc0_0001);
        store.append(id.into(), tokens, logps, span)?;
    }
    Ok(())
}

/// A rollout of which everything follows from its id and `bits`: which columns it has, a key, NaN with bits of their own.
fn rollout(id: u64, step: u64, version: u64, kl_version: u64, bits: u64) -> NewRollout<'static> {
    let has = |bit: u32| bits >> bit & 1 == 1;
    let tokens = usize::try_from(bits % 40).unwrap_or_default() + 1;
    let mut new = if bits.is_multiple_of(7) {
        NewRollout::with_key(&format!("request-{id}"), step)
    } else {
        NewRollout::new(id, step)
    };
    new = new.completion_ids(completion_ids(id, tokens)).metadata(&bits.to_le_bytes()[..usize::from(has(8)) * 5]);
    if has(9) {
        let mut logps = sampler_logps(id, tokens);
        logps[0] = f32::from_bits(0xffc1_2345);
        new = new.sampler_logps(logps).provenance("sampler_logps".into(), Provenance::raw("engine 1"));
        new = new.version_spans(&[(step, 1), (step + 1, u32::try_from(tokens - 1).unwrap_or_default())]);
    }
    if has(10) || has(11) {
        new = new.old_logps(old_logps(id, version, tokens), version);
    }
    if has(12) {
        new = new.kl_ref_logps(old_logps(!id, kl_version, tokens), kl_version);
        let processed = Provenance { kind: LogpKind::Processed, temperature: 0.7, ..Provenance::raw("engine 2") };
        new = new.provenance("kl_ref_logps".into(), processed);
    }
    if has(13) {
        new = new.group(id / 4).reward(f32::from_bits(0x7fc0_0003)).advantage(-0.0);
    }
    if has(14) {
        new = new.prompt_ids(prompt_ids(id)).loss_mask(vec![1; tokens]);
    }
    if has(15) {
        new = new.column("values", vec![i64::MIN; tokens]).column("experts", vec![u8::MAX; 3]);
    }
    new
}

/// Clocks, cursor, identity and options of a store.
pub type Stand = (Clocks, Option<Vec<u8>>, Vec<u8>, [u64; 4]);

/// All that a set of stores holds, whichever of them holds it.
#[derive(Clone, PartialEq)]
pub struct Held {
    /// Every live rollout; whether it was asked for; the sampler's versions.
    pub rollouts: BTreeMap<RolloutId, (RolloutState, bool, Vec<VersionSpan>)>,
    /// Every partial rollout.
    pub partials: BTreeMap<RolloutId, PartialState>,
    /// Clocks, cursor, identity and options of each store, those that are the same in all of them once.
    pub stands: Vec<Stand>,
    /// What they counted together; the lowest id that none of them used.
    pub past: Past,
}

impl Held {
    /// Reads all that these stores hold.
    ///
    /// # Errors
    /// What reading met.
    ///
    /// # Panics
    /// Where two of them hold one id, or there is none.
    pub fn of(disk: &Arc<dyn Disk>, dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> rollstore::Result<Self> {
        let mut all: Option<Self> = None;
        for dir in dirs {
            let store = RolloutStore::options().read_only(true).disk(Arc::clone(disk)).open(dir.into())?;
            let one = Self::of_store(&store)?;
            all = Some(match all {
                None => one,
                Some(all) => all.with(one),
            });
        }
        Ok(all.expect("a store"))
    }

    fn of_store(store: &RolloutStore) -> rollstore::Result<Self> {
        let state = StoreState::of(store)?.without_lsns();
        let mut rollouts = BTreeMap::new();
        for (id, rollout) in state.rollouts {
            let view = store.get(id)?.expect("it was listed");
            rollouts.insert(id, (rollout, store.was_asked(id), view.version_spans()));
        }
        let options = [store.window(), store.max_version_lag(), store.step_skew(), store.step_jump_max()];
        let stands = vec![(store.clocks(), state.cursor, store.run_identity(), options)];
        Ok(Self { rollouts, partials: state.partials, stands, past: store.past() })
    }

    fn with(mut self, other: Self) -> Self {
        let before = self.rollouts.len() + self.partials.len() + other.rollouts.len() + other.partials.len();
        self.rollouts.extend(other.rollouts);
        self.partials.extend(other.partials);
        assert_eq!(self.rollouts.len() + self.partials.len(), before, "two stores hold one id");
        self.stands.extend(other.stands);
        self.stands.dedup();
        self.past.counters += &other.past.counters;
        self.past.next_id = self.past.next_id.max(other.past.next_id);
        self
    }

    /// Asserts that the other holds the same, and says what differs.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn assert_same(&self, other: &Self, when: &str) {
        let ids = |held: &Self| held.rollouts.keys().copied().collect::<Vec<_>>();
        assert_eq!(ids(self), ids(other), "{when}: ids");
        for (id, ours) in &self.rollouts {
            assert!(other.rollouts.get(id) == Some(ours), "{when}: rollout {id} differs");
        }
        assert_eq!(self.partials, other.partials, "{when}: partial rollouts");
        assert_eq!(self.stands, other.stands, "{when}: clocks, cursor, identity, options");
        assert_eq!(self.past, other.past, "{when}: counters");
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("rollouts", &self.rollouts.len()).field("past", &self.past).finish_non_exhaustive()
    }
}
