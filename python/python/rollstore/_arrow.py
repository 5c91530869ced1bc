"""Rollouts as a table of Apache Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _rollstore as native
from ._arrays import U64
from ._insert import WELL_KNOWN

if TYPE_CHECKING:
    from ._reading import Reading


def table(store: Reading, ids: U64, columns: Sequence[str] | None) -> Any:
    """One row for each rollout."""
    import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]

    arrow: Any = pa
    rollouts = [store[int(id)] if found is None else found for id, found in zip(ids, store.get_many(ids), strict=True)]
    if columns is None:
        own = [name for name, *_ in rollouts[0].columns() if name not in WELL_KNOWN] if rollouts else []
        columns = [name for name in WELL_KNOWN if any(name in rollout for rollout in rollouts)] + own
    fields: dict[str, Any] = {
        "id": arrow.array(ids, arrow.uint64()),
        "created_step": arrow.array([rollout.created_step for rollout in rollouts], arrow.uint64()),
        "born_step": arrow.array([rollout.born_step for rollout in rollouts], arrow.uint64()),
        "ref_version": arrow.array([rollout.ref_version for rollout in rollouts], arrow.uint64()),
        "group_id": arrow.array([rollout.group_id for rollout in rollouts], arrow.uint64()),
        "reward": arrow.array([rollout.reward for rollout in rollouts], arrow.float32()),
        "advantage": arrow.array([rollout.advantage for rollout in rollouts], arrow.float32()),
    }
    for name in columns:
        fields[name] = _lists(arrow, rollouts, native.column_name(name))
    return arrow.table(fields)


def _lists(arrow: Any, rollouts: list[native.Rollout], name: str) -> Any:
    rows = [np.asarray(rollout[name]) if name in rollout else None for rollout in rollouts]
    first = next((row for row in rows if row is not None), np.empty(0, WELL_KNOWN.get(name, "float32")))
    if first.dtype.name == "bfloat16":
        # Arrow has no bfloat16: float32 holds every value of it.
        rows = [None if row is None else row.astype(np.float32) for row in rows]
        first = first.astype(np.float32)
    return arrow.array(rows, arrow.list_(arrow.from_numpy_dtype(first.dtype)))
