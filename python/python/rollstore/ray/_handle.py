"""What stands where the native half's store does: the one seam between :class:`rollstore.RolloutStore` and its shards."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _rollstore as native
from .._arrays import U64
from ..errors import InvalidError
from ._answers import View
from ._plans import Budget, ShardedPlan
from ._reads import Reads
from ._sent import SentBatch
from ._sweeps import sweep
from ._updating import WeightUpdate

ATTEMPTS_MAX = 3
"""Times that a function is asked for results that came too late, since an actor restarted meanwhile."""


class Handle(Reads):
    """Plans, writes that are no batch, and upkeep."""

    _updating: threading.Thread | None = None
    path: str = ""

    def begin_batch(self) -> SentBatch:
        return SentBatch(self.calls)

    def _planning(self) -> View:
        """Where the service stands, once no weight update is under way."""
        if self._updating is threading.current_thread():
            raise InvalidError("called from inside a weight update: it waits for the end of that")
        return self.calls.look(wait_for_update=True)

    def _plan_of(self, name: str, ids: U64, step: int) -> ShardedPlan:
        self._planning()
        split = self.calls.split(ids) or {0: np.empty(0, np.intp)}
        told = self.calls.read("plan", {shard: (name, (ids[rows], step)) for shard, rows in split.items()}, split)
        for shard, rows in split.items():
            told[shard]["positions"] = rows[told[shard]["positions"]]
        plan = ShardedPlan(self.calls, told, step, next(iter(told.values()))["version"], self.bounds)
        return plan.ordered(np.argsort(plan.positions, kind="stable"))

    def plan_for(self, ids: U64, step: int) -> ShardedPlan:
        return self._plan_of("plan_for", ids, step)

    def plan_kl_ref_for(self, ids: U64, step: int) -> ShardedPlan:
        return self._plan_of("plan_kl_ref_for", ids, step)

    def plan_due(self, step: int, budget: Budget) -> ShardedPlan:
        self._planning()
        told = self.calls.read("plan_due", dict.fromkeys(range(self.calls.shards), (step, budget)))
        plan = ShardedPlan(self.calls, told, step, told[0]["version"], self.bounds)
        born = np.concatenate([part["born"] for part in told.values()])
        return plan.ordered(np.lexsort((plan.ids, born))).fitting(budget)

    def get_or_compute(
        self, ids: U64, step: int, function: Callable[[Any], Any], pad: float, left: bool
    ) -> tuple[npt.NDArray[np.float32], int, Any, npt.NDArray[np.uint8]]:
        """As the native half's: values, length of a row, lengths, and of each row 0 stored, 1 computed, 2 declined, 3 late."""
        results: dict[int, tuple[int, bool]] = {}
        for _ in range(ATTEMPTS_MAX):
            plan = self.plan_for(ids, step)
            if not len(plan):
                break
            computed = function(plan)
            batch = self.begin_batch()
            batch.apply(plan, computed)
            _, _, applied, _ = batch.commit(self)
            given = np.ones(len(plan), bool) if computed[2] is None else computed[2]
            results.update((int(id), (plan.ref_version, bool(has))) for id, has in zip(plan.ids, given, strict=True))
            if not applied[0][1]:
                break
        split = self.calls.split(ids) or {0: np.empty(0, np.intp)}
        found = self.calls.read("served", {shard: (ids[rows],) for shard, rows in split.items()}, split)
        rows_of: list[Any] = [None] * len(ids)
        sources = np.zeros(len(ids), np.uint8)
        for shard, rows in split.items():
            for row, (version, born, logps) in zip(rows.tolist(), found[shard], strict=True):
                rows_of[row] = np.empty(0, np.float32) if logps is None else logps
                planned, has = results.get(int(ids[row]), (version, False))
                if int(ids[row]) in results:
                    sources[row] = 2 if not has else 1 if (version, born) == (planned, step) else 3
                elif logps is None:
                    sources[row] = 3
        lens = np.array([len(row) for row in rows_of], np.int64)
        values = np.full((len(ids), int(lens.max(initial=0))), pad, np.float32)
        for line, row in zip(values, rows_of, strict=True):
            line[len(line) - len(row) if left else 0 :][: len(row)] = row
        return values.reshape(-1), values.shape[1], lens, sources

    def sweep(self, *args: Any) -> tuple[int, int, int, int, list[Any], bool]:
        return sweep(self, *args)

    def forget_sweep(self, name: str) -> bool:
        return any(self.calls.control("forget_sweep", name))

    def advance_ref_version(self, step: int, label: int | None = None) -> int:
        return self.calls.operate("advance_ref_version", step, label)

    def advance_kl_ref_version(self, label: int | None = None) -> int:
        return self.calls.operate("advance_kl_ref_version", label)

    def begin_weight_update(self, step: int) -> WeightUpdate:
        self._planning()
        update = WeightUpdate(self.calls, self.calls.operate("begin_update", step), step, self._ended)
        self._updating = threading.current_thread()
        return update

    def _ended(self) -> None:
        self._updating = None

    def rewind(self, step: int, keep: bool) -> int:
        clock = self.clock()
        if clock is None:
            raise InvalidError(f"the store has no clock yet, it cannot be rewound to step {step}")
        return self.calls.operate("rewind", step, keep, clock)

    def abandon_partials(self, ids: U64) -> int:
        begun = sum(one is not None for one in self.read_partials(np.unique(ids)))
        batch = self.begin_batch()
        batch.abandon_partials(ids)
        batch.commit(self)
        return begun

    def allocate_ids(self, count: int) -> U64:
        floor = max(self.calls.each("allocate", *[()] * self.calls.shards))
        first, end = self.calls.operate("allocate_ids", count, floor)
        return np.arange(first, end, dtype=np.uint64)

    def checkpoint(self, dir: Any) -> int:
        return self.checkpoint_to(os.path.abspath(dir), None)[0]

    def checkpoint_to(self, url: str, keep: int | None) -> tuple[int, str | None]:
        return self.calls.coordinator("checkpoint", secrets.token_hex(8), url, keep)

    def compact(self, bytes: int | None) -> tuple[int, int, bool]:
        done = self.calls.control("compact", bytes)
        return sum(one[0] for one in done), sum(one[1] for one in done), all(one[2] for one in done)

    def verify(self) -> native.Verified:
        seen = self.calls.control("verify")
        sums = [sum(one[place] for one in seen) for place in (2, 3, 4)]
        return all(one[0] for one in seen), False, sums[0], sums[1], sums[2], [each for one in seen for each in one[5]]

    def sync(self) -> None:
        self.calls.control("sync")

    def durable_lsn(self) -> int:
        """Numbers of commits are the shards' own: the lowest of the highest that each has on disk."""
        return min(self.calls.control("durable_lsn"))

    def wait_durable(self, lsn: int) -> None:
        self.sync()
