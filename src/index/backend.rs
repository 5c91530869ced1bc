//! What redb writes through: a file of the disk layer, or such a file under a cover that keeps all that was seen in memory.
//!
//! May touch `disk` and redb's `StorageBackend`. Knows nothing of tables or rows.
//!
//! Always true:
//! - B1. A covered file is read and never written: redb may repair what it sees, and the file stays as it was.
//! - B2. Lengths that redb takes from a damaged file cost no memory: blocks are made as they are used.
//! - B3. A covered file stays as it was first read, though a writer uses its pages again meanwhile: what redb checked when it opened
//!   is what it reads later.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use redb::{BackendError, StorageBackend};

use super::hash::BuildIdHasher;
use crate::disk::DiskFile;
use crate::sync::{Mutex, PORTION_BYTES, Pace};

const BLOCK_BYTES: usize = 4096;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// A file that redb reads and writes.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: Arc<dyn DiskFile>,
    pace: Arc<Pace>,
    /// Bytes of the portion under way.
    portion: AtomicU64,
}

impl OpenFile {
    pub(super) fn new(file: Arc<dyn DiskFile>, pace: &Arc<Pace>) -> Self {
        Self { file, pace: Arc::clone(pace), portion: AtomicU64::new(0) }
    }
}

impl StorageBackend for OpenFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_vectored_at(&mut [IoSlice::new(data)], offset)?;
        if self.portion.fetch_add(data.len() as u64, Ordering::Relaxed) < PORTION_BYTES {
            return Ok(());
        }
        self.portion.store(0, Ordering::Relaxed);
        let began = Instant::now();
        self.file.write_out(0..self.file.len()?)?;
        self.pace.rest_after(began.elapsed());
        Ok(())
    }

    // The store's own lock keeps a second writer out: a lock of the whole file is had at once, others are not needed.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole_storage(start, end).map(|()| true)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole_storage(start, end)
    }
}

/// A file under a cover: what redb has read or written stays in memory, and ends with it.
#[derive(Debug)]
pub(super) struct CoveredFile {
    file: Arc<dyn DiskFile>,
    cover: Mutex<Cover>,
}

#[derive(Debug)]
struct Cover {
    len: u64,
    /// Bytes of the file that are still seen: fewer after redb cut it.
    file_len: u64,
    /// Whole blocks that were read or written, by number.
    blocks: HashMap<u64, Box<[u8]>, BuildIdHasher>,
}

impl CoveredFile {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, cover: Mutex::new(Cover { len, file_len: len, blocks: HashMap::default() }) })
    }
}

impl Cover {
    /// The bytes at an offset as the file has them, with zeros beyond its end.
    fn read_file(&self, file: &dyn DiskFile, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let seen = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (seen, beyond) = out.split_at_mut(seen);
        beyond.fill(0);
        if seen.is_empty() { Ok(()) } else { file.read_exact_at(seen, offset) }
    }

    /// A block, read from the file where it was not used before.
    fn block(&mut self, file: &dyn DiskFile, number: u64) -> io::Result<&mut [u8]> {
        if !self.blocks.contains_key(&number) {
            let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.read_file(file, number * BLOCK, &mut bytes)?;
            self.blocks.insert(number, bytes);
        }
        self.blocks.get_mut(&number).map(|bytes| &mut **bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_range(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        end.map(|_| ()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Calls `each` with a block number, the place in that block, and the place in the buffer, for a buffer at an offset.
fn for_each_block(
    offset: u64,
    len: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>) -> io::Result<()>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let start = usize::try_from(at % BLOCK).map_err(io::Error::other)?;
        let step = (BLOCK_BYTES - start).min(len - done);
        each(at / BLOCK, start..start + step, done..done + step)?;
        done += step;
    }
    Ok(())
}

impl StorageBackend for CoveredFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.cover.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut cover = self.cover.lock();
        cover.check_range(offset, out.len())?;
        for_each_block(offset, out.len(), |number, from, to| {
            out[to].copy_from_slice(&cover.block(&*self.file, number)?[from]);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut cover = self.cover.lock();
        cover.file_len = cover.file_len.min(len);
        cover.len = len;
        cover.blocks.retain(|block, _| block * BLOCK < len);
        // What was cut off inside the last block must read as zeros if the file grows again.
        if let Some(bytes) = cover.blocks.get_mut(&(len / BLOCK)) {
            bytes[usize::try_from(len % BLOCK).map_err(io::Error::other)?..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut cover = self.cover.lock();
        cover.check_range(offset, data.len())?;
        for_each_block(offset, data.len(), |number, to, from| {
            cover.block(&*self.file, number)?[to].copy_from_slice(&data[from]);
            Ok(())
        })
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole_storage(start, end).map(|()| true)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole_storage(start, end)
    }
}

fn whole_storage(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
    match (start, end) {
        (Bound::Unbounded | Bound::Included(0), Bound::Unbounded) => Ok(()),
        _ => Err(BackendError::Unsupported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::MemoryFile;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        Write(u64, Vec<u8>),
        SetLen(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..9000);
        let op = prop_oneof![
            (0_u64..20_000, bytes).prop_map(|(at, data)| Op::Write(at, data)),
            (0_u64..30_000).prop_map(Op::SetLen)
        ];
        prop::collection::vec(op, 0..12)
    }

    #[test]
    fn b3_what_was_read_once_stays_as_it_was() {
        let file = MemoryFile::with(vec![1; 3 * BLOCK_BYTES]);
        let covered = CoveredFile::new(Arc::clone(&file) as Arc<dyn DiskFile>).unwrap();
        let seen = |offset: u64| {
            let mut out = [0; 8];
            covered.read(offset, &mut out).unwrap();
            out
        };
        assert_eq!(seen(BLOCK - 4), [1; 8], "the end of one block and the start of the next");
        file.write_all_vectored_at(&mut [IoSlice::new(&vec![2; 3 * BLOCK_BYTES])], 0).unwrap();
        assert_eq!([seen(0), seen(BLOCK), seen(2 * BLOCK)], [[1; 8], [1; 8], [2; 8]]);
    }

    proptest! {
        #[test]
        fn a_covered_file_reads_like_a_file_and_leaves_the_file_alone(start in 0_usize..20_000, ops in ops()) {
            let original: Vec<u8> = (0..start).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let file = MemoryFile::with(original.clone());
            let covered = CoveredFile::new(Arc::clone(&file) as Arc<dyn DiskFile>).unwrap();
            let mut model = original.clone();
            for op in ops {
                match op {
                    Op::SetLen(len) => {
                        covered.set_len(len).unwrap();
                        model.resize(usize::try_from(len).unwrap(), 0);
                    }
                    Op::Write(at, data) => {
                        let place = usize::try_from(at).unwrap();
                        match model.get_mut(place..place + data.len()) {
                            Some(target) => {
                                target.copy_from_slice(&data);
                                covered.write(at, &data).unwrap();
                            }
                            None => prop_assert!(covered.write(at, &data).is_err()),
                        }
                    }
                }
                let mut seen = vec![0; model.len()];
                covered.read(0, &mut seen).unwrap();
                prop_assert!(seen == model);
                prop_assert!(covered.read(1, &mut seen).is_err() || seen.is_empty());
            }
            prop_assert!(file.bytes() == original);
        }
    }
}
