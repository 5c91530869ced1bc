//! What a background thread waits for: that something is wanted, or that the store closes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::store::core::Core;
use crate::sync::{Condvar, Mutex, thread};

/// Wakes one background thread.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    signal: Mutex<Signal>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Signal {
    wanted: bool,
    stopped: bool,
}

impl Waker {
    /// Asks for a round. Those that are asked for during one become one more.
    pub(crate) fn wake(&self) {
        let was_wanted = std::mem::replace(&mut self.signal.lock().wanted, true);
        // Once is enough: a thread that rests, or is at its round, looks before it waits.
        if !was_wanted {
            self.changed.notify_all();
        }
    }

    /// Ends the thread after the round under way.
    pub(crate) fn stop(&self) {
        self.signal.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether the thread is to end: a long round looks now and then.
    pub(crate) fn is_stopped(&self) -> bool {
        self.signal.lock().stopped
    }

    /// Does nothing for a while, or until stopped.
    pub(crate) fn rest(&self, time: Duration) {
        // A time that no clock reaches is waited for until the store closes.
        let until = Instant::now().checked_add(time);
        let mut signal = self.signal.lock();
        while !signal.stopped {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            self.changed.wait_for(&mut signal, left);
        }
    }

    /// Waits until a round is wanted; false once stopped.
    fn wait(&self) -> bool {
        let mut signal = self.signal.lock();
        while !signal.wanted && !signal.stopped {
            self.changed.wait(&mut signal);
        }
        signal.wanted = false;
        !signal.stopped
    }

    /// Starts a thread that does a round whenever it is woken.
    pub(crate) fn start(
        core: &Arc<Core>,
        name: &str,
        waker: fn(&Core) -> &Self,
        round: fn(&Core),
    ) -> Result<thread::JoinHandle<()>> {
        let shared = Arc::clone(core);
        let run = move || {
            while waker(&shared).wait() {
                round(&shared);
            }
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(run);
        started.map_err(|error| Error::io(format_args!("start the thread {name} for"), &core.dir, error))
    }
}
