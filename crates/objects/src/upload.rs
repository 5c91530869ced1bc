//! Segments on their way up: small ones in one request, large ones in parts, several at once.
//!
//! Always true:
//! - S1. No more than `requests` parts are in memory at once, whatever the number of segments.
//! - S2. An upload in parts that fails is given up at the service, so that its parts do not cost anything.

use std::path::Path;
use std::sync::Arc;

use crc32fast::Hasher;
use object_store::{MultipartUpload, PutPayload};
use rollstore::disk::os::OsDisk;
use rollstore::disk::{Access, Disk, DiskFile};
use rollstore::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::fetch::{file_work, parts};
use crate::options::PARTS_MAX;
use crate::remote::Remote;

/// What uploads of several segments share.
pub(crate) struct Sender<'a> {
    remote: &'a Remote,
    permits: Arc<Semaphore>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(remote: &'a Remote) -> Self {
        Self { remote, permits: Arc::new(Semaphore::new(remote.options.requests)) }
    }

    /// Sends the first bytes of a file and gives their checksum. `tell` hears of bytes as they are taken on.
    pub(crate) async fn send(&self, path: &Path, key: &str, bytes: u64, tell: impl Fn(u64)) -> Result<u32> {
        let file = file_work(path, |path| OsDisk.open(path, Access::Read)).await?;
        let part_bytes = self.remote.options.part_bytes.max(bytes.div_ceil(PARTS_MAX));
        if bytes <= part_bytes {
            let _permit = self.permits.acquire().await;
            let whole = read(&file, path, 0, bytes).await?;
            let crc = crc32fast::hash(&whole);
            self.remote.put(key, whole).await?;
            tell(bytes);
            return Ok(crc);
        }
        let mut upload = self.remote.put_parts(key).await?;
        match self.send_parts(&mut *upload, &file, path, key, (bytes, part_bytes), tell).await {
            Ok(crc) => Ok(crc),
            Err(error) => {
                if let Err(error) = upload.abort().await {
                    let error = self.remote.part_failed(key, &error);
                    tracing::warn!(%error, "an upload that failed could not be given up: its parts may be there still");
                }
                Err(error)
            }
        }
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &Arc<dyn DiskFile>,
        path: &Path,
        key: &str,
        (bytes, part_bytes): (u64, u64),
        tell: impl Fn(u64),
    ) -> Result<u32> {
        let (mut hasher, mut sending) = (Hasher::new(), JoinSet::new());
        let failed = |error: &object_store::Error| self.remote.part_failed(key, error);
        for part in parts(bytes, part_bytes) {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let len = part.end - part.start;
            let part = read(file, path, part.start, len).await?;
            hasher.update(&part);
            let put = upload.put_part(PutPayload::from(part));
            sending.spawn(async move {
                let _permit = permit;
                put.await.map(|()| len)
            });
            while let Some(sent) = sending.try_join_next() {
                tell(joined(sent)?.map_err(|error| failed(&error))?);
            }
        }
        while let Some(sent) = sending.join_next().await {
            tell(joined(sent)?.map_err(|error| failed(&error))?);
        }
        upload.complete().await.map_err(|error| failed(&error))?;
        Ok(hasher.finalize())
    }
}

fn joined<T>(sent: Result<T, tokio::task::JoinError>) -> Result<T> {
    sent.map_err(|error| Error::new(ErrorKind::Io, format!("a thread of an upload ended: {error}")))
}

async fn read(file: &Arc<dyn DiskFile>, path: &Path, at: u64, len: u64) -> Result<Vec<u8>> {
    let file = Arc::clone(file);
    file_work(path, move |_| {
        let mut bytes = vec![0; usize::try_from(len).map_err(std::io::Error::other)?];
        file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    })
    .await
}
