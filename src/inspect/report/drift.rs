//! How far the trainer's old log-probs are from the sampler's: over all live rollouts, and token by token of the worst.
//!
//! Always true:
//! - W1. A difference is `old - sampler` of one completion token that the loss mask leaves in, in nats, as an f32.
//! - W2. One rollout is read at a time; of the worst alone the tokens are kept, and of those so many at most.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::Serialize;

use super::buffer::Count;
use super::histogram::{Bins, Histogram};
use super::json;
use crate::error::{ErrorKind, Result};
use crate::format::entry::Has;
use crate::format::meta::{ArchivedRolloutMeta, ColumnCode, RolloutMeta};
use crate::ids::RolloutId;
use crate::index::Entry;
use crate::inspect::content;
use crate::inspect::verify::Finding;
use crate::log::frame::Frame;
use crate::recovery::Recovered;

/// Rollouts that are told token by token.
pub const WORST_ROLLOUTS: usize = 10;
/// Tokens that are told of each: those around the one that differs most.
pub const WORST_TOKENS: usize = 256;

/// Bins of differences.
const BINS: u32 = 64;
/// Parts of a nat that the finest bins are wide.
const PARTS: f64 = 65_536.0;

/// How far old log-probs are from the sampler's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Live rollouts that have both.
    pub rollouts: u64,
    /// Live rollouts that lack one of them.
    pub without: u64,
    /// Tokens with a finite difference.
    pub tokens: u64,
    /// Tokens that the loss mask leaves out.
    pub masked: u64,
    /// Tokens for which the sampler reported nothing (NaN).
    pub not_reported: u64,
    /// Tokens whose difference is infinite: the sampler gave them no probability at all.
    pub infinite: u64,
    /// The mean of the finite differences, in nats; `None` without any.
    pub mean: Option<f64>,
    /// The mean of their absolute values, in nats.
    pub mean_absolute: Option<f64>,
    /// The finite differences, in nats. A bin's rollouts are not told apart.
    pub differences: Histogram<f64, Count>,
    /// The rollouts with the greatest absolute difference of a token, the greatest first; among equals by id.
    pub worst: Vec<WorstRollout>,
}

/// One of the worst rollouts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstRollout {
    /// The rollout. A string in JSON, since many readers keep 53 bits of a number.
    #[serde(serialize_with = "json::as_text")]
    pub id: RolloutId,
    /// The string that its number is the hash of, where it has one.
    pub key: Option<String>,
    /// The step from which its old log-probs count as fresh.
    pub born_step: u64,
    /// The version of its old log-probs.
    pub ref_version: u64,
    /// The place of the token that differs most, among its completion tokens.
    pub at: usize,
    /// The difference of that token, in nats.
    #[serde(serialize_with = "json::float")]
    pub difference: f32,
    /// Its completion tokens.
    pub token_count: usize,
    /// The place of the first token of the columns below: they hold [`WORST_TOKENS`] at most.
    pub first: usize,
    /// Token ids; empty where it has none.
    pub token_ids: Vec<u32>,
    /// The trainer's log-probs.
    #[serde(serialize_with = "json::floats")]
    pub old_logps: Vec<f32>,
    /// The sampler's; NaN where it reported none.
    #[serde(serialize_with = "json::floats")]
    pub sampler_logps: Vec<f32>,
    /// `old - sampler`.
    #[serde(serialize_with = "json::floats")]
    pub differences: Vec<f32>,
    /// `exp(old - sampler)`: the importance ratio that corrects for the sampler.
    #[serde(serialize_with = "json::floats")]
    pub ratios: Vec<f32>,
    /// The loss mask; empty where it has none.
    pub loss_mask: Vec<u8>,
}

impl Drift {
    /// Reads both columns of every live rollout. Damaged ones go to `damage`.
    pub(super) fn of(store: &Recovered, damage: &mut Vec<Finding>) -> Result<Self> {
        let mut sums = Sums::default();
        let mut differences = Bins::new(BINS);
        let mut worst: BinaryHeap<Ranked> = BinaryHeap::new();
        for entry in store.index.iter() {
            if !entry.has.contains(Has::OLD.with(Has::SAMPLER)) {
                sums.without += 1;
                continue;
            }
            let Some(frames) = sound(Frames::open(store, entry), damage)? else { continue };
            let Some(columns) = sound(frames.columns(), damage)? else { continue };
            sums.rollouts += 1;
            if let Some((at, difference)) = sums.add(&columns, &mut differences) {
                worst.push(Ranked { entry, at, difference });
                // The top of the heap is the least bad one.
                if worst.len() > WORST_ROLLOUTS {
                    worst.pop();
                }
            }
        }
        let mut told = Vec::new();
        for ranked in worst.into_sorted_vec() {
            let rollout = Frames::open(store, ranked.entry).and_then(|frames| frames.tell(&ranked));
            told.extend(sound(rollout, damage)?);
        }
        Ok(sums.finish(differences, told))
    }
}

/// The value, or `None` for damage, which is noted.
fn sound<T>(read: Result<T>, damage: &mut Vec<Finding>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Damaged => {
            damage.push(Finding::of(error)?);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[derive(Default)]
struct Sums {
    rollouts: u64,
    without: u64,
    tokens: u64,
    masked: u64,
    not_reported: u64,
    infinite: u64,
    sum: f64,
    absolute: f64,
}

impl Sums {
    /// Adds one rollout; gives its greatest difference with its place, where it has any.
    fn add(&mut self, columns: &Columns<'_>, bins: &mut Bins<Count>) -> Option<(usize, f32)> {
        let mut greatest: Option<(usize, f32)> = None;
        for (at, (old, sampler)) in columns.old.iter().zip(columns.sampler).enumerate() {
            if columns.mask.get(at).is_some_and(|mask| *mask == 0) {
                self.masked += 1;
                continue;
            }
            let difference = old - sampler;
            if difference.is_nan() {
                self.not_reported += 1;
                continue;
            }
            if greatest.is_none_or(|(_, found)| difference.abs() > found.abs()) {
                greatest = Some((at, difference));
            }
            if difference.is_infinite() {
                self.infinite += 1;
                continue;
            }
            let nats = f64::from(difference);
            self.tokens += 1;
            self.sum += nats;
            self.absolute += nats.abs();
            #[expect(clippy::cast_possible_truncation, reason = "a cast to i64 takes the nearest that there is")]
            bins.add((nats * PARTS).floor() as i64, Count { count: 1 });
        }
        greatest
    }

    fn finish(self, differences: Bins<Count>, worst: Vec<WorstRollout>) -> Drift {
        let Self { rollouts, without, tokens, masked, not_reported, infinite, sum, absolute } = self;
        #[expect(clippy::cast_precision_loss, reason = "a mean over 2^52 tokens is not exact")]
        let mean = |sum: f64| (tokens > 0).then(|| sum / tokens as f64);
        Drift {
            rollouts,
            without,
            tokens,
            masked,
            not_reported,
            infinite,
            mean: mean(sum),
            mean_absolute: mean(absolute),
            differences: differences.parts(PARTS),
            worst,
        }
    }
}

/// A rollout by its greatest difference: the greatest compares as the least, so that it leaves a heap last.
struct Ranked {
    entry: Entry,
    at: usize,
    difference: f32,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_difference = other.difference.abs().total_cmp(&self.difference.abs());
        by_difference.then(self.entry.id.cmp(&other.entry.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// The frames of a rollout that has both columns.
struct Frames {
    entry: Entry,
    insert: Frame,
    /// The frame with the old log-probs, where that is another one.
    old: Option<Frame>,
}

struct Columns<'a> {
    old: &'a [f32],
    sampler: &'a [f32],
    /// Empty where it has none.
    mask: &'a [u8],
}

impl Frames {
    fn open(store: &Recovered, entry: Entry) -> Result<Self> {
        let insert = content::frame(store, entry.insert, entry.id, entry.insert_lsn)?;
        let is_newer = entry.old != entry.insert;
        let old = is_newer.then(|| content::frame(store, entry.old, entry.id, entry.old_lsn)).transpose()?;
        old.as_ref().unwrap_or(&insert).check_version(entry.ref_version)?;
        Ok(Self { entry, insert, old })
    }

    fn columns(&self) -> Result<Columns<'_>> {
        let old = self.old.as_ref().unwrap_or(&self.insert);
        Ok(Columns {
            old: values(old, ColumnCode::OLD_LOGPS)?,
            sampler: values(&self.insert, ColumnCode::SAMPLER_LOGPS)?,
            mask: values(&self.insert, ColumnCode::LOSS_MASK)?,
        })
    }

    fn tell(&self, ranked: &Ranked) -> Result<WorstRollout> {
        let Columns { old, sampler, mask } = self.columns()?;
        let first = ranked.at.saturating_sub(WORST_TOKENS / 2).min(old.len().saturating_sub(WORST_TOKENS));
        let (old_logps, sampler_logps) = (window(old, first), window(sampler, first));
        let differences: Vec<f32> = old_logps.iter().zip(&sampler_logps).map(|(old, sampler)| old - sampler).collect();
        let meta: &ArchivedRolloutMeta = self.insert.meta()?;
        Ok(WorstRollout {
            id: self.entry.id,
            key: meta.has(RolloutMeta::KEY).then(|| meta.key.as_str().to_owned()),
            born_step: self.entry.born_step,
            ref_version: self.entry.ref_version,
            at: ranked.at,
            difference: ranked.difference,
            token_count: old.len(),
            first,
            token_ids: window(values(&self.insert, ColumnCode::COMPLETION_IDS)?, first),
            ratios: differences.iter().map(|difference| difference.exp()).collect(),
            loss_mask: window(mask, first),
            old_logps,
            sampler_logps,
            differences,
        })
    }
}

/// A column's values; empty where the frame has none of this type.
fn values<T: bytemuck::Pod>(frame: &Frame, code: ColumnCode) -> Result<&[T]> {
    let Some(column) = frame.column(code) else { return Ok(&[]) };
    Ok(bytemuck::try_cast_slice(frame.read(&column)?.bytes).unwrap_or_default())
}

fn window<T: Clone>(values: &[T], first: usize) -> Vec<T> {
    values.iter().skip(first).take(WORST_TOKENS).cloned().collect()
}
