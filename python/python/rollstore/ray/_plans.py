"""Plans of a service: rows that lie with several shards, in one order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._arrays import I64, U64
from ..errors import NotFoundError
from ._calls import Calls, Places
from ._packing import RemoteRollout, unpack

Budget = tuple[int | None, int | None, float | None]


class ShardedPlan:
    """Stands where the native half's plan does for one store.

    Always true: of each shard the rows are in the order of its own plan, one behind the other, so that a slice of these rows is a
    slice of each shard's.
    """

    def __init__(self, calls: Calls, told: dict[int, dict[str, Any]], step: int, version: int, bounds: tuple[int, int]) -> None:
        self._calls, self._bounds = calls, bounds
        self.step, self.ref_version = step, version
        self.made_by: int | None = None
        self._numbers = {shard: part["plan"] for shard, part in told.items()}
        parts = list(told.values())
        self.ids: U64 = _joined([part["ids"] for part in parts], np.uint64)
        self.positions: I64 = _joined([part["positions"] for part in parts], np.int64)
        self.damaged: U64 = _joined([part["damaged"] for part in parts], np.uint64)
        self._tokens: I64 = _joined([part["tokens"] for part in parts], np.int64)
        self._owner: I64 = _joined([np.full(len(part["ids"]), shard) for shard, part in told.items()], np.int64)
        self._row: I64 = _joined([np.arange(len(part["ids"])) for part in parts], np.int64)

    def ordered(self, order: Any) -> ShardedPlan:
        """These rows, picked and ordered."""
        plan = object.__new__(ShardedPlan)
        plan.__dict__.update(self.__dict__)
        for name in ("ids", "positions", "_tokens", "_owner", "_row"):
            plan.__dict__[name] = getattr(self, name)[order]
        return plan

    def fitting(self, budget: Budget) -> ShardedPlan:
        """The first rows that a budget has room for: the first always, unless a limit is 0."""
        rollouts, tokens, seconds = budget
        if 0 in (rollouts, tokens) or seconds == 0:
            return self.ordered(slice(0, 0))
        count = len(self) if rollouts is None else min(rollouts, len(self))
        if tokens is not None:
            count = min(count, max(1, int(np.searchsorted(np.cumsum(self._tokens), tokens, side="right"))))
        return self.ordered(slice(0, count))

    @property
    def token_count(self) -> int:
        return int(self._tokens.sum())

    def part(self, start: int, end: int) -> ShardedPlan:
        return self.ordered(slice(start, end))

    def made_with(self, version: int) -> ShardedPlan:
        plan = self.ordered(slice(None))
        plan.made_by = plan.ref_version = version
        return plan

    def __len__(self) -> int:
        return len(self.ids)

    def by_shard(self) -> Iterator[tuple[int, int, int, int, Places]]:
        """Of each shard: its number, its plan's, begin and end of its rows there, and their rows here."""
        for shard in np.unique(self._owner):
            rows = np.flatnonzero(self._owner == shard)
            first, last = self._row[rows[0]], self._row[rows[-1]]
            yield int(shard), self._numbers[int(shard)], int(first), int(last) + 1, rows

    def lens(self) -> I64:
        """The number of values that each result must have; -1 where nothing tells it."""
        lens = np.full(len(self), -1, np.int64)
        for rows, found in self._asked("plan_lens", "lens"):
            lens[rows] = found
        return lens

    def rollouts(self) -> list[RemoteRollout]:
        """Views of the rollouts, as the plan found them; of a shard that restarted since, as they are now."""
        rollouts: list[Any] = [None] * len(self)
        for rows, found in self._asked("plan_views", "views"):
            for row, rollout in zip(rows.tolist(), unpack(found, *self._bounds), strict=True):
                if rollout is None:
                    raise NotFoundError(f"rollout {self.ids[row]} is not live any more", id=int(self.ids[row]), row=row)
                rollouts[row] = rollout
        return rollouts

    def _asked(self, of_plan: str, of_ids: str) -> Iterator[tuple[Places, Any]]:
        """Of each shard, its rows and what it tells of them: of its plan, or, where it restarted since, of the ids."""
        parts = list(self.by_shard())
        found = self._calls.read(of_plan, {shard: (number, start, end) for shard, number, start, end, _ in parts})
        gone = {shard: (self.ids[rows],) for shard, _, _, _, rows in parts if found[shard] is None}
        found.update(self._calls.read(of_ids, gone))
        return ((rows, found[shard]) for shard, _, _, _, rows in parts)


def _joined(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate([*arrays, np.empty(0, dtype)]).astype(dtype)
