"""What calls of the store return."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._arrays import I64, Bools


class Padded(NamedTuple):
    """Rows of different lengths in one array."""

    values: Any
    """Shape ``[rows, longest]``: the caller's own buffer, where one was given."""
    lens: I64
    """The number of values in each row; the rest of it is padding. Shape ``[rows]``."""


class Flat(NamedTuple):
    """Rows behind each other, without padding."""

    values: npt.NDArray[Any]
    """The values of all rows. Shape ``[sum of lengths]``."""
    cu_seqlens: npt.NDArray[np.int32]
    """``values[cu_seqlens[i]:cu_seqlens[i + 1]]`` is row ``i``. Shape ``[rows + 1]``, as variable-length attention takes it."""


class Served(NamedTuple):
    """Old log-probs, fresh."""

    values: npt.NDArray[np.float32]
    """Shape ``[rows, longest]``, in nats."""
    lens: I64
    """The number of values in each row; the rest of it is padding. Shape ``[rows]``."""
    computed: Bools
    """Which rows were computed in this call; the others were stored. Shape ``[rows]``."""


class Staleness(NamedTuple):
    """Why old log-probs are fresh or not, one value for each rollout. Any flags may be set together."""

    missing: Bools
    """There are no old logps yet."""
    stale: Bools
    """More than ``max_version_lag`` advances behind, or of a version that a restore or rewind abandoned."""
    out_of_window: Bools
    """``age > window``."""
    from_future: Bools
    """Born more than the step skew after the step asked about."""
    age: I64
    """Steps since the born step; 0 for one that is ahead."""
    lag: I64
    """Advances since the old logps' version; -1 for a version of an abandoned future."""

    @property
    def fresh(self) -> Bools:
        """Which may be used as they are."""
        return ~(self.missing | self.stale | self.out_of_window | self.from_future)


class Recomputed(NamedTuple):
    """What :meth:`RolloutStore.recompute` did."""

    computed: int
    """Results that were stored."""
    dropped: int
    """Results that came late."""
    declined: int
    """Rollouts that the function gave no result for."""
    micro_batches: int
    """Calls of the function, those with an empty plan too."""


class SetAside(NamedTuple):
    """A rollout whose computation failed in a sweep."""

    id: int
    attempts: int
    given_up: bool
    reason: str


class Swept(NamedTuple):
    """What :meth:`RolloutStore.sweep` did."""

    computed: int
    """Results that were stored."""
    dropped: int
    """Results that came late."""
    failed: int
    """Attempts that gave nothing that could be stored."""
    micro_batches: int
    """Calls of the function that came back, each with a commit of its own."""
    set_aside: list[SetAside]
    """Rollouts whose computation failed and did not succeed since."""
    finished: bool
    """Whether nothing is left but what was given up."""


class Compacted(NamedTuple):
    """What a compaction did."""

    copied_bytes: int
    freed_bytes: int
    is_done: bool
    """Whether nothing is left that would be worth copying."""


class Finding(NamedTuple):
    """One damaged place."""

    path: str
    offset: int
    expected: str
    found: str
    ids: list[int]
    """Rollouts whose data is affected, as far as the damaged bytes still tell."""


class Verification(NamedTuple):
    """What :func:`verify` saw."""

    is_sound: bool
    is_checkpoint: bool
    segments: int
    frames: int
    bytes: int
    findings: list[Finding]
