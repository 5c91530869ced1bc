//! Reading every row: from redb and checked on the caller's thread, into the tables in memory on another.
//!
//! A page's guards are atomic, and each waits for the stores before it, which miss every cache while the tables are filled:
//! taken in turns, row by row, either half costs the other a multiple of its own time.
//!
//! Always true:
//! - L1. A row is put only once it was checked, and an index is returned only once all rows add up.

use std::sync::mpsc::sync_channel;
use std::thread;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::{Expected, ROLLOUTS, check_row};
use crate::index::guard::{Failure, reject};
use crate::index::memory::MemoryIndex;
use crate::index::meta::{IndexMeta, Totals};
use crate::index::row::Row;

/// Rows that are handed on at a time: about 128 KiB, which stay in the cache of a core.
const BLOCK_ROWS: usize = 512;

/// Blocks that wait for the thread that puts them.
const BLOCKS_WAITING: usize = 4;

/// Fewer rows are put where they are read: a thread would cost more than it brings.
const THREAD_ROWS_MIN: u64 = 1 << 14;

/// Rows that memory is made for before they are read: a number from disk costs no more than this, 80 MiB.
const RESERVED_ROWS_MAX: usize = 1 << 24;

/// Reads the rows, which must add up to `stated`.
pub(super) fn read(
    db: &Database,
    meta: &IndexMeta,
    stated: Totals,
    expected: &Expected<'_>,
) -> Result<MemoryIndex, Failure> {
    let mut index = MemoryIndex::default();
    meta.pieces.iter().for_each(|(segment, piece)| index.apply(*segment, piece));
    index.reserve(usize::try_from(stated.rows).map_or(0, |rows| rows.min(RESERVED_ROWS_MAX)));
    let read =
        |put: &mut dyn FnMut(Vec<Row>)| for_each_block(db, stated, |row, key| check_row(row, key, meta, expected), put);
    if stated.rows < THREAD_ROWS_MIN {
        read(&mut |rows| rows.iter().for_each(|row| index.load(row)))?;
        return Ok(index);
    }
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Vec<Row>>(BLOCKS_WAITING);
        let filling = scope.spawn(move || {
            receiver.iter().flatten().for_each(|row| index.load(&row));
            index
        });
        // Nobody receives any more only where the thread panicked, which `join` tells.
        let done = read(&mut |rows| drop(sender.send(rows)));
        drop(sender);
        let filled = filling.join().map_err(|_| Failure::Panicked("the rows could not be put".to_owned()));
        done.and(filled)
    })
}

/// Calls `put` with all rows in the order of their ids, each checked by itself; the last ones once all add up.
fn for_each_block(
    db: &Database,
    stated: Totals,
    check: impl Fn(&Row, u64) -> Result<(), Failure>,
    put: &mut dyn FnMut(Vec<Row>),
) -> Result<(), Failure> {
    let transaction = db.begin_read()?;
    let mut totals = Totals::default();
    let mut last = None;
    let mut block = Vec::with_capacity(BLOCK_ROWS);
    for stored in transaction.open_table(ROLLOUTS)?.iter()? {
        let (key, value) = stored?;
        let (key, value) = (key.value(), value.value());
        let row = Row::decode(value).map_err(|what| reject(format!("row {key}: {what}")))?;
        check(&row, key)?;
        if last.replace(key) >= Some(key) {
            return Err(reject(format!("rollout {key} stands out of order")));
        }
        totals.add(value);
        if totals.rows > stated.rows {
            break;
        }
        block.push(row);
        if block.len() == BLOCK_ROWS {
            put(std::mem::replace(&mut block, Vec::with_capacity(BLOCK_ROWS)));
        }
    }
    if totals != stated {
        let (rows, digest) = (totals.rows, totals.digest);
        return Err(reject(format!(
            "{rows} rows with digest {digest:#018x}, meta record says {} with {:#018x}",
            stated.rows, stated.digest
        )));
    }
    put(block);
    Ok(())
}
