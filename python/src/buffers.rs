//! The buffers that a gather fills: a new one as wide as the longest row, the caller's, or rows behind each other.
//!
//! Always true:
//! - G1. A value is widened where the buffer's type holds every value of the column's, and never narrowed.

use std::marker::PhantomData;

use rollstore::{Element, Error, GatherInto, Result};

/// A new `[rows, row_len]` buffer, as wide as the longest row.
#[derive(Debug, Default)]
pub(crate) struct Grown<O> {
    pub(crate) values: Vec<O>,
    pub(crate) row_len: usize,
    pub(crate) lens: Vec<usize>,
    pad: O,
    left: bool,
}

impl<O: Copy> Grown<O> {
    pub(crate) fn new(pad: O, left: bool) -> Self {
        Self { values: Vec::new(), row_len: 0, lens: Vec::new(), pad, left }
    }

    /// The buffer of these rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a [O]> + Clone, pad: O, left: bool) -> Self
    where
        O: 'a,
    {
        let mut grown = Self::new(pad, left);
        let lens: Vec<usize> = rows.clone().map(<[O]>::len).collect();
        grown.widen(&lens);
        rows.for_each(|row| grown.put(row));
        grown
    }

    fn widen(&mut self, lens: &[usize]) {
        self.row_len = lens.iter().copied().max().unwrap_or_default();
        self.lens = Vec::with_capacity(lens.len());
        self.values = vec![self.pad; self.row_len * lens.len()];
    }

    fn put<T: Copy>(&mut self, values: &[T])
    where
        O: From<T>,
    {
        fill(&mut self.values, self.row_len, self.lens.len(), self.pad, self.left, values);
        self.lens.push(values.len());
    }
}

/// Fills row `row` of a buffer: values at one side, `pad` at the other.
fn fill<T: Copy, O: From<T> + Copy>(out: &mut [O], row_len: usize, row: usize, pad: O, left: bool, values: &[T]) {
    let Some(row) = out.get_mut(row * row_len..(row + 1) * row_len) else { return };
    let padding = row_len.saturating_sub(values.len());
    let (padded, filled) = if left {
        row.split_at_mut(padding)
    } else {
        let (filled, padded) = row.split_at_mut(row_len - padding);
        (padded, filled)
    };
    padded.fill(pad);
    filled.iter_mut().zip(values).for_each(|(to, from)| *to = O::from(*from));
}

/// What takes values of type `T`: a new buffer of `O`.
pub(crate) struct IntoGrown<T, O>(pub(crate) Grown<O>, pub(crate) PhantomData<T>);

impl<T: Element, O: From<T> + Copy> GatherInto for IntoGrown<T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        self.0.widen(lens);
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        self.0.put(values);
    }
}

/// What takes values of type `T`: the caller's buffer of `O`.
pub(crate) struct IntoGiven<'a, T, O> {
    pub(crate) out: &'a mut [O],
    pub(crate) row_len: usize,
    pub(crate) pad: O,
    pub(crate) left: bool,
    pub(crate) lens: Vec<usize>,
    pub(crate) of: PhantomData<T>,
}

impl<T: Element, O: From<T> + Copy> GatherInto for IntoGiven<'_, T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        let (rows, row_len, held) = (lens.len(), self.row_len, self.out.len());
        if rows.checked_mul(row_len) != Some(held) {
            return Err(Error::invalid(format!(
                "out holds {held} values, {rows} rows of {row_len} need another number"
            )));
        }
        if let Some((row, len)) = lens.iter().enumerate().find(|(_, len)| **len > row_len) {
            return Err(Error::invalid(format!("row {row} has {len} values, out holds {row_len} a row; none is cut")));
        }
        self.lens = Vec::with_capacity(lens.len());
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        fill(self.out, self.row_len, self.lens.len(), self.pad, self.left, values);
        self.lens.push(values.len());
    }
}

/// What takes values of type `T`: a new buffer of `O` without padding.
pub(crate) struct IntoEnds<T, O> {
    pub(crate) values: Vec<O>,
    pub(crate) ends: Vec<u64>,
    of: PhantomData<T>,
}

impl<T, O> Default for IntoEnds<T, O> {
    fn default() -> Self {
        Self { values: Vec::new(), ends: vec![0], of: PhantomData }
    }
}

impl<T: Element, O: From<T>> GatherInto for IntoEnds<T, O> {
    type Value = T;

    fn begin(&mut self, lens: &[usize]) -> Result<()> {
        self.values = Vec::with_capacity(lens.iter().sum());
        Ok(())
    }

    fn push(&mut self, values: &[T]) {
        self.values.extend(values.iter().map(|value| O::from(*value)));
        self.ends.push(self.values.len() as u64);
    }
}
