//! The limit: bytes appended to one file, a sync a batch, a table in memory. No checksum, no name, no way back after a crash.

#![expect(clippy::disallowed_types, reason = "the plain file that stores are held against goes past the store's disk")]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::Mmap;

use super::{Kind, Opened, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "raw",
    settings: "one file; writev of the values alone, 512 KiB a call, and fdatasync a batch; reads through a memory map by a table in \
               memory; no checksum, no index, no recovery: the limit, not a store",
    scope: Scope::WritesAndReads,
    one_in: 1,
    open,
};

/// A longer write gets folios of 2 MiB in the page cache. Those are what a virtual machine gives back to its host while they are
/// free: their memory is had back page by page, at several times the time of the copy.
const PORTION_BYTES: usize = 512 << 10;

type Table = Arc<Mutex<HashMap<u64, (usize, usize)>>>;

struct Raw {
    file: Arc<File>,
    end: usize,
    table: Table,
}

struct RawReader {
    file: Arc<File>,
    map: Mmap,
    table: HashMap<u64, (usize, usize)>,
}

fn open(dir: &Path) -> Opened {
    let file = OpenOptions::new().create(true).append(true).read(true).open(dir.join("raw"))?;
    let end = usize::try_from(file.metadata()?.len())?;
    Ok(Box::new(Raw { file: Arc::new(file), end, table: Table::default() }))
}

/// How many of these buffers go into one call: as many as the kernel takes, and about [`PORTION_BYTES`].
fn portion(buffers: &[IoSlice<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |buffer: &&IoSlice<'_>| {
        bytes += buffer.len();
        bytes <= PORTION_BYTES
    };
    buffers.iter().take(1024).take_while(fits).count().max(1)
}

impl Peer for Raw {
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome {
        let mut slices: Vec<IoSlice<'_>> =
            batch.iter().map(|record| IoSlice::new(bytemuck::cast_slice(record.values))).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let written = (&*self.file).write_vectored(&rest[..portion(rest)])?;
            IoSlice::advance_slices(&mut rest, written);
        }
        self.file.sync_data()?;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        for record in batch {
            let length = size_of_val(record.values);
            table.insert(record.id, (self.end, length));
            self.end += length;
        }
        Ok(())
    }

    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.insert(batch)
    }

    fn stale(&self, _version_below: u64) -> Outcome<Vec<u64>> {
        Err("a raw file has no index".into())
    }

    fn out_of_window(&self, _born_below: u64) -> Outcome<Vec<u64>> {
        Err("a raw file has no index".into())
    }

    fn delete(&mut self, _ids: &[u64]) -> Outcome {
        Err("a raw file has no deletes".into())
    }

    fn reclaim(&mut self) -> Outcome {
        Err("a raw file has no deletes".into())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let map = map(&self.file)?;
        Ok(Box::new(RawReader { file: Arc::clone(&self.file), map, table }))
    }

    fn close(self: Box<Self>) -> Outcome {
        Ok(self.file.sync_all()?)
    }
}

#[expect(unsafe_code, reason = "a memory map")]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file lies in a directory of this run's own and is only ever appended to: what is mapped never changes.
    unsafe { Mmap::map(file) }
}

impl Reader for RawReader {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for id in ids {
            let Some((start, length)) = self.table.get(id).copied() else { continue };
            if start + length > self.map.len() {
                self.map = map(&self.file)?;
            }
            each(*id, &self.map[start..start + length]);
        }
        Ok(())
    }
}
