//! What is under a URL: its checkpoints, and whether every byte of them is right.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::{StreamExt, TryStreamExt, stream};
use rollstore::{Error, ErrorKind, Result};

use crate::fetch;
use crate::options::Options;
use crate::record::{CHECKPOINTS, Record, SEGMENTS, Unreadable, checkpoint_key, number_of};
use crate::remote::{Listed, Remote};
use crate::runtime;

/// A checkpoint in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number: one more than the one before.
    pub number: u64,
    /// The step that the trainer was at; `None` where it had not acted.
    pub step: Option<u64>,
    /// The run that it is of.
    pub run: [u8; 16],
    /// When it was put, by the service's clock.
    pub put_at: SystemTime,
    /// Segments that it has.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of those that the checkpoint before has not.
    pub new_bytes: u64,
    /// [`Options::annotation`] of its upload.
    pub annotation: String,
}

/// The checkpoints under a URL, oldest first. Objects that are none are passed over.
///
/// # Errors
/// `Invalid` for a URL that is none, `NotFound` where there is no such bucket, `Damaged` or `TooNew` for a checkpoint that cannot
/// be read, `Io`.
pub fn list(url: &str, options: &Options) -> Result<Vec<Checkpoint>> {
    let remote = Remote::new(url, options)?;
    runtime::run(|| async {
        let (mut found, mut before) = (Vec::new(), Vec::new());
        for (number, put_at, Record { line, .. }) in records(&remote).await? {
            let keys: Vec<_> = line.objects().map(|(key, segment)| (key, segment.bytes)).collect();
            let new = keys.iter().filter(|segment| !before.contains(*segment)).map(|(_, bytes)| bytes);
            found.push(Checkpoint {
                number,
                step: line.step,
                run: u128::from_str_radix(&line.run, 16).unwrap_or_default().to_be_bytes(),
                put_at,
                segments: keys.len() as u64,
                bytes: line.bytes(),
                new_bytes: new.sum(),
                annotation: line.annotation,
            });
            before = keys;
        }
        Ok(found)
    })
}

/// The number and annotation of the newest checkpoint under a URL, or of the one of a number, once it was seen that its segments
/// are there in their sizes. [`restore`](crate::restore()) and [`verify`] look at their bytes.
///
/// # Errors
/// `NotFound` where there is no such checkpoint or bucket; `Damaged` where it cannot be read, or a segment of it is not there; as
/// for [`list`].
pub fn find(url: &str, number: Option<u64>, options: &Options) -> Result<(u64, String)> {
    let remote = Remote::new(url, options)?;
    runtime::run(|| async {
        let (number, Record { line, .. }) = found(&remote, number).await?;
        let listed = sizes(&remote).await?;
        line.objects().try_for_each(|(key, segment)| fetch::check_size(&remote, &listed, &key, segment.bytes))?;
        Ok((number, line.annotation))
    })
}

/// The checkpoint of a number, or else the newest.
pub(crate) async fn found(remote: &Remote, number: Option<u64>) -> Result<(u64, Record)> {
    let number = match number {
        Some(number) => number,
        None => numbers(remote).await?.pop().map(|(number, _)| number).ok_or_else(|| {
            let message = format!("there is no checkpoint under {}; check the URL", remote.url(""));
            Error::new(ErrorKind::NotFound, message)
        })?,
    };
    Ok((number, record(remote, number).await?))
}

/// What a verification saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// Segments that were read, each once.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What is wrong; empty where everything is right.
    pub findings: Vec<Finding>,
}

/// An object that is not what a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its URL.
    pub object: String,
    /// What should be there, and what is.
    pub what: String,
    /// The checkpoints that cannot be restored for it.
    pub checkpoints: Vec<u64>,
}

impl Verification {
    /// Whether every checkpoint can be restored.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Reads every byte of every checkpoint under a URL and compares checksums. Goes on past damage.
///
/// # Errors
/// As for [`list`], without `Damaged`, which becomes a finding.
pub fn verify(url: &str, options: &Options) -> Result<Verification> {
    let remote = Remote::new(url, options)?;
    runtime::run(|| async {
        let mut seen = Verification::default();
        let mut segments = BTreeMap::new();
        for (number, _) in numbers(&remote).await? {
            seen.checkpoints += 1;
            match record(&remote, number).await {
                Ok(record) => record.line.objects().for_each(|(key, segment)| {
                    segments.entry((key, segment.bytes, segment.crc32)).or_insert_with(Vec::new).push(number);
                }),
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    let object = remote.url(&checkpoint_key(number));
                    seen.findings.push(Finding { object, what: error.to_string(), checkpoints: vec![number] });
                }
                Err(error) => return Err(error),
            }
        }
        let listed = sizes(&remote).await?;
        let total = segments.keys().map(|(_, bytes, _)| bytes).sum();
        for ((key, bytes, crc32), checkpoints) in segments {
            seen.segments += 1;
            let wrong = match fetch::check_size(&remote, &listed, &key, bytes) {
                Ok(()) => fetch::checksum(&remote, &key, bytes)
                    .await
                    .and_then(|found| fetch::check_crc(&remote, &key, crc32, found)),
                Err(error) => Err(error),
            };
            match wrong {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    seen.findings.push(Finding { object: remote.url(&key), what: error.to_string(), checkpoints });
                }
                Err(error) => return Err(error),
            }
            seen.bytes += bytes;
            remote.options.tell(seen.bytes, total);
        }
        Ok(seen)
    })
}

/// The numbers of checkpoints and when they were put, ascending.
pub(crate) async fn numbers(remote: &Remote) -> Result<Vec<(u64, SystemTime)>> {
    let listed = remote.list(CHECKPOINTS).await?;
    let mut numbers: Vec<_> =
        listed.iter().filter_map(|object| Some((number_of(&object.key)?, object.put_at))).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The checkpoints, ascending by number. One that a retention deletes meanwhile is passed over.
async fn records(remote: &Remote) -> Result<Vec<(u64, SystemTime, Record)>> {
    let numbers = numbers(remote).await?;
    let read = stream::iter(numbers).map(|(number, put_at)| async move {
        match record(remote, number).await {
            Ok(record) => Ok(Some((number, put_at, record))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let records: Vec<_> = read.buffered(remote.options.requests).try_collect().await?;
    Ok(records.into_iter().flatten().collect())
}

/// One checkpoint.
pub(crate) async fn record(remote: &Remote, number: u64) -> Result<Record> {
    let key = checkpoint_key(number);
    let url = remote.url(&key);
    let Some(bytes) = remote.get(&key).await? else {
        let message = format!("there is no {url}; \"rollstore checkpoints {}\" tells which there are", remote.url(""));
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    Record::decode(&bytes).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(expected, found) => Error::new(
            ErrorKind::Damaged,
            format!("{url} is damaged: expected {expected}, found {found}; restore another one"),
        ),
        Unreadable::TooNew(format) => {
            let message = format!("{url} is of format {format}, this program reads format 1; upgrade");
            Error::new(ErrorKind::TooNew, message)
        }
    })
}

/// The sizes of all segments, by key.
pub(crate) async fn sizes(remote: &Remote) -> Result<BTreeMap<String, u64>> {
    let listed = remote.list(SEGMENTS).await?;
    Ok(listed.into_iter().map(|Listed { key, bytes, .. }| (key, bytes)).collect())
}
