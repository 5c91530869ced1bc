//! Leases: how uploads and retentions that know nothing of each other keep out of each other's way.
//!
//! Each of them puts a note before it begins, renews it while it works, and deletes it at its end. Times are the service's own: no
//! two machines' clocks are compared. That a listing shows every object that was put before it began is what S3, Google Cloud
//! Storage, Azure and file systems promise.
//!
//! Always true:
//! - L1. An upload looks for segments only after its note was put and no retention was alive that may have begun without seeing it. A
//!   retention reads the notes after it put its own. So one of the two sees the other, whatever their order.
//! - L2. A retention deletes no segment that an upload's note names while that is alive, and none that a checkpoint has. Notes
//!   are read before checkpoints: an upload puts its checkpoint before it deletes its note, so one of them is seen.
//! - L3. Who has not renewed in half its lease does not do what the lease is for: an upload begins again, a retention ends. The other
//!   half is for requests under way, and others wait for all of it.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rollstore::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::remote::{Remote, later};

/// Where notes lie.
const LEASES: &str = "leases";

/// What someone is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    /// An upload of a checkpoint that has these segments, by their keys.
    Upload(Vec<String>),
    /// A deletion of what no checkpoint has.
    Retention,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    work: Work,
    /// Whoever finds the note older than this takes its writer for gone.
    lease_ms: u64,
}

/// A note of ours.
pub(crate) struct Lease<'a> {
    remote: &'a Remote,
    key: String,
    bytes: Vec<u8>,
    time: Duration,
    renewed: Mutex<Renewed>,
}

/// When the note was last put, at the latest: taken before the request. By two clocks, since one may stand still while the machine
/// sleeps.
#[derive(Clone, Copy)]
struct Renewed {
    at: Instant,
    /// When the service had answered.
    answered: Instant,
    by_the_wall: SystemTime,
    /// Whether it was alive without a break since the work began.
    unbroken: bool,
}

impl Renewed {
    fn now() -> Self {
        Self { at: Instant::now(), answered: Instant::now(), by_the_wall: SystemTime::now(), unbroken: true }
    }

    fn age(&self) -> Duration {
        // Set back, the wall's clock tells nothing; the other one does.
        self.at.elapsed().max(self.by_the_wall.elapsed().unwrap_or_default())
    }
}

/// Notes of others, at one moment of the service's clock.
#[derive(Debug)]
pub(crate) struct Others {
    /// That moment.
    pub(crate) now: SystemTime,
    /// Segments that uploads are about to name.
    pub(crate) needed: Vec<String>,
    /// How long the oldest retention that is alive may go on.
    pub(crate) retention: Option<Duration>,
    /// Keys of notes whose writers are gone.
    pub(crate) gone: Vec<String>,
}

impl<'a> Lease<'a> {
    /// Puts a note. It is to be renewed from then on: see [`Lease::hold`].
    pub(crate) async fn take(remote: &'a Remote, work: Work, name: &str, time: Duration) -> Result<Lease<'a>> {
        let kind = if work == Work::Retention { "retention" } else { "upload" };
        let lease_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let bytes = serde_json::to_vec(&Note { work, lease_ms });
        let bytes = bytes.map_err(|error| Error::new(ErrorKind::Io, format!("could not write a note: {error}")))?;
        let renewed = Mutex::new(Renewed::now());
        let lease = Self { remote, key: format!("{LEASES}/{kind}-{name}"), bytes, time, renewed };
        lease.renew().await?;
        Ok(lease)
    }

    /// Puts the note again.
    async fn renew(&self) -> Result<()> {
        let mut now = Renewed::now();
        self.remote.put(&self.key, self.bytes.clone()).await?;
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        now.answered = Instant::now();
        now.unbroken = renewed.unbroken && renewed.age() < self.time / 2;
        *renewed = now;
        Ok(())
    }

    /// Renews the note for as long as it is polled.
    pub(crate) async fn hold(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.time / 10).await;
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "the note of a transfer could not be renewed");
            }
        }
    }

    /// Whether others count on what the note says, and did so ever since the last [`Lease::begin_again`].
    pub(crate) fn is_fresh(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.unbroken && renewed.age() < self.time / 2
    }

    /// Begins anew after a break.
    pub(crate) async fn begin_again(&self) -> Result<()> {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Renewed::now();
        self.renew().await
    }

    /// Deletes the note. Where that fails it is taken for gone later.
    pub(crate) async fn end(&self) {
        if let Err(error) = self.remote.delete(vec![self.key.clone()]).await {
            tracing::warn!(%error, "the note of a transfer that ended could not be deleted");
        }
    }

    /// The notes of others.
    pub(crate) async fn others(&self) -> Result<Others> {
        let listed = self.remote.list(LEASES).await?;
        // Ours tells what time it is there, or was at the last renewal: at least so much later it is now.
        let since = self.renewed.lock().unwrap_or_else(PoisonError::into_inner).answered.elapsed();
        let Some(now) = listed.iter().find(|note| note.key == self.key).map(|note| note.put_at + since) else {
            let message = format!("{} was deleted while it was in use; try again", self.remote.url(&self.key));
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let mut others = Others { now, needed: Vec::new(), retention: None, gone: Vec::new() };
        for listed in listed.into_iter().filter(|note| note.key != self.key) {
            // It may have ended meanwhile.
            let Some(bytes) = self.remote.get(&listed.key).await? else { continue };
            let note: Note = serde_json::from_slice(&bytes).map_err(|error| {
                let message = format!("{} is no note of a transfer ({error}); delete it", self.remote.url(&listed.key));
                Error::new(ErrorKind::Damaged, message)
            })?;
            let (lease, age) = (Duration::from_millis(note.lease_ms), later(now, listed.put_at));
            match note.work {
                _ if age > lease => others.gone.push(listed.key),
                Work::Upload(keys) => others.needed.extend(keys),
                Work::Retention => others.retention = others.retention.max(Some(lease.saturating_sub(age))),
            }
        }
        Ok(others)
    }

    /// Returns once no retention is alive that may have begun before our note was there.
    pub(crate) async fn wait_for_retentions(&self) -> Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        while let Some(left) = self.others().await?.retention {
            tracing::debug!(?left, "waiting for a retention to end");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}
