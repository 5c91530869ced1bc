//! Flags of many rollouts at once, one array for each.

use numpy::PyArray1;
use pyo3::prelude::*;
use rollstore::Staleness;

/// Missing, stale, out of window, from future, age, lag (-1: of an abandoned version).
pub(crate) type Flags = (
    Py<PyArray1<bool>>,
    Py<PyArray1<bool>>,
    Py<PyArray1<bool>>,
    Py<PyArray1<bool>>,
    Py<PyArray1<i64>>,
    Py<PyArray1<i64>>,
);

/// The flags as arrays.
pub(crate) fn flags(py: Python<'_>, staleness: impl Iterator<Item = Staleness>) -> Flags {
    let all: Vec<Staleness> = staleness.collect();
    let flag = |of: fn(&Staleness) -> bool| PyArray1::from_vec(py, all.iter().map(of).collect()).unbind();
    let number = |of: fn(&Staleness) -> i64| PyArray1::from_vec(py, all.iter().map(of).collect()).unbind();
    (
        flag(|of| of.missing),
        flag(|of| of.stale),
        flag(|of| of.out_of_window),
        flag(|of| of.from_future),
        number(|of| i64::try_from(of.age).unwrap_or(i64::MAX)),
        number(|of| of.lag.map_or(-1, |lag| i64::try_from(lag).unwrap_or(i64::MAX))),
    )
}
