//! Opening a store, with all options by their names.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use rollstore::{Durability, Reads, RolloutStore};

use crate::call::interruptible;
use crate::errors::invalid;
use crate::store::Store;

/// What `Store.open` takes beside the path: a dictionary with all of these.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each set by a name of its own")]
struct OpenArgs {
    window: Option<u64>,
    max_version_lag: Option<u64>,
    step_skew: Option<u64>,
    step_jump_max: Option<u64>,
    retire_after: Option<u64>,
    segment_bytes: Option<u64>,
    quota_bytes: Option<u64>,
    /// Seconds; none for a Synced store.
    max_delay: Option<f64>,
    background_compaction: bool,
    run_identity: Option<Vec<u8>>,
    resume_step: Option<u64>,
    create: bool,
    read_only: bool,
    reads: String,
    recheck_always: bool,
}

#[pymethods]
impl Store {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, args: OpenArgs) -> PyResult<Self> {
        let mut options = RolloutStore::options()
            .background_compaction(args.background_compaction)
            .create(args.create)
            .read_only(args.read_only)
            .recheck_always(args.recheck_always);
        options = args.window.map_or(options.clone(), |steps| options.window(steps));
        options = args.max_version_lag.map_or(options.clone(), |lag| options.max_version_lag(lag));
        options = args.step_skew.map_or(options.clone(), |steps| options.step_skew(steps));
        options = args.step_jump_max.map_or(options.clone(), |steps| options.step_jump_max(steps));
        options = args.retire_after.map_or(options.clone(), |steps| options.retire_after(steps));
        options = args.segment_bytes.map_or(options.clone(), |bytes| options.segment_bytes(bytes));
        options = args.quota_bytes.map_or(options.clone(), |bytes| options.quota_bytes(bytes));
        options = args.resume_step.map_or(options.clone(), |step| options.resume_step(step));
        options = args.run_identity.map_or(options.clone(), |identity| options.run_identity(&identity));
        if let Some(seconds) = args.max_delay {
            let max_delay = Duration::try_from_secs_f64(seconds)
                .map_err(|error| invalid(py, &format!("max_delay is {seconds} seconds: {error}")))?;
            options = options.durability(Durability::Buffered { max_delay });
        }
        options = options.reads(match args.reads.as_str() {
            "auto" => Reads::Auto,
            "mapped" => Reads::Mapped,
            "copied" => Reads::Copied,
            other => return Err(invalid(py, &format!("reads is {other:?}, it must be auto, mapped or copied"))),
        });
        let store = interruptible(py, move || options.open(path))?;
        Ok(store.into())
    }
}
