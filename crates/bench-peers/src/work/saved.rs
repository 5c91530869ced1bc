//! What per-rollout windows save: the same run under four rules, each through a real store, all with the same promise: what
//! is used is at most `N - 1` advances old.
//!
//! A static schedule computes every live rollout at every N-th advance. A window computes each rollout when its own time is
//! up. Stale-lazy computes it only if it is used after that. A budget computes what is due ahead of use, a few a step, and
//! the rest when it is used.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use rollstore::{Budget, NewRollout, Plan, Reason, Results, RolloutId, RolloutStore};
use rollstore_cli::trace::{Event, TraceReader};
use serde::{Deserialize, Serialize};

use super::figures::{Figures, count};
use crate::content::{Lengths, below};
use crate::outcome::{Outcome, expect};

/// Which run, under which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    pub(crate) source: Source,
    pub(crate) rule: Rule,
}

/// Where the events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The recorded GRPO run of this repository.
    Trace,
    /// 128 rollouts a step of log-normal length, each live for 8 steps, half of each batch replayed.
    Day,
}

/// When log-probs are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rule {
    StaticModulo,
    Window,
    StaleLazy,
    Budget,
}

/// All that are compared.
pub(crate) const POLICIES: [Policy; 8] = {
    const fn of(source: Source, rule: Rule) -> Policy {
        Policy { source, rule }
    }
    [
        of(Source::Trace, Rule::StaticModulo),
        of(Source::Trace, Rule::Window),
        of(Source::Trace, Rule::StaleLazy),
        of(Source::Trace, Rule::Budget),
        of(Source::Day, Rule::StaticModulo),
        of(Source::Day, Rule::Window),
        of(Source::Day, Rule::StaleLazy),
        of(Source::Day, Rule::Budget),
    ]
};

impl Policy {
    /// The name of its case.
    pub(crate) fn case(self) -> String {
        let source = match self.source {
            Source::Trace => "trace",
            Source::Day => "simulated",
        };
        format!("saved-{source}-{}", self.rule.name().replace(' ', "-"))
    }

    pub(crate) fn title(self) -> String {
        let source = match self.source {
            Source::Trace => "the recorded run",
            Source::Day => "a simulated day",
        };
        format!("what is recomputed on {source}: {}", self.rule.name())
    }
}

impl Rule {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StaticModulo => "static modulo",
            Self::Window => "window",
            Self::StaleLazy => "stale-lazy",
            Self::Budget => "budget",
        }
    }
}

impl Source {
    /// N: a static schedule computes at every N-th advance.
    fn every(self) -> u64 {
        match self {
            Self::Trace => 3,
            Self::Day => 4,
        }
    }

    /// Rollouts that the budget computes ahead of use, a step.
    fn budget(self) -> u64 {
        match self {
            Self::Trace => 8,
            Self::Day => 64,
        }
    }

    fn events(self) -> Outcome<Vec<Happening>> {
        match self {
            Self::Trace => trace(),
            Self::Day => Ok(day()),
        }
    }
}

/// What happens to a buffer.
enum Happening {
    /// Rollouts come in: ids and token counts.
    Put(Vec<(u64, usize)>),
    Use(Vec<u64>),
    Advance,
    Retire(Vec<u64>),
}

/// The recorded run. What lies between the save and the crash happens again after the resume: it is left out.
fn trace() -> Outcome<Vec<Happening>> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/grpo_tiny.jsonl.gz"));
    let mut reader = TraceReader::open(&path)?;
    let (mut happened, mut saved) = (Vec::new(), 0);
    while let Some(line) = reader.next_line()? {
        match line.event {
            Event::Put(put) => {
                let rollout = (put.id, put.completion.len());
                match happened.last_mut() {
                    Some(Happening::Put(puts)) => puts.push(rollout),
                    _ => happened.push(Happening::Put(vec![rollout])),
                }
            }
            Event::Access(access) => happened.push(Happening::Use(access.ids)),
            Event::Version(_) => happened.push(Happening::Advance),
            Event::Evict(evict) => happened.push(Happening::Retire(evict.ids)),
            Event::Save => saved = happened.len(),
            Event::Crash => happened.truncate(saved),
            Event::Header | Event::Generate(_) | Event::Eval | Event::Resume | Event::End => {}
        }
    }
    Ok(happened)
}

fn day() -> Vec<Happening> {
    const STEPS: u64 = 64;
    const ROLLOUTS: u64 = 128;
    const LIFE: u64 = 8;
    let mut happened = Vec::new();
    for step in 0..STEPS {
        let (first, end) = (step * ROLLOUTS, (step + 1) * ROLLOUTS);
        happened.push(Happening::Put((first..end).map(|id| (id, Lengths::LogNormal.of(id))).collect()));
        let oldest = (step + 1).saturating_sub(LIFE) * ROLLOUTS;
        let replayed = (0..ROLLOUTS / 2).map(|at| oldest + below(at ^ step << 32, end - oldest));
        let mut used: Vec<u64> = (first..first + ROLLOUTS / 2).chain(replayed).collect();
        used.sort_unstable();
        used.dedup();
        happened.push(Happening::Use(used));
        happened.push(Happening::Advance);
        if let Some(gone) = (step + 1).checked_sub(LIFE) {
            happened.push(Happening::Retire((gone * ROLLOUTS..(gone + 1) * ROLLOUTS).collect()));
        }
    }
    happened
}

/// What a rule computed, step by step.
#[derive(Default)]
struct Computed {
    forwards: Vec<u64>,
    tokens: Vec<u64>,
}

impl Computed {
    fn add(&mut self, forwards: u64, tokens: u64) {
        for (all, more) in [(&mut self.forwards, forwards), (&mut self.tokens, tokens)] {
            if let Some(last) = all.last_mut() {
                *last += more;
            }
        }
    }

    fn begin_step(&mut self) {
        self.forwards.push(0);
        self.tokens.push(0);
    }
}

pub(super) fn run(policy: Policy, dir: &Path) -> Outcome<Figures> {
    let Policy { source, rule } = policy;
    let bound = source.every() - 1;
    let (window, lag) = if rule == Rule::Window { (bound, u64::MAX) } else { (u64::MAX, bound) };
    let store = RolloutStore::options().window(window).max_version_lag(lag).open(dir.join("store"))?;
    let mut live: HashMap<u64, usize> = HashMap::new();
    let (mut computed, mut step, mut used) = (Computed::default(), 0, 0);
    computed.begin_step();
    for happening in source.events()? {
        match happening {
            Happening::Put(rollouts) => {
                live.extend(rollouts.iter().copied());
                put(&store, step, &rollouts)?;
            }
            Happening::Use(ids) => {
                used += ids.len();
                if rule != Rule::StaticModulo {
                    let ids: Vec<RolloutId> = ids.into_iter().map(RolloutId::new).collect();
                    let served =
                        store.get_or_compute(&ids, step, |work| Ok::<_, Infallible>(forward(work, &mut computed)))?;
                    expect("rollouts served", &served.len(), &ids.len())?;
                }
            }
            Happening::Advance => {
                step += 1;
                computed.begin_step();
                store.advance_ref_version(step, None)?;
                match rule {
                    Rule::StaticModulo if step.is_multiple_of(source.every()) => {
                        computed.add(live.len() as u64, live.values().map(|tokens| *tokens as u64).sum());
                    }
                    Rule::Window => {
                        store.recompute(step, Budget::rollouts(u64::MAX), |work| {
                            Ok::<_, Infallible>(forward(work, &mut computed))
                        })?;
                    }
                    Rule::Budget => {
                        let budget = Budget::rollouts(source.budget());
                        store.recompute(step, budget, |work| Ok::<_, Infallible>(forward(work, &mut computed)))?;
                    }
                    Rule::StaticModulo | Rule::StaleLazy => {}
                }
            }
            Happening::Retire(ids) => {
                live.retain(|id, _| !ids.contains(id));
                let ids: Vec<RolloutId> = ids.into_iter().map(RolloutId::new).collect();
                store.retire(&ids, Reason::Superseded)?;
            }
        }
    }
    expect("live rollouts", &store.len(), &live.len())?;
    if rule != Rule::StaticModulo {
        expect("rollouts computed", &store.stats()?.counters.computed, &computed.forwards.iter().sum())?;
    }
    let mut figures = Figures::default();
    figures.set("rollouts_used", count(used));
    for (name, all) in [("forwards", &computed.forwards), ("tokens", &computed.tokens)] {
        figures.set(name, count(all.iter().sum::<u64>()));
        figures.set(&format!("largest_spike_{name}"), count(all.iter().copied().max().unwrap_or_default()));
        figures.series.insert(name.to_owned(), all.iter().map(|one| count(*one)).collect());
    }
    Ok(figures)
}

fn put(store: &RolloutStore, step: u64, rollouts: &[(u64, usize)]) -> Outcome {
    let longest = rollouts.iter().map(|(_, tokens)| *tokens).max().unwrap_or_default();
    let (tokens, logps, version) = (vec![1_u32; longest], vec![-0.5_f32; longest], store.ref_version());
    let mut batch = store.batch();
    for (id, length) in rollouts {
        let rollout = NewRollout::new(*id, step).completion_ids(&tokens[..*length]);
        batch.insert(rollout.old_logps(&logps[..*length], version))?;
    }
    batch.commit()?;
    Ok(())
}

fn forward(work: &Plan, computed: &mut Computed) -> Results {
    computed.add(work.len() as u64, work.token_count());
    work.rollouts().map(|row| (row.id(), vec![-0.25; row.token_count() as usize])).collect()
}
