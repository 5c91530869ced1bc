//! Stores in directories that vanish with them, and the smallest rollouts and models that a test of behaviour needs.
//!
//! May touch the public API alone. Knows nothing of faults.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rollstore::{Error, ErrorKind, NewRollout, Options, Plan, Results, RolloutId, RolloutStore};

/// A directory for one test: a store's place, and room beside it for checkpoints. Removed when dropped.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// A fresh directory.
    ///
    /// # Panics
    /// Where the system gives none.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a directory is made, which `default` does not say")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// The store's directory. It does not exist until a store is opened.
    #[must_use]
    pub fn store_dir(&self) -> PathBuf {
        self.path("rollouts")
    }

    /// A path beside the store.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens the store with a window of 8 and no lag.
    ///
    /// # Panics
    /// Where it does not open.
    #[must_use]
    pub fn open(&self) -> RolloutStore {
        self.open_with(|options| options)
    }

    /// Opens the store, with the options that [`Scratch::open`] has changed by `adjust`.
    ///
    /// # Panics
    /// Where it does not open.
    #[must_use]
    pub fn open_with(&self, adjust: impl FnOnce(Options) -> Options) -> RolloutStore {
        let options = adjust(RolloutStore::options().window(8));
        options.open(self.store_dir()).expect("the store opens")
    }

    /// Closes the store, restores a checkpoint of it and opens it again.
    ///
    /// # Panics
    /// Where one of these fails.
    #[must_use]
    pub fn restored(&self, store: RolloutStore, checkpoint: impl AsRef<Path>) -> RolloutStore {
        store.close().expect("the store closes");
        RolloutStore::restore(checkpoint, self.store_dir()).expect("the checkpoint is restored");
        self.open()
    }
}

/// Whether a name in a store's directory is of a file that a thread of the open store writes when it has the time: a test that
/// compares files leaves these out.
#[must_use]
pub fn is_written_behind(name: &OsStr) -> bool {
    name == "index.redb" || name == "RESERVE"
}

/// Ids of these numbers.
#[must_use]
pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<RolloutId> {
    numbers.into_iter().map(RolloutId::new).collect()
}

/// A rollout of three completion tokens, without log-probs.
pub fn bare(id: u64, created_step: u64) -> NewRollout<'static> {
    NewRollout::new(id, created_step).completion_ids(vec![1, 2, 3])
}

/// A rollout of three completion tokens whose old logps are all `logp`, made by `version`.
pub fn with_old(id: u64, created_step: u64, logp: f32, version: u64) -> NewRollout<'static> {
    bare(id, created_step).old_logps(vec![logp; 3], version)
}

/// A model by which every token has the log-prob `logp`.
///
/// # Panics
/// The model does, where a rollout's completion cannot be read.
pub fn model(logp: f32) -> impl Fn(&Plan) -> Result<Results, Infallible> {
    move |work| {
        let forward = |tokens: &[u32]| vec![logp; tokens.len()];
        let row = |rollout: &rollstore::Rollout| {
            (rollout.id(), forward(rollout.completion_ids().expect("the completion can be read")))
        };
        Ok(work.rollouts().map(row).collect())
    }
}

/// Results by [`model`], for a plan that is applied by hand.
///
/// # Panics
/// As for [`model`].
#[must_use]
pub fn results(plan: &Plan, logp: f32) -> Results {
    model(logp)(plan).unwrap_or_default()
}

/// What a refused call must leave as it was: live rollouts, the last frame, the cursor, clock and versions.
///
/// # Panics
/// Where the store is closed.
#[must_use]
pub fn outline(store: &RolloutStore) -> impl PartialEq + std::fmt::Debug + use<> {
    let stats = store.stats().expect("an open store");
    (store.ids(), stats.last_lsn, store.cursor(), store.clock(), store.ref_version(), store.kl_ref_version())
}

/// Asserts that an error is of this kind, and that its message holds all of `parts`.
///
/// # Panics
/// Where it is not so.
#[track_caller]
pub fn assert_says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}
