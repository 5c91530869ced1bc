"""Reads of a service, merged: what the native half's store answers for one store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _rollstore as native
from .._arrays import I64, U64, bfloat16, dtype_name
from ..errors import InvalidError
from ._calls import Calls
from ._packing import RemoteRollout, unpack

Ask = tuple[str, "str | None", int, bool]
Pad = tuple[float, bool]

IN_ORDER = frozenset(("all", "missing"))
"""Scans that come oldest born first, then by id. A group comes by id; the others promise no order, and keep the shards' order."""


class Reads:
    """The part of the store's handle that only reads."""

    def __init__(self, calls: Calls, window: int, max_version_lag: int, skew: int) -> None:
        self.calls = calls
        self.window, self.max_version_lag = window, max_version_lag
        self.bounds = window, skew

    def ref_version(self) -> int:
        return self.calls.look().version

    def kl_ref_version(self) -> int:
        return self.calls.look().kl_version

    def ref_version_of(self, label: int) -> int | None:
        return self.calls.coordinator("ask", "ref_version_of", label)

    def cursor(self) -> bytes | None:
        return self.calls.coordinator("ask", "cursor")

    def clock(self) -> int | None:
        """The highest step of the coordinator, which advances, and of the shards, which apply."""
        clocks = [self.calls.coordinator("ask", "clock"), *self.calls.read_all("clock")]
        return max((clock for clock in clocks if clock is not None), default=None)

    def __len__(self) -> int:
        return sum(stats["live"] for stats, _ in self.calls.read_all("stats"))

    def get(self, id: int) -> RemoteRollout | None:
        return self.get_many(np.array([id], np.uint64))[0]

    def get_many(self, ids: U64) -> list[RemoteRollout | None]:
        split = self.calls.split(ids)
        found = self.calls.read("views", {shard: (ids[rows],) for shard, rows in split.items()}, split)
        rollouts: list[RemoteRollout | None] = [None] * len(ids)
        for shard, rows in split.items():
            for row, rollout in zip(rows.tolist(), unpack(found[shard], *self.bounds), strict=True):
                rollouts[row] = rollout
        return rollouts

    def staleness(self, ids: U64, step: int) -> tuple[Any, ...]:
        split = self.calls.split(ids)
        found = self.calls.read("staleness", {shard: (ids[rows], step) for shard, rows in split.items()}, split)
        flags = [np.zeros(len(ids), dtype) for dtype in (bool, bool, bool, bool, np.int64, np.int64)]
        for shard, rows in split.items():
            for flag, part in zip(flags, found[shard], strict=True):
                flag[rows] = part
        return tuple(flags)

    def scan(self, question: str, of: int) -> U64:
        parts = self.calls.read_all("scan", question, of)
        ids = np.concatenate([part[0] for part in parts])
        if question in IN_ORDER:
            return ids[np.lexsort((ids, np.concatenate([part[1] for part in parts])))]
        return np.sort(ids) if question == "group" else ids

    def count(self, question: str, of: int) -> int:
        return sum(self.calls.read_all("count", question, of))

    def would_recompute(self, step: int, window: int, max_version_lag: int) -> int:
        return sum(self.calls.read_all("would_recompute", step, window, max_version_lag))

    def diagnose(self, step: int) -> str:
        lines = self.calls.read_all("diagnose", step)
        return lines[0] if len(lines) == 1 else "; ".join(f"shard {shard}: {line}" for shard, line in enumerate(lines))

    def partials(self) -> list[Any]:
        return sorted((one for part in self.calls.read_all("partials") for one in part), key=lambda one: (one[1], one[0]))

    def read_partials(self, ids: U64) -> list[Any]:
        split = self.calls.split(ids)
        found = self.calls.read("read_partials", {shard: (ids[rows],) for shard, rows in split.items()}, split)
        partials: list[Any] = [None] * len(ids)
        for shard, rows in split.items():
            for row, partial in zip(rows.tolist(), found[shard], strict=True):
                partials[row] = partial
        return partials

    def _gathered(self, ids: U64, ask: Ask) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
        """The rows in order, each a view of its shard's answer; and an empty array of their type."""
        split = self.calls.split(ids) or {0: np.empty(0, np.intp)}
        found = self.calls.read("gather_flat", {shard: (ids[rows], ask) for shard, rows in split.items()}, split)
        rows_of: list[Any] = [None] * len(ids)
        dtypes: set[str] = set()
        empty = np.empty(0, np.float32)
        for shard, rows in split.items():
            dtype, values, ends = found[shard]
            values = _typed(dtype, values)
            dtypes.add(dtype)
            empty = values[:0]
            begin = 0
            for row, end in zip(rows.tolist(), _ends(ends, len(rows)), strict=True):
                rows_of[row] = values[begin:end]
                begin = end
        if len(dtypes) > 1:
            raise InvalidError(f"{ask[0]} holds {' and '.join(sorted(dtypes))} values; ask for rollouts of one type")
        return empty, rows_of

    def gather_flat(self, ids: U64, ask: Ask) -> tuple[str, npt.NDArray[Any], U64]:
        empty, rows = self._gathered(ids, ask)
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum([len(row) for row in rows], dtype=np.uint64)])
        return dtype_name(empty.dtype), np.concatenate([empty, *rows]), ends

    def gather_padded(self, ids: U64, ask: Ask, pad: Pad) -> tuple[str, npt.NDArray[Any], int, I64]:
        empty, rows = self._gathered(ids, ask)
        lens = np.array([len(row) for row in rows], np.int64)
        out = np.empty((len(rows), int(lens.max(initial=0))), empty.dtype)
        _fill(out, rows, pad)
        return dtype_name(empty.dtype), out.reshape(-1), out.shape[1], lens

    def gather_out(self, ids: U64, ask: Ask, out: npt.NDArray[Any], pad: Pad) -> I64 | None:
        fits = out.ndim == 2 and len(out) == len(ids) and out.flags.c_contiguous and out.flags.writeable
        return self._gather_to(ids, ask, out, pad) if fits else None

    def gather_into(self, ids: U64, ask: Ask, out: npt.NDArray[np.uint8], shape: tuple[str, int], pad: Pad) -> I64:
        dtype = bfloat16 if shape[0] == "bfloat16" else np.dtype(shape[0])
        return self._gather_to(ids, ask, out.view(dtype).reshape(len(ids), shape[1]), pad)

    def _gather_to(self, ids: U64, ask: Ask, out: npt.NDArray[Any], pad: Pad) -> I64:
        empty, rows = self._gathered(ids, ask)
        found, wanted = dtype_name(empty.dtype), dtype_name(out.dtype)
        if found != wanted and (found, wanted) not in WIDER:
            raise InvalidError(f"{native.column_name(ask[0])} holds {found} values, out is of {wanted}; nothing is narrowed")
        lens = np.array([len(row) for row in rows], np.int64)
        if lens.max(initial=0) > out.shape[1]:
            row = int(np.argmax(lens > out.shape[1]))
            raise InvalidError(f"row {row} has {lens[row]} values, out holds {out.shape[1]} a row; none is cut")
        _fill(out, rows, pad)
        return lens

    def stats(self) -> tuple[dict[str, int], list[str]]:
        """The shards' figures together: sums, but for clocks, versions and bounds, which are the service's."""
        parts = self.calls.read_all("stats")
        view, clock = self.calls.view, self.clock()
        total: dict[str, int] = {}
        for stats, _ in parts:
            for name, number in stats.items():
                total[name] = total.get(name, 0) + number
        total.update(ref_version=view.version, kl_ref_version=view.kl_version)
        total.update({name: parts[0][0][name] for name in ("window", "max_version_lag") if name in parts[0][0]})
        born = [stats["oldest_born_step"] for stats, _ in parts if "oldest_born_step" in stats]
        total.pop("ref_label", None)
        total.pop("clock", None)
        if born:
            total["oldest_born_step"] = min(born)
        if clock is not None:
            total["clock"] = clock
        restored = self.calls.each("facts", *[()] * self.calls.shards)
        warnings = [f"shard {shard}: {warning}" for shard, (_, told) in enumerate(parts) for warning in told]
        warnings += [
            f"shard {shard} lost its disk and came back from the last checkpoint: what it was told after that is lost"
            for shard, facts in enumerate(restored)
            if facts["restored"]
        ]
        return total, warnings


WIDER = frozenset((("uint32", "int64"), ("uint8", "int64"), ("int32", "int64"), ("float16", "float32"), ("bfloat16", "float32")))
"""Types of columns, and of buffers that hold all their values."""


def _typed(dtype: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values as numbers of their type."""
    if dtype == "float16":
        return values.view(np.float16)
    return values.view(bfloat16) if dtype == "bfloat16" else values


def _ends(ends: U64, count: int) -> list[int]:
    """Where each row ends, whether or not the first begin is told with them."""
    return ends[len(ends) - count :].tolist()


def _fill(out: npt.NDArray[Any], rows: Iterable[npt.NDArray[Any]], pad: Pad) -> None:
    """Writes rows into a buffer, and the padding beside them."""
    value, is_left = pad
    width = out.shape[1]
    for line, row in zip(out, rows, strict=True):
        gap = width - len(row)
        if is_left:
            line[:gap], line[gap:] = value, row
        else:
            line[: len(row)], line[len(row) :] = row, value
