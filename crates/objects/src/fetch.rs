//! Segments on their way down: by parts, several at once, checked against their checksums.
//!
//! Always true:
//! - N1. A segment counts as fetched when its bytes are on disk and their checksum is the checkpoint's.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crc32fast::Hasher;
use futures_util::{StreamExt, TryStreamExt, stream};
use rollstore::disk::os::OsDisk;
use rollstore::disk::{Access, Disk, DiskFile};
use rollstore::{Error, ErrorKind, Result};

use crate::record::{Line, SegmentLine};
use crate::remote::Remote;

/// Brings the segments of a checkpoint into a directory; those that are there already and right are kept.
pub(crate) async fn fetch_all(remote: &Remote, line: &Line, sizes: &BTreeMap<String, u64>, dir: &Path) -> Result<()> {
    for (key, segment) in line.objects() {
        check_size(remote, sizes, &key, segment.bytes)?;
    }
    let (done, total) = (AtomicU64::new(0), line.bytes());
    remote.options.tell(0, total);
    for (key, segment) in line.objects() {
        let path = dir.join(segment.part().file_name());
        if is_there(&path, segment).await? {
            remote.options.tell(done.fetch_add(segment.bytes, Ordering::Relaxed) + segment.bytes, total);
            continue;
        }
        fetch(remote, &key, segment, &path, |bytes| {
            remote.options.tell(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        })
        .await?;
    }
    Ok(())
}

async fn fetch(
    remote: &Remote,
    key: &str,
    segment: &SegmentLine,
    path: &Path,
    tell: impl Fn(u64) + Sync,
) -> Result<()> {
    let file = file_work(path, |path| {
        match OsDisk.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        OsDisk.create(path)
    })
    .await?;
    let (file, tell) = (&file, &tell);
    let put = |at: u64, bytes: Vec<u8>| async move {
        let file = Arc::clone(file);
        let len = bytes.len() as u64;
        file_work(path, move |_| file.write_all_vectored_at(&mut [IoSlice::new(&bytes)], at)).await?;
        tell(len);
        Ok(())
    };
    let found = read_parts(remote, key, segment.bytes, put).await?;
    check_crc(remote, key, segment.crc32, found)?;
    let file = Arc::clone(file);
    file_work(path, move |_| file.sync_data()).await
}

/// The checksum of an object, read and thrown away.
pub(crate) async fn checksum(remote: &Remote, key: &str, bytes: u64) -> Result<u32> {
    read_parts(remote, key, bytes, |_, _| async { Ok(()) }).await
}

/// Reads an object by parts, several at once, hands each on, and gives the checksum of all.
async fn read_parts<F: Future<Output = Result<()>>>(
    remote: &Remote,
    key: &str,
    bytes: u64,
    put: impl Fn(u64, Vec<u8>) -> F,
) -> Result<u32> {
    let put = &put;
    let parts = stream::iter(parts(bytes, remote.options.part_bytes)).map(|part| async move {
        let got = remote.get_range(key, part.clone()).await?;
        if got.len() as u64 != part.end - part.start {
            let message = format!("{} bytes at {}", part.end - part.start, part.start);
            return Err(damaged(remote, key, &message, &format!("{} bytes", got.len())));
        }
        let mut hasher = Hasher::new();
        hasher.update(&got);
        put(part.start, got).await?;
        Ok(hasher)
    });
    let whole = parts.buffered(remote.options.requests).try_fold(Hasher::new(), |mut whole, part| async move {
        whole.combine(&part);
        Ok(whole)
    });
    Ok(whole.await?.finalize())
}

/// The parts of so many bytes, in order.
pub(crate) fn parts(bytes: u64, part_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let count = bytes.div_ceil(part_bytes);
    (0..count).map(move |part| part * part_bytes..((part + 1) * part_bytes).min(bytes))
}

/// Whether a file is the segment: of its length, and of its checksum.
async fn is_there(path: &Path, segment: &SegmentLine) -> Result<bool> {
    let (bytes, crc32) = (segment.bytes, segment.crc32);
    file_work(path, move |path| {
        let file = match OsDisk.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_there = file.len()? == bytes && file_checksum(&*file, bytes)? == crc32;
        // Who fetched it may have been killed before its bytes were on disk.
        if is_there { file.sync_data().map(|()| true) } else { Ok(false) }
    })
    .await
}

/// The checksum of a file's first bytes.
pub(crate) fn file_checksum(file: &dyn DiskFile, bytes: u64) -> io::Result<u32> {
    let mut hasher = Hasher::new();
    for part in parts(bytes, 1 << 20) {
        let mut buffer = vec![0; usize::try_from(part.end - part.start).unwrap_or(0)];
        file.read_exact_at(&mut buffer, part.start)?;
        hasher.update(&buffer);
    }
    Ok(hasher.finalize())
}

/// Work on a file, on a thread that may wait for the disk.
pub(crate) async fn file_work<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let path: Arc<PathBuf> = Arc::new(path.to_owned());
    let shown = Arc::clone(&path);
    let done = tokio::task::spawn_blocking(move || work(&path)).await;
    done.unwrap_or_else(|panic| Err(io::Error::other(panic))).map_err(|error| file_error(&shown, &error))
}

/// A failed operation on a file of ours.
pub(crate) fn file_error(path: &Path, error: &io::Error) -> Error {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let kind = if full { ErrorKind::Full } else { ErrorKind::Io };
    Error::new(kind, format!("could not read or write {}: {error}", path.display()))
}

pub(crate) fn check_size(remote: &Remote, sizes: &BTreeMap<String, u64>, key: &str, bytes: u64) -> Result<()> {
    match sizes.get(key) {
        Some(found) if *found == bytes => Ok(()),
        Some(found) => Err(damaged(remote, key, &format!("{bytes} bytes"), &format!("{found} bytes"))),
        None => Err(damaged(remote, key, &format!("{bytes} bytes"), "no such object")),
    }
}

pub(crate) fn check_crc(remote: &Remote, key: &str, expected: u32, found: u32) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(damaged(remote, key, &format!("checksum {expected:#010x}"), &format!("{found:#010x}")))
}

fn damaged(remote: &Remote, key: &str, expected: &str, found: &str) -> Error {
    let message = format!(
        "{} is damaged: expected {expected}, found {found}; restore an older checkpoint, which may not have it",
        remote.url(key)
    );
    Error::new(ErrorKind::Damaged, message)
}
