//! The column directory of a rollout's descriptor, read by itself.
//!
//! A warm read of one array needs 16 bytes of a descriptor that was checked as a whole before: going through the archive
//! again for each read costs more than the read. May touch `rollout`, whose layout this is.
//!
//! Always true:
//! - D1. Of bytes that [`super::rollout_meta`] accepted, every answer is the archive's own. Of other bytes the answer may
//!   be anything but a panic.

use std::mem::offset_of;

use super::columns::{ArchivedColumnMeta, ColumnMeta};
use super::rollout::{ArchivedRolloutMeta, ColumnCode, ColumnRef, column_ref};

const ENTRY_BYTES: usize = size_of::<ArchivedColumnMeta>();

/// The number of columns.
pub(crate) fn len(meta: &[u8]) -> usize {
    entries(meta).map_or(0, <[_]>::len)
}

/// A column and its place among the columns; `None` where it is not there.
pub(crate) fn find(meta: &[u8], code: ColumnCode) -> Option<(usize, ColumnRef)> {
    let mut columns = entries(meta)?.iter().map(ColumnMeta::of_bytes).enumerate();
    let (place, column) = columns.find(|(_, column)| column.column == code.0)?;
    Some((place, column_ref(&column)?))
}

/// The entries of the directory. The root is at the archive's end; its vector of columns is a signed distance from itself
/// to the first entry, and their number.
fn entries(meta: &[u8]) -> Option<&[[u8; ENTRY_BYTES]]> {
    let root = meta.len().checked_sub(size_of::<ArchivedRolloutMeta>())?;
    let vector = root.checked_add(offset_of!(ArchivedRolloutMeta, columns))?;
    let (distance, rest) = meta.get(vector..)?.split_first_chunk()?;
    let (distance, count) = (i32::from_le_bytes(*distance), u32::from_le_bytes(*rest.first_chunk()?));
    let first = vector.checked_add_signed(isize::try_from(distance).ok()?)?;
    let (entries, _) = meta.get(first..)?.as_chunks();
    entries.get(..usize::try_from(count).ok()?)
}
