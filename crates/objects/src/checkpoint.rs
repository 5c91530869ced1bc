//! A store's checkpoint, sent to object storage.
//!
//! Always true:
//! - C1. A checkpoint is put last, in one request, once every segment that it has is there: it is there whole or not at all.
//! - C2. No segment goes up that is there already.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, TryStreamExt, stream};
use rollstore::disk::os::OsDisk;
use rollstore::disk::{Access, Disk};
use rollstore::inspect::{self, Parts, SegmentPart};
use rollstore::{Error, ErrorKind, Result, RolloutStore};

use crate::fetch::{file_checksum, file_work};
use crate::lease::{Lease, Work};
use crate::local::Saved;
use crate::options::{ANNOTATION_BYTES_MAX, Options};
use crate::record::{Line, Record, SegmentLine, checkpoint_key, run_name, segment_key};
use crate::remote::Remote;
use crate::retain::{Kept, Retained, retain_on};
use crate::upload::Sender;
use crate::{look, random_name, runtime};

/// What a checkpoint in object storage took.
#[derive(Debug)]
pub struct Uploaded {
    /// Its number under the URL.
    pub number: u64,
    /// Segments that it has.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Segments that were sent: the others were there.
    pub sent_segments: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// What became of older checkpoints, where some were to be kept alone. The checkpoint is there whatever this says.
    pub retention: Option<Result<Retained>>,
}

/// Saves a store, as of now, under a URL: `s3://`, `gs://`, `az://`, `file://`. Only segments that are not there are sent. `keep`
/// ends older checkpoints: see [`retain`](crate::retain()). A prefix is of one run; each shard of a run has its own.
///
/// Others may read and write the store meanwhile. A checkpoint is made beside the store first, of hard links, and removed at the
/// end; what a crash leaves of it the next call removes.
///
/// # How do I save to object storage after each epoch?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore};
/// use rollstore_objects::Options;
/// # let (run, again) = (dir.path().join("rollouts"), dir.path().join("again"));
/// # let url = format!("file://{}", dir.path().join("bucket").display());
/// let store = RolloutStore::options().window(8).open(&run)?;
/// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5][..], 0))?;
///
/// // let url = "s3://bucket/run/shard-0", with credentials in the environment
/// let saved = rollstore_objects::checkpoint(&store, &url, Some(3), &Options::default())?;
/// assert_eq!((saved.number, saved.sent_segments), (1, 1));
///
/// // On another machine:
/// rollstore_objects::restore(&url, &again, None, &Options::default())?;
/// let store = RolloutStore::options().resume_step(100).open(&again)?;
/// assert!(store.get(1.into())?.unwrap().staleness(100).is_fresh());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Invalid` for a URL that is none or holds checkpoints of another run; `NotFound` where there is no such bucket; `Io` where the
/// service cannot be reached or refuses; and as for [`RolloutStore::checkpoint`]. There is no checkpoint then; the store goes on.
pub fn checkpoint(store: &RolloutStore, url: &str, keep: Option<u64>, options: &Options) -> Result<Uploaded> {
    let remote = Remote::new(url, options)?;
    send_from(Saved::of(store)?.dir(), &remote, keep)
}

/// Saves a checkpoint that lies in a directory, as [`checkpoint()`] does a store: for checkpoints that were taken before, or of
/// several stores at one moment.
///
/// # Errors
/// As for [`checkpoint()`]; `Invalid` for a directory of a store, which may change meanwhile.
pub fn send(dir: impl AsRef<Path>, url: &str, keep: Option<u64>, options: &Options) -> Result<Uploaded> {
    send_from(dir.as_ref(), &Remote::new(url, options)?, keep)
}

fn send_from(dir: &Path, remote: &Remote, keep: Option<u64>) -> Result<Uploaded> {
    if remote.options.annotation.len() > ANNOTATION_BYTES_MAX {
        let bytes = remote.options.annotation.len();
        return Err(Error::invalid(format!("the annotation has {bytes} bytes, at most are {ANNOTATION_BYTES_MAX}")));
    }
    let parts = inspect::parts(dir)?
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no checkpoint at {}", dir.display())))?;
    if !parts.is_checkpoint {
        let message = format!("{} is a store and no checkpoint; open it and checkpoint it", dir.display());
        return Err(Error::invalid(message));
    }
    runtime::run(|| async {
        let mut uploaded = upload(remote, dir, &parts).await?;
        if let Some(keep) = keep {
            uploaded.retention = Some(retain_on(remote, Some(parts.run), &Kept::Newest(keep)).await);
        }
        Ok(uploaded)
    })
}

async fn upload(remote: &Remote, dir: &Path, parts: &Parts) -> Result<Uploaded> {
    let run = run_name(parts.run);
    let keys = parts.segments.iter().map(|part| segment_key(&run, part)).collect();
    let name = random_name();
    let lease = Lease::take(remote, Work::Upload(keys), &name, remote.options.lease).await?;
    let job = Job { remote, dir, parts, run, name, sent: Sent::default() };
    let uploaded = tokio::select! {
        uploaded = job.run(&lease) => uploaded,
        never = lease.hold() => match never {},
    };
    lease.end().await;
    uploaded
}

/// One upload.
struct Job<'a> {
    remote: &'a Remote,
    dir: &'a Path,
    parts: &'a Parts,
    run: String,
    name: String,
    sent: Sent,
}

#[derive(Default)]
struct Sent {
    segments: AtomicU64,
    bytes: AtomicU64,
    done_bytes: AtomicU64,
}

impl Job<'_> {
    async fn run(&self, lease: &Lease<'_>) -> Result<Uploaded> {
        let (newest, mut known) = self.before().await?;
        loop {
            lease.wait_for_retentions().await?;
            let segments = self.send_missing(&mut known).await?;
            if lease.is_fresh() {
                return self.put(newest + 1, segments).await;
            }
            // Others may have taken us for gone, and segments with it.
            lease.begin_again().await?;
        }
    }

    /// The newest checkpoint's number, 0 without one, and the checksums that it knows.
    async fn before(&self) -> Result<(u64, HashMap<SegmentPart, u32>)> {
        let Some((number, _)) = look::numbers(self.remote).await?.pop() else { return Ok((0, HashMap::new())) };
        let line = match look::record(self.remote, number).await {
            Ok(record) => record.line,
            // Its segments are checked by themselves: a new checkpoint is what helps.
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound) => {
                tracing::warn!(%error, "the newest checkpoint cannot be read");
                return Ok((number, HashMap::new()));
            }
            Err(error) => return Err(error),
        };
        if line.run != self.run {
            let message = format!("{} holds checkpoints of another run; choose another prefix", self.remote.url(""));
            return Err(Error::invalid(message));
        }
        let known = line.segments.iter().map(|segment| (segment.part(), segment.crc32));
        Ok((number, known.collect()))
    }

    /// Sends what is not there. What is known already by its checksum need not be read.
    async fn send_missing(&self, known: &mut HashMap<SegmentPart, u32>) -> Result<Vec<SegmentLine>> {
        let there = look::sizes(self.remote).await?;
        let total = self.parts.segments.iter().map(|part| part.bytes).sum();
        self.sent.done_bytes.store(0, Ordering::Relaxed);
        let sender = Sender::new(self.remote);
        let (sender, there, before) = (&sender, &there, &*known);
        let segments = stream::iter(&self.parts.segments).map(|part| async move {
            let tell = |bytes| {
                let done = self.sent.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.remote.options.tell(done, total);
            };
            self.bring(part, sender, there, before, tell).await
        });
        let lines: Vec<_> = segments.buffered(self.remote.options.requests).try_collect().await?;
        known.extend(self.parts.segments.iter().copied().zip(lines.iter().map(|line| line.crc32)));
        Ok(lines)
    }

    async fn bring(
        &self,
        part: &SegmentPart,
        sender: &Sender<'_>,
        there: &BTreeMap<String, u64>,
        known: &HashMap<SegmentPart, u32>,
        tell: impl Fn(u64),
    ) -> Result<SegmentLine> {
        let (key, path) = (segment_key(&self.run, part), self.dir.join(part.file_name()));
        let is_there = there.get(&key) == Some(&part.bytes);
        let crc32 = match known.get(part) {
            Some(crc32) if is_there => *crc32,
            // An upload that was killed sent it: objects appear whole, and their bytes are checked on their way.
            _ if is_there => {
                let bytes = part.bytes;
                file_work(&path, move |path| file_checksum(&*OsDisk.open(path, Access::Read)?, bytes)).await?
            }
            _ => {
                let crc32 = sender.send(&path, &key, part.bytes, tell).await?;
                self.sent.segments.fetch_add(1, Ordering::Relaxed);
                self.sent.bytes.fetch_add(part.bytes, Ordering::Relaxed);
                return Ok(SegmentLine::new(part, crc32));
            }
        };
        tell(part.bytes);
        Ok(SegmentLine::new(part, crc32))
    }

    /// Puts the checkpoint, under the next number that is free.
    async fn put(&self, mut number: u64, segments: Vec<SegmentLine>) -> Result<Uploaded> {
        let path = self.dir.join(self.parts.manifest_file_name());
        let manifest = file_work(&path, |path| {
            let file = OsDisk.open(path, Access::Read)?;
            let mut bytes = vec![0; usize::try_from(file.len()?).map_err(std::io::Error::other)?];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        })
        .await?;
        let annotation = self.remote.options.annotation.clone();
        let line = Line::new(self.parts, self.name.clone(), annotation, segments);
        let bytes = line.bytes();
        let record = Record { line, manifest };
        let encoded =
            record.encode().map_err(|error| Error::invalid(format!("a checkpoint cannot be written: {error}")))?;
        // A request that is tried again may find what it put the first time.
        while !self.remote.put_new(&checkpoint_key(number), encoded.clone()).await?
            && self.remote.get(&checkpoint_key(number)).await?.as_ref() != Some(&encoded)
        {
            number += 1;
        }
        Ok(Uploaded {
            number,
            segments: self.parts.segments.len() as u64,
            bytes,
            sent_segments: self.sent.segments.load(Ordering::Relaxed),
            sent_bytes: self.sent.bytes.load(Ordering::Relaxed),
            retention: None,
        })
    }
}
