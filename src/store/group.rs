//! Group commit: many batches written, one sync, published in order.
//!
//! A batch is written by its own thread under the writer's lock, which orders batches. The sync is done by whichever
//! waiting thread comes first, for all that was written until then, while others go on writing behind it. What was
//! *published* (readers see it) and what is *durable* (a power cut leaves it) are two numbers: a Synced store publishes
//! what is durable, a Buffered one what is written.
//!
//! Always true:
//! - G1. A batch of a Synced store is published only after a sync that began after its last write returned Ok, and after a
//!   look at the lock that began after the sync, where no `flock` keeps others out.
//! - G2. Batches are published in the order of their LSNs.
//! - G3. After a failed write or sync nothing is written or synced any more, and no batch is acknowledged.
//! - G4. `durable` moves only by a sync that began after the last write that it covers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::disk::DiskFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::resume::BatchEnd;
use crate::ids::Lsn;
use crate::log::event::Event;
use crate::log::segment::Segment;
use crate::planted::{Bug, planted};
use crate::state::State;
use crate::store::core::Core;
use crate::store::options::Durability;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A batch that is written, and what readers will see of it.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) last_lsn: Lsn,
    pub(crate) segment: Arc<Segment>,
    /// End of the batch in its segment.
    pub(crate) end: u64,
    /// The same, as a recovery finds it.
    pub(crate) log_end: BatchEnd,
    pub(crate) events: Vec<Event>,
    pub(crate) state: Arc<State>,
}

/// Batches between their write and their publication, and what of the log is durable.
#[derive(Debug)]
pub(crate) struct Group {
    inner: Mutex<Inner>,
    changed: Condvar,
    durability: Durability,
}

#[derive(Debug)]
struct Inner {
    pending: VecDeque<Publication>,
    /// The file that the newest batches lie in.
    file: Option<Arc<dyn DiskFile>>,
    written: Lsn,
    durable: Lsn,
    published: Lsn,
    /// Bytes written since the store was opened, and how many of those are durable.
    written_bytes: u64,
    durable_bytes: u64,
    /// When the first batch that no sync has begun for was written.
    unsynced_since: Option<Instant>,
    syncing: bool,
    publishing: bool,
    poisoned: Option<Cause>,
}

/// Why the writer stopped: what failed first.
#[derive(Debug, Clone)]
struct Cause {
    text: String,
    kind: ErrorKind,
}

/// What has to happen before a waiting thread may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Sync,
    Publish,
}

impl Group {
    /// A group whose batches start behind `lsn`, which is durable and published.
    pub(crate) fn new(lsn: Lsn, durability: Durability) -> Self {
        let inner = Inner {
            pending: VecDeque::new(),
            file: None,
            written: lsn,
            durable: lsn,
            published: lsn,
            written_bytes: 0,
            durable_bytes: 0,
            unsynced_since: None,
            syncing: false,
            publishing: false,
            poisoned: None,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), durability }
    }

    /// Batches now lie in this file. Nothing may be pending or unsynced.
    pub(crate) fn set_file(&self, file: Option<Arc<dyn DiskFile>>) {
        let mut inner = self.inner.lock();
        debug_assert!(inner.pending.is_empty(), "a segment is left only after its last batch was published");
        debug_assert_eq!(inner.durable, inner.written, "a segment is left only after its last batch is durable");
        inner.file = file;
    }

    /// A batch of so many bytes was written.
    pub(crate) fn push(&self, publication: Publication, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.written = publication.last_lsn;
        inner.written_bytes = inner.written_bytes.saturating_add(bytes);
        inner.pending.push_back(publication);
        if let Durability::Buffered { .. } = self.durability {
            inner.unsynced_since.get_or_insert_with(Instant::now);
        }
    }

    /// The highest LSN known to be on disk.
    pub(crate) fn durable(&self) -> Lsn {
        self.inner.lock().durable
    }

    /// The highest LSN that readers see.
    pub(crate) fn published(&self) -> Lsn {
        self.inner.lock().published
    }

    /// The highest LSN that was written.
    pub(crate) fn written(&self) -> Lsn {
        self.inner.lock().written
    }

    /// When the first batch that no sync has begun for was written; `None` where there is none.
    pub(crate) fn unsynced_since(&self) -> Option<Instant> {
        self.inner.lock().unsynced_since
    }

    /// Refuses once poisoned.
    pub(crate) fn check(&self) -> Result<()> {
        let poisoned = self.inner.lock().poisoned.clone();
        poisoned.map_or(Ok(()), |cause| Err(cause.later()))
    }

    /// Stops the writer for good; the first cause is kept. Returns the error of the call that this happened to: `Full` where
    /// there was no space, so that it can be told from a disk that fails, otherwise `Poisoned`.
    pub(crate) fn poison(&self, cause: &Error) -> Error {
        let mut inner = self.inner.lock();
        let now = || Cause { text: cause.to_string(), kind: cause.kind() };
        let kept = inner.poisoned.get_or_insert_with(now).clone();
        self.changed.notify_all();
        tracing::error!(%cause, "the store stops writing");
        kept.error()
    }

    /// Returns once everything written is durable and published.
    pub(crate) fn wait_all(&self, core: &Core) -> Result<()> {
        let written = self.written();
        self.until(core, |inner| match () {
            () if inner.durable < written => Some(Need::Sync),
            () if inner.published < written => Some(Need::Publish),
            () => None,
        })
    }

    /// Returns once the batch that ends with `lsn` may be acknowledged: published, and in a Synced store durable before
    /// that; syncs if no one else does.
    pub(crate) fn wait(&self, core: &Core, lsn: Lsn) -> Result<()> {
        self.until(core, |inner| match () {
            () if inner.published >= lsn => None,
            () if self.publishable(inner) >= lsn => Some(Need::Publish),
            () => Some(Need::Sync),
        })
    }

    /// Returns once everything up to `lsn` is durable; syncs if no one else does.
    pub(crate) fn wait_durable(&self, core: &Core, lsn: Lsn) -> Result<()> {
        self.until(core, |inner| (inner.durable < lsn).then_some(Need::Sync))
    }

    /// Returns once at most `max` bytes are written and not durable; syncs if no one else does.
    pub(crate) fn wait_unsynced_below(&self, core: &Core, max: u64) -> Result<()> {
        let unsynced = |inner: &Inner| inner.written_bytes.saturating_sub(inner.durable_bytes);
        self.until(core, |inner| (unsynced(inner) > max).then_some(Need::Sync))
    }

    /// Does what is needed, or waits for whoever is at it, until nothing is.
    fn until(&self, core: &Core, need: impl Fn(&Inner) -> Option<Need>) -> Result<()> {
        let mut inner = self.inner.lock();
        while let Some(need) = need(&inner) {
            if let Some(cause) = &inner.poisoned {
                return Err(cause.error());
            }
            match need {
                Need::Sync if !inner.syncing => inner = self.sync(core, inner),
                Need::Publish if !inner.publishing => inner = self.publish(core, inner),
                Need::Sync | Need::Publish => self.changed.wait(&mut inner),
            }
        }
        Ok(())
    }

    /// Up to where readers may see the log.
    fn publishable(&self, inner: &Inner) -> Lsn {
        match self.durability {
            Durability::Synced => inner.durable,
            Durability::Buffered { .. } => inner.written,
        }
    }

    /// Syncs all that was written until now. The lock is let go meanwhile: others may write.
    fn sync<'a>(&'a self, core: &Core, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.syncing = true;
        inner.unsynced_since = None;
        let (target, bytes, file) = (inner.written, inner.written_bytes, inner.file.clone());
        drop(inner);
        if planted(Bug::PublishBeforeSync) || planted(Bug::IndexBeforeLog) {
            self.publish_up_to(core, target);
        }
        if planted(Bug::IndexBeforeLog) {
            let _ = core.flusher.flush(core);
        }
        let file = file.filter(|_| !planted(Bug::SkipFileSync));
        let synced = file.map_or(Ok(()), |file| file.sync_data());
        let synced = synced.map_err(|error| Error::io("sync the log", &core.dir, error));
        let synced = synced.and_then(|()| core.check_before_acknowledging());
        let mut inner = self.inner.lock();
        inner.syncing = false;
        match synced {
            Ok(()) if inner.poisoned.is_none() => {
                inner.durable = target;
                inner.durable_bytes = bytes;
            }
            Ok(()) => {}
            Err(_) if planted(Bug::ForgetFailedSync) => {}
            Err(error) => {
                drop(inner);
                self.poison(&error);
                inner = self.inner.lock();
            }
        }
        self.tell_all();
        inner
    }

    /// Lets readers see all that they may. The lock is let go meanwhile: others may write and sync.
    fn publish<'a>(&'a self, core: &Core, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.publishing = true;
        let target = self.publishable(&inner);
        drop(inner);
        self.publish_up_to(core, target);
        let mut inner = self.inner.lock();
        inner.publishing = false;
        inner.published = target;
        self.tell_all();
        inner
    }

    fn tell_all(&self) {
        if !planted(Bug::LoseWakeup) {
            self.changed.notify_all();
        }
    }

    /// Lets readers see the batches up to `target`, in order. One thread at a time comes here.
    fn publish_up_to(&self, core: &Core, target: Lsn) {
        let ready: Vec<Publication> = {
            let mut inner = self.inner.lock();
            let count = inner.pending.partition_point(|publication| publication.last_lsn <= target);
            inner.pending.drain(..count).collect()
        };
        for publication in ready {
            publish(core, publication);
        }
    }
}

/// Lets readers see a batch.
fn publish(core: &Core, publication: Publication) {
    let Publication { last_lsn, segment, end, log_end, events, state } = publication;
    let bytes = end.saturating_sub(segment.published_bytes());
    segment.publish(end);
    let mut has_ended = false;
    let changes = {
        let mut published = core.published.write();
        // Events and numbers go one to one, up to the batch's last.
        let mut lsn = Lsn::new(last_lsn.get() - events.len() as u64);
        for event in &events {
            lsn = lsn.next();
            match event {
                Event::Rollout(entry) => published.index.apply(segment.id, entry),
                Event::Retire { victims, .. } => {
                    has_ended = true;
                    // As for a retire line: most often the last ones are the last in their lists.
                    for victim in victims.iter().rev() {
                        published.index.retire(victim.id, victim.insert_lsn);
                    }
                }
                Event::RetireLine { created_before, .. } => {
                    has_ended = true;
                    published.index.retire_created_before(*created_before, lsn);
                }
                Event::Tally { used, .. } => {
                    for id in used {
                        published.index.mark_used(*id, state.lsn);
                    }
                }
                Event::Advance { .. }
                | Event::Rewind { .. }
                | Event::Cursor(_)
                | Event::Sweep { .. }
                | Event::Ignored => {}
            }
        }
        if let Some(clock) = state.clock {
            core.usage.moved(clock, published.index.live_bytes_total(), has_ended);
        }
        published.state = state;
        published.log_end = Some(log_end);
        published.index.changes_len()
    };
    if core.flusher.is_due(changes, bytes) {
        core.flusher.wake(core);
    }
    if has_ended {
        core.compactor.waker.wake();
    }
}

impl Cause {
    /// The error of a call whose own work failed so.
    fn error(&self) -> Error {
        match self.kind {
            ErrorKind::Full => {
                let text = &self.text;
                Error::new(self.kind, format!("{text}; the store stopped writing: free space, then reopen it"))
            }
            _ => self.later(),
        }
    }

    /// The error of every later call.
    fn later(&self) -> Error {
        let text = &self.text;
        match self.kind {
            ErrorKind::Fenced => Error::new(self.kind, text.clone()),
            _ => Error::new(
                ErrorKind::Poisoned,
                format!("the store stopped writing, reopen it; the first cause was: {text}"),
            ),
        }
    }
}
