//! The store's figures, flat.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rollstore::StatsCounters;

use crate::call::{asked, detached};
use crate::store::Store;

#[pymethods]
impl Store {
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
        let stats = detached(py, || self.store().stats())?;
        let checkpoint = stats.last_checkpoint.as_ref();
        let all = PyDict::new(py);
        let numbers = [
            ("live", Some(stats.live)),
            ("tokens", Some(stats.tokens)),
            ("partials", Some(stats.partials)),
            ("missing", Some(stats.missing)),
            ("stale", Some(stats.stale)),
            ("out_of_window", Some(stats.out_of_window)),
            ("ref_version", Some(stats.ref_version)),
            ("ref_label", stats.ref_label),
            ("kl_ref_version", Some(stats.kl_ref_version)),
            ("clock", stats.clock),
            ("oldest_born_step", stats.oldest_born_step),
            ("window", Some(stats.window)),
            ("max_version_lag", Some(stats.max_version_lag)),
            ("log_bytes", Some(stats.log_bytes)),
            ("live_bytes", Some(stats.live_bytes)),
            ("pinned_bytes", Some(stats.pinned_bytes)),
            ("appended_bytes", Some(stats.appended_bytes)),
            ("compacted_bytes", Some(stats.compacted_bytes)),
            ("index_bytes", Some(stats.index_bytes)),
            ("segments", Some(stats.segments)),
            ("last_lsn", Some(stats.last_lsn.get())),
            ("durable_lsn", Some(stats.durable_lsn.get())),
            ("last_checkpoint_lsn", checkpoint.map(|last| last.lsn.get())),
            ("last_checkpoint_step", checkpoint.and_then(|last| last.step)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                all.set_item(name, number)?;
            }
        }
        set_counters(&all, &stats.counters)?;
        Ok((all, stats.warnings))
    }

    /// The counters of [`Self::stats`] alone: looks at no rollout.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let past = asked(py, || self.store().past())?;
        let all = PyDict::new(py);
        set_counters(&all, &past.counters)?;
        Ok(all)
    }
}

fn set_counters(all: &Bound<'_, PyDict>, counters: &StatsCounters) -> PyResult<()> {
    all.set_item("inserted", counters.inserted)?;
    all.set_item("asked", counters.asked)?;
    all.set_item("served", counters.served)?;
    all.set_item("computed", counters.computed)?;
    all.set_item("dropped", counters.dropped)?;
    all.set_item("retired_unused", counters.retired_unused)?;
    counters.retired.iter().try_for_each(|(reason, count)| all.set_item(format!("retired_{}", reason.name()), count))
}
