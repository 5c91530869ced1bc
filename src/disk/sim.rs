//! A file system in memory that loses power.
//!
//! May touch nothing outside of memory. Knows nothing of what the bytes mean.
//!
//! Always true:
//! - S1. Only a data sync makes a file's bytes and length durable; only a sync of its directory makes a name durable. A
//!   file may be durable without its name, and a name without its file's bytes.
//! - S2. What [`SimDisk::crash`] finds follows from the operations, the image's style and its seed alone.
//! - S3. A rename or exchange is atomic: of its two names both changed or neither, in every image.
//! - S4. Bytes that were durable and that nobody wrote to since are in every image, unchanged. A durable byte that was
//!   written to without a sync is the old one or the new one, never something else.
//! - S5. After a failed data sync the unsynced bytes can still be read, until the power goes, and no later sync saves
//!   them: this is what Linux does.
//! - S6. Once the power is cut, or the machine was given to a successor, every operation fails and changes nothing.

mod content;
mod fault;
mod handle;
mod image;
mod ops;
mod random;
mod state;
mod tree;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use fault::Fault;
pub use image::{CrashImage, ImageStyle};

use super::recorder::Recorder;
pub use super::recorder::{Op, OpCounts, OpKind, TRACE_OPS_MAX};
use crate::sync::Mutex;
use state::State;

/// A file system in memory that loses power, fails and fills up as it is told. Clones are the same disk.
///
/// Directories other than the root must be created. Relative paths start at the root.
///
/// # What is left after the power failed?
/// ```
/// use std::io::IoSlice;
/// use rollstore::disk::{Access, Disk};
/// use rollstore::disk::sim::{CrashImage, ImageStyle, SimDisk};
///
/// let disk = SimDisk::new();
/// let file = disk.create("log".as_ref())?;
/// file.write_all_vectored_at(&mut [IoSlice::new(b"kept")], 0)?;
/// file.sync_data()?;
/// disk.sync_dir("".as_ref())?;
/// file.write_all_vectored_at(&mut [IoSlice::new(b"lost")], 4)?;
///
/// let image = CrashImage { seed: 1, style: ImageStyle::NothingUnsynced };
/// let after = disk.crash(image);
/// let mut found = [0; 4];
/// let file = after.open("log".as_ref(), Access::Read)?;
/// assert_eq!(file.len()?, 4);
/// file.read_exact_at(&mut found, 0)?;
/// assert_eq!(&found, b"kept");
/// # std::io::Result::Ok(())
/// ```
///
/// # What if the power fails at the n-th operation?
/// ```
/// use rollstore::disk::Disk;
/// use rollstore::disk::sim::{CrashImage, Fault, ImageStyle, SimDisk};
///
/// let workload = |disk: &SimDisk| -> std::io::Result<()> {
///     let file = disk.create("new".as_ref())?;
///     file.set_len(10)?;
///     file.sync_data()?;
///     disk.rename("new".as_ref(), "current".as_ref())?;
///     disk.sync_dir("".as_ref())
/// };
/// let whole = SimDisk::new();
/// workload(&whole)?;
/// for number in 0..whole.operation_count() {
///     let disk = SimDisk::new();
///     disk.fail_at(number, Fault::PowerCut);
///     workload(&disk).unwrap_err();
///     for seed in 0..10 {
///         let after = disk.crash(CrashImage { seed, style: ImageStyle::TornSectors });
///         if after.entry_kind("current".as_ref())?.is_some() {
///             let file = after.open("current".as_ref(), rollstore::disk::Access::Read)?;
///             assert_eq!(file.len()?, 10, "the name came after the sync");
///         }
///     }
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    machine: Arc<Machine>,
}

/// What all handles of one disk share.
#[derive(Default)]
struct Machine {
    state: Mutex<State>,
    recorder: Recorder,
}

impl SimDisk {
    /// An empty disk without faults, without a limit of size, and with everything supported but maps.
    #[must_use]
    pub fn new() -> Self {
        Self { machine: Arc::default() }
    }

    /// Whether files can be given a second name; if not, it is refused with `PermissionDenied`, as Linux does.
    #[must_use]
    pub fn with_hard_links(self, supported: bool) -> Self {
        self.machine.state.lock().options.hard_links = supported;
        self
    }

    /// Whether files can be locked; if not, the error is of kind `Unsupported`.
    #[must_use]
    pub fn with_locks(self, supported: bool) -> Self {
        self.machine.state.lock().options.locks = supported;
        self
    }

    /// Whether two names can be exchanged; if not, the error is of kind `Unsupported`.
    #[must_use]
    pub fn with_exchange(self, supported: bool) -> Self {
        self.machine.state.lock().options.exchange = supported;
        self
    }

    /// Bytes that all reachable files together may have, `None` for no limit. A write beyond it writes what fits and then
    /// fails with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine.state.lock().options.capacity_bytes = bytes;
    }

    /// The number of operations begun so far, which is the number that the next one gets.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.machine.recorder.operations()
    }

    /// Lets the operation with this number fail. See [`Self::operation_count`] and [`Op::number`].
    pub fn fail_at(&self, number: u64, fault: Fault) {
        self.machine.state.lock().faults.fail_at(number, fault);
    }

    /// Lets the operation with this number and all later ones fail, until [`Self::heal`].
    pub fn fail_from(&self, number: u64, fault: Fault) {
        self.machine.state.lock().faults.fail_from(number, fault);
    }

    /// Makes the next operation of this kind on a file of this name fail, whatever other threads do meanwhile.
    pub fn fail_next(&self, kind: OpKind, name: &str, fault: Fault) {
        self.machine.state.lock().faults.fail_next(kind, name, fault);
    }

    /// Takes all faults back that have not struck yet. A power cut stays one.
    pub fn heal(&self) {
        self.machine.state.lock().faults.clear();
    }

    /// The disk as it is found after the power was cut now (or earlier, by [`Fault::PowerCut`]). This one is dead from
    /// then on; it can still be asked for other images of the same moment.
    #[must_use]
    pub fn crash(&self, image: CrashImage) -> Self {
        self.machine.state.lock().dead = true;
        self.as_if_crashed(image)
    }

    /// The disk as it would be found if the power were cut now. This one goes on.
    #[must_use]
    pub fn as_if_crashed(&self, image: CrashImage) -> Self {
        let state = self.machine.state.lock();
        Self::with(State::after(&state, image::draw(&state.tree, image)))
    }

    /// The disk as the next process finds it after this one was killed: all that was written is there, and what was not
    /// durable is still not. Locks are free. This handle is dead from then on.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.machine.state.lock();
        state.dead = true;
        let mut tree = state.tree.clone();
        tree.forget_unnamed();
        Self::with(State::after(&state, tree))
    }

    /// A number that follows from all names and from the bytes that are read under them: where two disks differ in any,
    /// theirs do too, but by a rare chance.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.machine.state.lock().tree.fingerprint()
    }

    /// How many operations succeeded since the start or the last [`Self::clear_trace`].
    #[must_use]
    pub fn counts(&self) -> OpCounts {
        self.machine.recorder.counts()
    }

    /// The operations since the start or the last [`Self::clear_trace`], in the order of their ends.
    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        self.machine.recorder.trace()
    }

    /// The tick that the next begin or end of an operation gets: compare it with [`Op::begun`] and [`Op::ended`].
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.machine.recorder.tick()
    }

    /// Forgets counts and trace. Numbers and ticks go on.
    pub fn clear_trace(&self) {
        self.machine.recorder.clear();
    }

    fn with(state: State) -> Self {
        Self { machine: Arc::new(Machine { state: Mutex::new(state), recorder: Recorder::default() }) }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("operations", &self.operation_count()).finish_non_exhaustive()
    }
}

/// The error of a medium that does not answer.
fn io_error() -> io::Error {
    rustix::io::Errno::IO.into()
}
