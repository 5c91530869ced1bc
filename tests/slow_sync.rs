//! A sync that takes long holds up nobody but those who wait for it: readers read, and other writers prepare and write.
//!
//! Method: the sync of the log is held back by the test until everything else was seen to happen. The order of events
//! decides, and no clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rollstore::disk::Disk;
use rollstore::disk::sim::{OpKind, SimDisk};
use rollstore::{Column, Flat, RolloutStore, Stale};
use rollstore_testkit::hooked::Hooked;
use rollstore_testkit::store::{DIR, check_content, options, rollout};

/// What happened to the log while a sync of it is held back.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    SyncBegan,
    Wrote,
}

/// A disk whose syncs of segments wait for a word, once `held` is set.
struct Slow {
    disk: Arc<dyn Disk>,
    held: Arc<AtomicBool>,
    events: Receiver<Event>,
    go_on: Sender<()>,
    syncs: Arc<AtomicU64>,
}

fn slow() -> Slow {
    let (held, syncs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let ((tell, events), (go_on, wait)) = (channel(), channel());
    let (is_held, count, wait) = (Arc::clone(&held), Arc::clone(&syncs), Mutex::new(wait));
    let hooked = Hooked::new(Arc::new(SimDisk::new()), move |kind, path| {
        let of_log = path.extension().is_some_and(|extension| extension == "log");
        if !of_log || !is_held.load(Ordering::SeqCst) {
            return Ok(());
        }
        match kind {
            OpKind::SyncData => {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = tell.send(Event::SyncBegan);
                let _ = wait.lock().unwrap().recv();
            }
            OpKind::Write => drop(tell.send(Event::Wrote)),
            _ => {}
        }
        Ok(())
    });
    Slow { disk: Arc::new(hooked), held, events, go_on, syncs }
}

/// Everything that reads, of a store that holds rollouts 0 to 3.
fn read_all(store: &RolloutStore) {
    assert_eq!(store.len(), 4, "what is not durable is not seen");
    for id in store.ids() {
        check_content(&store.get(id).unwrap().unwrap());
    }
    assert!(store.stale().is_empty() && store.out_of_window(3).is_empty() && store.needs_recompute(3).is_empty());
    assert_eq!(store.plan_for(&store.ids(), 3).unwrap().ids().count(), 0);
    let mut out = Flat::<f32>::default();
    store.gather(&store.ids(), Column::OldLogps, 3, Stale::Error, &mut out).unwrap();
    assert_eq!((store.clock(), store.cursor(), store.stats().unwrap().live), (None, None, 4));
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn a_sync_that_is_held_back_blocks_neither_readers_nor_the_writes_of_others() {
    let Slow { disk, held, events, go_on, syncs } = slow();
    let store = options(Arc::clone(&disk)).open(DIR).unwrap();
    for id in 0..4 {
        store.insert(rollout(id, 0, 0)).unwrap();
    }
    held.store(true, Ordering::SeqCst);
    let acknowledged = AtomicU64::new(0);
    let insert = |id| {
        store.insert(rollout(id, 0, 0)).unwrap();
        acknowledged.fetch_add(1, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        scope.spawn(|| insert(10));
        assert_eq!(events.recv().unwrap(), Event::Wrote);
        assert_eq!(events.recv().unwrap(), Event::SyncBegan);
        // The sync is under way and does not end before the word below.
        read_all(&store);
        for id in 11..14 {
            scope.spawn(move || insert(id));
            assert_eq!(events.recv().unwrap(), Event::Wrote, "a batch is written while the one before is being synced");
        }
        read_all(&store);
        assert_eq!(acknowledged.load(Ordering::SeqCst), 0, "nothing is acknowledged before its sync");
        held.store(false, Ordering::SeqCst);
        go_on.send(()).unwrap();
    });
    assert_eq!(acknowledged.load(Ordering::SeqCst), 4);
    assert_eq!(store.len(), 8);
    assert_eq!(syncs.load(Ordering::SeqCst), 1, "the three behind it shared the next one");
}
