"""The actor that owns a shard."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from .._arrays import U64
from ..errors import Error, InternalError, NotFoundError
from ._answers import Config, Done, Join, OpId, View
from ._cluster import group
from ._cut import Where
from ._gauges import Gauges
from ._keeping import Keeping
from ._packing import Packed, pack
from ._planned import Planned
from ._sweeping import Sweeping

BORN_STEP = 1 << 62
"""A step far above all: an age at it tells a born step."""

PLAIN = frozenset(
    ("clock", "count", "diagnose", "gather_flat", "partials", "read_partials", "staleness", "stats", "would_recompute")
)
"""Reads that the native half answers as they are."""

PER_TOKEN = ("completion_ids", "sampler_logps", "old_logps")
"""Columns that tell how long log-probs are."""

GROUPS = {"read": 4, "write": 8, "control": 2, "transfer": 2, "upkeep": 2}
"""Threads of the actor. Four read at a time, since reads copy and do little else; of those that write one commits, others wait for the
sync that they share or take arguments out of the object store; control (joins, cuts) waits for none of them, nor for what takes
minutes: what carries checkpoints away, and what reads or compacts the whole store."""


class Shard:
    """One embedded store, and the calls of clients and of the coordinator."""

    def __init__(self, config: Config, shard: int) -> None:
        self._planned = Planned()
        self._keeping = Keeping(config, shard, self._planned)
        self._sweeping = Sweeping(self._planned)
        self._gauges = Gauges(config.name, shard)

    @group("read")
    def read(self, view: View, name: str, args: tuple[Any, ...]) -> Any:
        """A read, of one committed state. An error is an answer too."""

        def call() -> Any:
            refused = self._keeping.refusal(view)
            if refused is not None:
                return refused
            value = self._read(name, args)
            # Where the version advanced meanwhile, nobody knows which side of it the read saw.
            return self._keeping.refusal(view) or value

        return answer(call)

    def _read(self, name: str, args: tuple[Any, ...]) -> Any:
        store = self._keeping.store
        if name in PLAIN:
            return getattr(store._store, name)(*args)
        return getattr(self, f"_{name}")(*args)

    def _scan(self, question: str, of: int) -> tuple[U64, U64]:
        """Ids, and the born step of each."""
        store = self._keeping.store
        while True:
            ids = store._store.scan(question, of)
            try:
                return ids, (BORN_STEP - store.staleness(ids, BORN_STEP).age).astype(np.uint64)
            except NotFoundError:
                continue  # one was retired between the two: ask again

    def _views(self, ids: U64) -> Packed:
        return pack(self._keeping.store.get_many(ids), self._keeping.ledger)

    def _served(self, ids: U64) -> list[Any]:
        """Of each: version and born step, whether it is there and its old logps."""
        versions = self._keeping.ledger.versions
        rows: list[Any] = []
        for row, rollout in enumerate(self._keeping.store.get_many(ids)):
            if rollout is None:
                raise NotFoundError(f"rollout {ids[row]} is not live", id=int(ids[row]), row=row)
            logps = np.asarray(rollout.old_logps) if "old_logps" in rollout else None
            rows.append((versions.service(rollout.ref_version), rollout.born_step, logps))
        return rows

    def _plan(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        native_store = self._keeping.store._store
        return self._planned.keep(getattr(native_store, name)(*args), self._keeping.ledger)

    def _plan_due(self, step: int, budget: tuple[int | None, int | None, float | None]) -> dict[str, Any]:
        """What is due, with born steps, by which plans of several shards are merged."""
        store = self._keeping.store
        while True:
            plan = store._store.plan_due(step, budget)
            try:
                born = BORN_STEP - store.staleness(plan.ids, BORN_STEP).age
            except NotFoundError:
                continue
            return {**self._planned.keep(plan, self._keeping.ledger), "born": born}

    def _plan_lens(self, number: int, start: int, end: int) -> Any:
        plan = self._planned.get(number)
        return None if plan is None else plan.part(start, end).lens()

    def _lens(self, ids: U64) -> Any:
        """How long log-probs of these must be; -1 where nothing tells it."""
        infos = [[] if rollout is None else rollout.columns() for rollout in self._keeping.store.get_many(ids)]
        lens = [next((count for name, _, count, _ in columns if name in PER_TOKEN), -1) for columns in infos]
        return np.array(lens, np.int64)

    def _plan_views(self, number: int, start: int, end: int) -> Packed | None:
        plan = self._planned.get(number)
        return None if plan is None else pack(plan.part(start, end).rollouts(), self._keeping.ledger)

    @group("write")
    def write(self, view: View, op: OpId, operations: list[tuple[Any, ...]]) -> Any:
        """A write: one commit."""

        def call() -> Any:
            done = self._keeping.write(view, op, operations)
            if isinstance(done, Done):
                self._gauges.committed(self._keeping.store)
            return done

        return answer(call)

    @group("write")
    def allocate(self) -> Any:
        """An id above all that this store ever saw."""
        return answer(lambda: int(self._keeping.store.allocate_ids(1)[0]))

    @group("read")
    def sweep(self, view: View, token: str, args: tuple[Any, ...]) -> Any:
        """Goes on with a sweep as far as one micro-batch."""
        return answer(lambda: self._keeping.refusal(view) or self._sweeping.begin(token, self._keeping, args))

    @group("read")
    def sweep_on(self, token: str, results: Any) -> Any:
        """Hands the results of its micro-batch over."""
        return answer(lambda: self._sweeping.go_on(token, results))

    @group("upkeep")
    def control(self, name: str, *args: Any) -> Any:
        """See :class:`Keeping`, as the next ones."""
        return answer(lambda: self._keeping.control(name, args))

    @group("control")
    def join(self, join: Join) -> Any:
        return answer(lambda: self._keeping.join(join))

    @group("control")
    def hold(self, id: str) -> Any:
        return answer(lambda: self._keeping.hold(id))

    @group("control")
    def admit(self, ops: set[tuple[str, int]], seconds: float) -> Any:
        return answer(lambda: self._keeping.admit(ops, seconds))

    @group("control")
    def cut(self, id: str) -> Any:
        return answer(lambda: self._keeping.cut(id))

    @group("transfer")
    def carry(self, id: str, root: str) -> Any:
        return answer(lambda: self._keeping.carry(id, root))

    @group("transfer")
    def end_parts(self, root: str, numbers: list[int]) -> Any:
        return answer(lambda: self._keeping.end_parts(root, numbers))

    @group("control")
    def release(self, id: str) -> Any:
        return answer(lambda: self._keeping.release(id))

    @group("control")
    def restore(self, where: Where) -> Any:
        return answer(lambda: self._keeping.restore(where))

    @group("control")
    def close(self) -> Any:
        return answer(self._keeping.close)

    @group("control")
    def facts(self) -> dict[str, Any]:
        """What a person wants to know of the actor."""
        return {"pid": os.getpid(), "path": str(self._keeping.path), "restored": self._keeping.restored}


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns, or the error that it raised."""
    try:
        return call()
    except Error as error:
        return error
    except Exception as error:
        return InternalError(f"{type(error).__name__}: {error}")
