//! Group commit: many batches written, one sync, published in order.
//!
//! A batch is written by its own thread under the writer's lock, which orders batches. The sync is done by whichever
//! waiting thread comes first, for all that was written until then, while others go on writing behind it.
//!
//! Always true:
//! - G1. A batch is published only after a sync that began after its last write returned Ok, and after a look at the lock
//!   that began after the sync, where no `flock` keeps others out.
//! - G2. Batches are published in the order of their LSNs.
//! - G3. After a failed write or sync nothing is written, synced or published any more.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::Lsn;
use crate::log::event::Event;
use crate::log::segment::Segment;
use crate::planted::{Bug, planted};
use crate::state::State;
use crate::store::core::Core;
use crate::sync::{Condvar, Mutex};

/// A batch that is written, and what readers will see of it.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) last_lsn: Lsn,
    pub(crate) segment: Arc<Segment>,
    /// End of the batch in its segment.
    pub(crate) end: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) state: Arc<State>,
}

/// Batches between their write and their publication.
#[derive(Debug)]
pub(crate) struct Group {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    pending: VecDeque<Publication>,
    /// The file that the pending batches lie in.
    file: Option<Arc<dyn DiskFile>>,
    written: Lsn,
    durable: Lsn,
    published: Lsn,
    syncing: bool,
    /// The first cause, and the kind of the error that tells of it.
    poisoned: Option<(ErrorKind, String)>,
}

impl Group {
    /// A group whose batches start behind `lsn`, which is durable and published.
    pub(crate) fn new(lsn: Lsn) -> Self {
        let inner = Inner {
            pending: VecDeque::new(),
            file: None,
            written: lsn,
            durable: lsn,
            published: lsn,
            syncing: false,
            poisoned: None,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Batches now lie in this file. Nothing may be pending.
    pub(crate) fn set_file(&self, file: Option<Arc<dyn DiskFile>>) {
        let mut inner = self.inner.lock();
        debug_assert!(inner.pending.is_empty(), "a segment is left only after its last batch was published");
        inner.file = file;
    }

    /// A batch was written.
    pub(crate) fn push(&self, publication: Publication) {
        let mut inner = self.inner.lock();
        inner.written = publication.last_lsn;
        inner.pending.push_back(publication);
    }

    /// The highest LSN known to be on disk.
    pub(crate) fn durable(&self) -> Lsn {
        self.inner.lock().durable
    }

    /// The highest LSN that readers see.
    pub(crate) fn published(&self) -> Lsn {
        self.inner.lock().published
    }

    /// Refuses once poisoned.
    pub(crate) fn check(&self) -> Result<()> {
        let poisoned = self.inner.lock().poisoned.clone();
        poisoned.map_or(Ok(()), |cause| Err(stopped(&cause)))
    }

    /// Stops the writer for good; the first cause is kept. Returns the error to give to the caller.
    pub(crate) fn poison(&self, cause: &Error) -> Error {
        let mut inner = self.inner.lock();
        let kept = inner.poisoned.get_or_insert_with(|| (cause.kind(), cause.to_string())).clone();
        self.changed.notify_all();
        tracing::error!(%cause, "the store stops writing");
        stopped(&kept)
    }

    /// Returns once everything written is durable and published.
    pub(crate) fn wait_all(&self, core: &Core) -> Result<()> {
        let written = self.inner.lock().written;
        self.wait(core, written)
    }

    /// Returns once the batch that ends with `lsn` is durable and published; syncs if no one else does.
    pub(crate) fn wait(&self, core: &Core, lsn: Lsn) -> Result<()> {
        let mut inner = self.inner.lock();
        loop {
            if inner.published >= lsn {
                return Ok(());
            }
            if let Some(cause) = &inner.poisoned {
                return Err(stopped(cause));
            }
            if inner.syncing {
                self.changed.wait(&mut inner);
                continue;
            }
            inner.syncing = true;
            let (target, file) = (inner.written, inner.file.clone());
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
            inner = self.inner.lock();
            inner.syncing = false;
            match synced {
                Ok(()) if inner.poisoned.is_none() => {
                    inner.durable = target;
                    // Still the one who publishes, though the lock is let go: others may write meanwhile.
                    inner.syncing = true;
                    drop(inner);
                    self.publish_up_to(core, target);
                    inner = self.inner.lock();
                    inner.syncing = false;
                    inner.published = target;
                }
                Ok(()) => {}
                Err(_) if planted(Bug::ForgetFailedSync) => {}
                Err(error) => {
                    drop(inner);
                    self.poison(&error);
                    inner = self.inner.lock();
                }
            }
            if !planted(Bug::LoseWakeup) {
                self.changed.notify_all();
            }
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
    let Publication { last_lsn, segment, end, events, state } = publication;
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
                    for victim in victims {
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
        published.index.changes_len()
    };
    if changes >= crate::limits::INDEX_FLUSH_CHANGES {
        core.flusher.wake(core);
    }
    if has_ended {
        core.compactor.waker.wake();
    }
}

fn stopped((kind, cause): &(ErrorKind, String)) -> Error {
    if *kind == ErrorKind::Fenced {
        return Error::new(*kind, cause.clone());
    }
    Error::new(ErrorKind::Poisoned, format!("the store stopped writing, reopen it; the first cause was: {cause}"))
}
