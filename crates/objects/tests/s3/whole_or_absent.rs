//! Goal: killed at any moment, a checkpoint is under its URL whole or not at all, and the next one mends what was left. Method:
//! another process sends one, and the server kills it with SIGKILL at its n-th request, for every n.

use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollstore::RolloutStore;
use rollstore_objects::{Options, checkpoint, list, restore, verify};
use rollstore_testkit::child;
use rollstore_testkit::scratch::Scratch;

use crate::common::{Server, URL, fill, fill_large, left_over, lock};

/// Who comes next waits for a retention that was killed, a fifth of this.
const LEASE: Duration = Duration::from_secs(10);

/// The other process: sends a checkpoint of the store in its directory.
#[test]
fn sender() {
    let Some((_, dir)) = child::role() else { return };
    let store = RolloutStore::options().window(8).open(dir).unwrap();
    let options = Options::default().part_bytes(5 << 20).requests(2).lease(LEASE);
    checkpoint(&store, URL, Some(1), &options).unwrap();
}

/// Sends one from another process, which is killed at request `kill_at`; whether it came to its end.
fn send(scratch: &Scratch, server: &Server, victim: &Mutex<Option<Child>>) -> bool {
    let mut command = child::command("whole_or_absent::sender", "sender", scratch.store_dir());
    command.envs(server.variables()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    // Held until the child is in place: no request of it is served before.
    let mut slot = lock(victim);
    *slot = Some(command.spawn().unwrap());
    drop(slot);
    loop {
        // Taken by the server where it was killed.
        let Some(child) = lock(victim).as_mut().map(Child::try_wait) else { return false };
        if let Some(status) = child.unwrap() {
            return status.success();
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_sender_killed_at_any_request_leaves_a_whole_checkpoint_or_none() {
    let mut kill_at = 1;
    let mut seen = (0, 0);
    loop {
        let scratch = Scratch::new();
        let victim: Arc<Mutex<Option<Child>>> = Arc::default();
        let armed = Arc::clone(&victim);
        let server = Server::start_with(
            &scratch,
            Arc::new(move |count, _| {
                if count == kill_at
                    && let Some(mut child) = lock(&armed).take()
                {
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
            }),
        );
        let store = scratch.open();
        fill(&store, 0..10);
        checkpoint(&store, URL, None, &server.options()).unwrap();
        server.seen();
        fill(&store, 10..20);
        fill_large(&store, 100, 11 << 20);
        store.close().unwrap();

        let ended = send(&scratch, &server, &victim);
        lock(&victim).take();
        let options = server.options();
        let numbers: Vec<_> = list(URL, &options).unwrap().iter().map(|seen| seen.number).collect();
        assert!([&[1][..], &[1, 2], &[2]].contains(&&*numbers), "killed at request {kill_at}: {numbers:?}");
        let verified = verify(URL, &options).unwrap();
        assert!(verified.is_sound(), "killed at request {kill_at}: {verified:?}");
        let newest = numbers.last().copied().unwrap_or_default();
        restore(URL, scratch.path("again"), None, &options).unwrap();
        let again = RolloutStore::options().read_only(true).open(scratch.path("again")).unwrap();
        assert_eq!(again.len(), if newest == 1 { 10 } else { 21 }, "killed at request {kill_at}");
        seen = if newest == 1 { (seen.0 + 1, seen.1) } else { (seen.0, seen.1 + 1) };

        // Notes of the one that was killed hold nobody up for long, and what it left beside the store goes.
        let store = scratch.open();
        fill(&store, 200..210);
        let next = checkpoint(&store, URL, None, &options.lease(LEASE)).unwrap();
        assert_eq!((next.number, next.segments), (newest + 1, 3), "killed at request {kill_at}");
        assert_eq!(left_over(&scratch), [""; 0], "killed at request {kill_at}");
        if ended {
            break;
        }
        kill_at += 1;
    }
    assert!(seen.0 > 8 && seen.1 > 3, "killed before and behind the moment: {seen:?}");
}
