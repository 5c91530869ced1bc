//! A trainer's day: generate, advance, use, recompute under a budget, retire, checkpoint, step after step, with compaction,
//! index flushes and checkpoints running. No forward pass is made and no step is waited for: the store's time is what is
//! measured, and its share is of a step of 30 s.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rollstore::{Budget, Column, NewRollout, Padded, Plan, Reason, Results, RolloutId, RolloutStore, Stale};
use serde::{Deserialize, Serialize};

use super::figures::{Figures, count};
use crate::content::{Content, Lengths, below, mix};
use crate::meter::{anonymous_bytes, percentile, space_bytes};
use crate::outcome::{Outcome, expect};

/// Seconds of the step that the store's share is of.
const STEP_SECONDS: f64 = 30.0;
/// Rollouts of one commit while a generation comes in.
const COMMIT_ROLLOUTS: u64 = 64;
/// Steps for which log-probs are fresh, and that rollouts live.
const WINDOW: u64 = 2;
const LIFE_STEPS: u64 = 8;
const CHECKPOINT_EVERY: u64 = 10;
const PROMPT_TOKENS: usize = 512;

/// How long a day is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DayShape {
    pub(crate) steps: u64,
    pub(crate) rollouts: u64,
    pub(crate) tokens: usize,
}

/// Seconds by phase, and the time of every commit.
#[derive(Debug, Default)]
struct Times {
    phases: Vec<(&'static str, f64)>,
    commits_ms: Vec<f64>,
    steps: Vec<f64>,
}

impl Times {
    fn phase<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let began = Instant::now();
        let done = work(self)?;
        let seconds = began.elapsed().as_secs_f64();
        match self.phases.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += seconds,
            None => self.phases.push((name, seconds)),
        }
        if let Some(step) = self.steps.last_mut() {
            *step += seconds;
        }
        Ok(done)
    }

    fn commit(&mut self, commit: impl FnOnce() -> rollstore::Result<()>) -> Outcome {
        let began = Instant::now();
        commit()?;
        self.commits_ms.push(began.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }
}

pub(super) fn run(shape: &DayShape, dir: &Path) -> Outcome<Figures> {
    let content = &Content::new(shape.steps * shape.rollouts, Lengths::Fixed(shape.tokens), false);
    let tokens: Vec<u32> =
        (0..PROMPT_TOKENS + shape.tokens).map(|at| u32::try_from(mix(at as u64) >> 47)).collect::<Result<_, _>>()?;
    let memory_before = anonymous_bytes();
    let store = &RolloutStore::options().window(WINDOW).max_version_lag(LIFE_STEPS).open(dir.join("store"))?;
    let checkpoint = dir.join("checkpoint");
    let (mut times, mut checked) = (Times::default(), 0_u64);
    for step in 0..shape.steps {
        times.steps.push(0.0);
        let numbers = step * shape.rollouts..(step + 1) * shape.rollouts;
        generate(store, step, numbers.clone(), content, &tokens, &mut times)?;
        times.phase("advance", |times| times.commit(|| store.advance_ref_version(step, None).map(|_| ())))?;

        // Half of the batch is of this step, half of the steps before.
        let oldest = (step + 1).saturating_sub(LIFE_STEPS) * shape.rollouts;
        let old = (0..shape.rollouts / 4).map(|at| oldest + below(at ^ step << 32, numbers.end - oldest));
        let mut ids: Vec<RolloutId> = numbers.start_range(shape.rollouts / 4).chain(old).map(RolloutId::new).collect();
        ids.sort_unstable();
        ids.dedup();
        times.phase("get_or_compute", |_| {
            Ok(store.get_or_compute(&ids, step, |work| Ok::<_, Infallible>(forward(work, content)))?)
        })?;
        let mut tensor = vec![0.0_f32; ids.len() * shape.tokens];
        times.phase("gather", |_| {
            Ok(store.gather(
                &ids,
                Column::OldLogps,
                step,
                Stale::Error,
                &mut Padded::new(&mut tensor, shape.tokens, 0.0),
            )?)
        })?;
        for (id, row) in ids.iter().zip(tensor.chunks(shape.tokens)) {
            let [inserted, computed] = [content.values(id.get()), content.recomputed_values(id.get())];
            expect("a gathered row is one of the two that it can be", &(row == inserted || row == computed), &true)?;
            checked += 1;
        }
        times.phase("recompute", |_| {
            let budget = Budget::tokens((PROMPT_TOKENS + shape.tokens) as u64 * shape.rollouts / 4);
            Ok(store.recompute(step, budget, |work| Ok::<_, Infallible>(forward(work, content)))?)
        })?;
        times.phase("retire", |times| {
            times.commit(|| {
                store.retire_created_before((step + 1).saturating_sub(LIFE_STEPS), Reason::Evicted).map(|_| ())
            })
        })?;
        if step % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1 {
            checkpoint_beside_commits(store, step, &checkpoint, &mut times)?;
        }
    }
    let mut figures = figures(shape, &times);
    let stats = store.stats()?;
    figures.set("rows_checked", count(checked));
    figures.set("appended_mb", count(stats.appended_bytes) / 1e6);
    figures.set("compacted_mb", count(stats.compacted_bytes) / 1e6);
    figures.set("rollouts_live", count(stats.live));
    figures.set("memory_mb", count(anonymous_bytes().saturating_sub(memory_before)) / 1e6);
    figures.set("space_against_live_ratio", count(space_bytes(&dir.join("store"))?) / count(stats.live_bytes));
    expect("rollouts live", &stats.live, &(shape.rollouts * shape.steps.min(LIFE_STEPS)))?;
    Ok(figures)
}

/// The first so many of a range.
trait StartRange {
    fn start_range(&self, length: u64) -> std::ops::Range<u64>;
}

impl StartRange for std::ops::Range<u64> {
    fn start_range(&self, length: u64) -> std::ops::Range<u64> {
        self.start..self.end.min(self.start + length)
    }
}

/// A generation comes in, a commit for each 64 rollouts.
fn generate(
    store: &RolloutStore,
    step: u64,
    numbers: std::ops::Range<u64>,
    content: &Content,
    tokens: &[u32],
    times: &mut Times,
) -> Outcome {
    let version = store.ref_version();
    let (prompt, completion) = tokens.split_at(PROMPT_TOKENS);
    times.phase("generate", |times| {
        let all: Vec<u64> = numbers.collect();
        for group in all.chunks(usize::try_from(COMMIT_ROLLOUTS)?) {
            times.commit(|| {
                let mut batch = store.batch();
                for number in group {
                    let rollout = NewRollout::new(*number, step).group(number / 8).reward(0.5).prompt_ids(prompt);
                    let values = content.values(*number);
                    batch
                        .insert(rollout.completion_ids(completion).sampler_logps(values).old_logps(values, version))?;
                }
                batch.cursor(&step.to_le_bytes());
                batch.commit().map(|_| ())
            })?;
        }
        Ok(())
    })
}

/// What a model would give. Not the store's time, but too little beside it to take out.
fn forward(work: &Plan, content: &Content) -> Results {
    work.ids().map(|id| (id, content.recomputed_values(id.get()).to_vec())).collect()
}

/// A checkpoint, and what commits take meanwhile.
fn checkpoint_beside_commits(store: &RolloutStore, step: u64, dir: &Path, times: &mut Times) -> Outcome {
    times.phase("checkpoint", |times| {
        let is_done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let taken = scope.spawn(move || {
                let taken = store.checkpoint(dir);
                is_done.store(true, Ordering::Release);
                taken
            });
            // At least one is made, however fast the checkpoint is.
            loop {
                times.commit(|| store.set_cursor(&step.to_be_bytes()).map(|_| ()))?;
                if is_done.load(Ordering::Acquire) {
                    break;
                }
            }
            taken.join().map_err(|_| "the checkpoint panicked")??;
            Ok(())
        })
    })
}

fn figures(shape: &DayShape, times: &Times) -> Figures {
    let mut figures = Figures::default();
    let total: f64 = times.phases.iter().map(|(_, seconds)| seconds).sum();
    figures.set("steps", count(shape.steps));
    figures.set("commits", count(times.commits_ms.len()));
    for (name, seconds) in &times.phases {
        figures.set(&format!("{name}_ms_step"), seconds * 1e3 / count(shape.steps));
    }
    figures.set("store_ms_step", total * 1e3 / count(shape.steps));
    figures.set("store_share_percent", total / count(shape.steps) / STEP_SECONDS * 100.0);
    figures.set("store_share_worst_step_percent", percentile(&times.steps, 1.0) / STEP_SECONDS * 100.0);
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        figures.set(&format!("commit_{name}_ms"), percentile(&times.commits_ms, part));
    }
    figures
}
