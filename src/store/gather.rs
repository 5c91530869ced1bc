//! Many rollouts' columns into one buffer: padded `[B, T]`, or flat with offsets.
//!
//! Always true:
//! - A1. Every value is checked before the first byte of the caller's buffer changes.
//! - A2. Nothing that is absent or, unless allowed, stale is served; padding is never taken for a value.

use crate::error::{Error, Result};
use crate::format::dtype::Element;
use crate::ids::RolloutId;
use crate::store::RolloutStore;
use crate::store::column::{Ask, Column};
use crate::store::snapshot::Snapshot;
use crate::store::view::Rollout;

/// What [`RolloutStore::gather`] does with old logps that are not fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// Refuse, and name them.
    Error,
    /// Serve them as they are. Missing ones are refused all the same: there is nothing to serve.
    Allow,
}

/// On which side of a row its padding goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadSide {
    /// Before the values, as for prompts.
    Left,
    /// Behind the values, as for completions.
    Right,
}

/// A buffer that [`RolloutStore::gather`] fills.
pub trait GatherInto {
    /// The type of the values; the column must hold just this type.
    type Value: Element;

    /// Refuses rows that do not fit, before anything is written. `lens` are the rows' numbers of values.
    ///
    /// # Errors
    /// `Invalid` where they do not fit.
    fn begin(&mut self, lens: &[usize]) -> Result<()>;

    /// Takes the next row.
    fn push(&mut self, values: &[Self::Value]);
}

/// The caller's `[B, T]` buffer, row by row, padded.
///
/// # How do I fill a padded tensor?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{Column, NewRollout, Padded, RolloutStore, Stale};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5, -0.25][..], 0))?;
/// store.insert(NewRollout::new(2, 100).old_logps(&[-1.0][..], 0))?;
/// let mut tensor = vec![0.0; 2 * 3];
/// let mut padded = Padded::new(&mut tensor, 3, 0.0);
/// store.gather(&[1.into(), 2.into()], Column::OldLogps, 100, Stale::Error, &mut padded)?;
/// assert_eq!(padded.lens(), [2, 1]);
/// assert_eq!(tensor, [-0.5, -0.25, 0.0, -1.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Padded<'a, T> {
    out: &'a mut [T],
    row_len: usize,
    pad: T,
    side: PadSide,
    lens: Vec<usize>,
}

impl<'a, T: Element> Padded<'a, T> {
    /// Rows of `row_len` values in `out`, filled up with `pad` on the right.
    pub fn new(out: &'a mut [T], row_len: usize, pad: T) -> Self {
        Self { out, row_len, pad, side: PadSide::Right, lens: Vec::new() }
    }

    /// Pads on this side instead.
    #[must_use]
    pub fn side(mut self, side: PadSide) -> Self {
        self.side = side;
        self
    }

    /// The number of values in each row.
    #[must_use]
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }
}

impl<T: Element> GatherInto for Padded<'_, T> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        let (rows, row_len, len) = (lens.len(), self.row_len, self.out.len());
        if rows.checked_mul(row_len) != Some(len) {
            return Err(Error::invalid(format!(
                "the buffer has {len} values, {rows} rows of {row_len} need another number"
            )));
        }
        if let Some((index, longest)) = lens.iter().enumerate().find(|(_, values)| **values > row_len) {
            return Err(Error::invalid(format!(
                "row {index} has {longest} values, the buffer's rows hold {row_len}; none is cut"
            )));
        }
        self.lens.clear();
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        let start = self.lens.len() * self.row_len;
        self.lens.push(values.len());
        let Some(row) = self.out.get_mut(start..start + self.row_len) else { return };
        let padding = row.len() - values.len();
        let (padded, filled) = match self.side {
            PadSide::Left => row.split_at_mut(padding),
            PadSide::Right => {
                let (filled, padded) = row.split_at_mut(values.len());
                (padded, filled)
            }
        };
        padded.fill(self.pad);
        filled.copy_from_slice(values);
    }
}

/// All rows behind each other, with the offsets where they begin: `cu_seqlens[i]..cu_seqlens[i + 1]` is row `i`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flat<T> {
    /// The values of all rows.
    pub values: Vec<T>,
    /// Offsets, one more than there are rows, from 0.
    pub cu_seqlens: Vec<u64>,
}

impl<T> Default for Flat<T> {
    fn default() -> Self {
        Self { values: Vec::new(), cu_seqlens: vec![0] }
    }
}

impl<T: Element> GatherInto for Flat<T> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        *self = Self::default();
        self.values.reserve(lens.iter().sum());
        self.cu_seqlens.reserve(lens.len());
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
        self.cu_seqlens.push(self.values.len() as u64);
    }
}

impl RolloutStore {
    /// Copies one column of these rollouts into one buffer, in the order given.
    ///
    /// # Errors
    /// As for [`RolloutStore::with_rows`], and `Invalid` for rows that do not fit. The buffer is unchanged then.
    pub fn gather<G: GatherInto>(
        &self,
        ids: &[RolloutId],
        ask: impl Into<Ask>,
        step: u64,
        stale: Stale,
        out: &mut G,
    ) -> Result<()> {
        self.with_rows(ids, ask, step, stale, |rows| fill(out, rows))
    }

    /// Calls `read` with one column of these rollouts, a slice each, in the order given: read where they lie, nothing is
    /// copied. The fastest way to many arrays.
    ///
    /// # How do I look at a minibatch without copying it?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{Column, NewRollout, RolloutStore, Stale};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5, -0.25][..], 0))?;
    /// store.insert(NewRollout::new(2, 100).old_logps(&[-1.0][..], 0))?;
    /// let sum = store.with_rows(&[2.into(), 1.into()], Column::OldLogps, 100, Stale::Error, |rows: &[&[f32]]| {
    ///     assert_eq!(rows, [&[-1.0][..], &[-0.5, -0.25]]);
    ///     Ok(rows.iter().copied().flatten().sum::<f32>())
    /// })?;
    /// assert_eq!(sum, -1.75);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an id that is not live or has no such column; `Invalid` for old logps that are not fresh at `step`
    /// (with [`Stale::Error`]), KL reference log-probs of an older version, another type, or another kind of log-probs than
    /// asked for; `Damaged`, `Io`; what `read` returns.
    pub fn with_rows<T: Element, R>(
        &self,
        ids: &[RolloutId],
        ask: impl Into<Ask>,
        step: u64,
        stale: Stale,
        read: impl FnOnce(&[&[T]]) -> Result<R>,
    ) -> Result<R> {
        let ask = ask.into();
        if let Some(known) = self.known_rows(ids, &ask, step, stale)?
            && let Some(rows) = known.values()
        {
            let result = read(&rows)?;
            drop(rows);
            self.core.asked(ids.len() as u64, known.fresh, known.first_time);
            return Ok(result);
        }
        let (snapshots, kl_version) = {
            self.core.check_open()?;
            let published = self.core.published.read();
            (Snapshot::of_all(&published, ids)?, published.state.kl_clock.current)
        };
        let first_time = snapshots.iter().filter_map(Snapshot::first_time).collect();
        let rollouts: Vec<Rollout> =
            snapshots.into_iter().map(|snapshot| snapshot.open(&self.core.rules)).collect::<Result<_>>()?;
        if stale == Stale::Error {
            rollouts.iter().try_for_each(|rollout| check_fresh(rollout, &ask.column, step, kl_version))?;
        }
        let rows: Vec<&[T]> = rollouts.iter().map(|rollout| rollout.get(ask.clone())).collect::<Result<_>>()?;
        let result = read(&rows)?;
        let fresh = rollouts.iter().filter(|rollout| rollout.staleness(step).is_fresh()).count() as u64;
        let fresh = if ask.column == Column::OldLogps { fresh } else { ids.len() as u64 };
        self.core.asked(ids.len() as u64, fresh, first_time);
        Ok(result)
    }
}

fn fill<G: GatherInto>(out: &mut G, rows: &[&[G::Value]]) -> Result<()> {
    let lens: Vec<usize> = rows.iter().map(|values| values.len()).collect();
    out.begin(&lens)?;
    rows.iter().for_each(|values| out.push(values));
    Ok(())
}

fn check_fresh(rollout: &Rollout, column: &Column, step: u64, kl_version: u64) -> Result<()> {
    let id = rollout.id();
    match column {
        Column::OldLogps => {
            let staleness = rollout.staleness(step);
            if staleness.missing {
                return rollout.old_logps().map(|_| ());
            }
            if staleness.from_future {
                let born = rollout.born_step();
                return Err(Error::invalid(format!(
                    "rollout {id}: old_logps were born at step {born}, ahead of step {step}; is {step} the trainer's step?"
                ))
                .of(id));
            }
            if !staleness.is_fresh() {
                let (age, version) = (staleness.age, rollout.ref_version());
                return Err(Error::invalid(format!(
                    "rollout {id}: old_logps of version {version} and age {age} are not fresh at step {step}; compute them \
                     (plan_for), or gather with stale ones allowed"
                ))
                .of(id));
            }
        }
        Column::KlRefLogps => {
            let info = rollout.columns().into_iter().find(|info| info.column == Column::KlRefLogps);
            if let Some(version) = info.and_then(|info| info.version).filter(|version| *version != kl_version) {
                return Err(Error::invalid(format!(
                    "rollout {id}: kl_ref_logps are of version {version}, the current one is {kl_version}; compute them \
                     (plan_kl_ref_for), or gather with stale ones allowed"
                ))
                .of(id));
            }
        }
        _ => {}
    }
    Ok(())
}
