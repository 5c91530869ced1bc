"""The actor that knows where the service stands.

Always true: what the coordinator committed is the truth. An advance is committed here first, then brought to every shard, and
acknowledged last; what a kill cut in between is finished by the next call.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._store import RolloutStore
from ..errors import InvalidError
from ._answers import NAMESPACE, Config, Join, View, shard_name
from ._cluster import group, ray
from ._cutting import Cutting
from ._keeping import opened
from ._record import Record
from ._restoring import restore_all
from ._shard import answer

GROUPS = {"wait": 64, "control": 8}
"""Threads of the actor. Clients that ask for the state may wait for the end of a weight update; all else must get past them."""

WAIT = 1.0
"""Seconds that a client's question waits for the end of a weight update before it is asked again."""


class Coordinator(Cutting):
    """The truth about one service. Operations are one at a time; each has a number, by which it is done once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.path = Path(config.path) / "coordinator"
        self._lock = threading.RLock()
        self._cut_lock = threading.Lock()
        self._update_ended = threading.Condition()
        self._alive_until = time.monotonic() + config.lease
        self._is_settled = False
        self._store: RolloutStore | None = None
        self._record = Record("", config.shards)

    @group("wait")
    def config(self) -> Config:
        """How the service was opened."""
        return self._config

    @group("wait")
    def view(self, *, settle: bool = False, wait_for_update: bool = False) -> Any:
        """Where the service stands, and whether a weight update is under way still.

        ``settle`` brings every shard there first: a client asks for it that met one which is not.
        """

        def call() -> tuple[View, bool]:
            with self._lock:
                self._settle(again=settle)
            if wait_for_update and self._is_updating():
                with self._update_ended:
                    self._update_ended.wait_for(lambda: self._record.updating is None, timeout=WAIT)
            with self._lock:
                return self._view(), wait_for_update and self._is_updating()

        return answer(call)

    @group("control")
    def operate(self, op: str, name: str, args: tuple[Any, ...]) -> Any:
        """Does an operation, or tells what it returned when it was sent before."""

        def call() -> Any:
            with self._lock:
                self._settle()
                if op in self._record.done:
                    return self._record.done[op]
                result = getattr(self, f"_{name}")(op, *args)
                self._settle()
                return result

        return answer(call)

    @group("control")
    def ask(self, name: str, *args: Any) -> Any:
        """A question to the coordinator's own store: clock, version of a label."""

        def call() -> Any:
            with self._lock:
                self._settle()
                if name == "cursor":
                    return self._record.cursor
                return getattr(self._opened()._store, name)(*args)

        return answer(call)

    @group("control")
    def beat(self, update: str) -> None:
        """The client of a weight update is alive."""
        if self._record.updating == update:
            self._alive_until = time.monotonic() + self._config.lease

    @group("control")
    def checkpoint(self, op: str, root: str, keep: int | None) -> Any:
        """A checkpoint of all shards: see :class:`Cutting`."""
        return answer(lambda: self._checkpoint(op, root, keep))

    @group("control")
    def close(self) -> Any:
        """Closes all stores."""

        def call() -> None:
            with self._lock:
                self._all("close")
                if self._store is not None:
                    self._store.close()
                    self._store = None
                self._is_settled = False

        return answer(call)

    def _opened(self) -> RolloutStore:
        """The coordinator's store, opened at the first call."""
        if self._store is not None:
            return self._store
        config = self._config._replace(options={**self._config.options, "retire_after": None})
        restore_all(config, self.path, lambda shard, where: self._shard(shard).restore.remote(where))
        store = opened(self.path, config.options)
        cursor = store.cursor
        record = Record(secrets.token_hex(8), self._config.shards) if cursor is None else Record.from_bytes(cursor)
        self._record = record.settled(store.ref_version, store.kl_ref_version)
        if self._record.shards != self._config.shards:
            store.close()
            raise InvalidError(
                f"the service at {self._config.path} has {self._record.shards} shards, asked for are {self._config.shards}; "
                "another number takes 'rollstore reshard'"
            )
        if cursor is None:
            store.set_cursor(self._record.to_bytes())
        self._store = store
        if self._record.rewinding is not None:
            self._rewind_now()
        return store

    def _shard(self, shard: int) -> Any:
        return ray.get_actor(shard_name(self._config.name, shard), NAMESPACE)

    def _each(self, name: str, args: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls all shards side by side, each with its arguments. The first error is raised, once all have answered."""
        refs = [getattr(self._shard(shard), name).remote(*given) for shard, given in enumerate(args)]
        answers: list[Any] = ray.get(refs)
        for given in answers:
            if isinstance(given, Exception):
                raise given
        return answers

    def _view(self) -> View:
        return self._record.view(self._opened().kl_ref_version)

    def _settle(self, *, again: bool = False) -> None:
        """Brings every shard to where the service is. Does nothing where they are there."""
        store = self._opened()
        if self._is_settled and not again:
            return
        record = self._record
        view, clock = self._view(), store.clock
        self._all("join", Join(record.service, view, record.issued.runs, clock, record.rewind, record.is_born, record.checkpoint))
        if not record.is_born:
            self._keep(record._replace(is_born=True))
        self._is_settled = True

    def _keep(self, record: Record, act: Callable[[Any], None] | None = None) -> None:
        """Commits a record, and what goes with it."""
        store = self._opened()
        with store.batch() as batch:
            if act is not None:
                act(batch)
            batch.cursor(record.to_bytes())
        self._record = record.settled(store.ref_version, store.kl_ref_version)

    def _advance_ref_version(self, op: str, step: int, label: int | None) -> int:
        store = self._opened()
        if label is not None and store.ref_version_of(label) == store.ref_version:
            return store.ref_version
        return self._advance(op, step, label, self._record)

    def _advance(self, op: str, step: int, label: int | None, record: Record) -> int:
        self._is_settled = False
        self._keep(record._replace(moved=op), lambda batch: batch.advance_ref_version(step, label))
        return self._record.issued.current

    def _advance_kl_ref_version(self, op: str, label: int | None) -> int:
        self._is_settled = False
        self._keep(self._record._replace(kl_moved=op), lambda batch: batch.advance_kl_ref_version(label))
        return self._opened().kl_ref_version

    def _rewind(self, op: str, step: int, keep: bool, clock: int) -> int:
        store = self._opened()
        if step > clock:
            raise InvalidError(f"the store is at step {clock}, it cannot be rewound to step {step}")
        if store.clock is None or store.clock < clock:
            store.advance_ref_version(clock)  # applies raised the shards' clocks alone; all is stale behind this anyway
        self._keep(self._record._replace(rewinding=(step, keep)))
        self._is_settled = False
        version = self._rewind_now()
        self._keep(self._record.answered(op, version))
        return version

    def _rewind_now(self) -> int:
        store, rewinding = self._opened(), self._record.rewinding
        assert rewinding is not None, "it was kept before this"
        version = store.rewind(rewinding[0], created_later="keep" if rewinding[1] else "drop")
        self._keep(self._record.rewound(version))
        return version

    def _set_cursor(self, op: str, cursor: bytes) -> None:
        self._keep(self._record._replace(cursor=cursor).answered(op, None))

    def _allocate_ids(self, op: str, count: int, floor: int) -> list[int]:
        """Begin and end of ids that nobody used: above what any shard ever saw."""
        store = self._opened()
        first = int(store.allocate_ids(max(count, 1))[0])
        if first < floor:
            # The greatest id that was ever inserted is what ids go on from.
            with store.batch() as batch:
                batch.insert([floor - 1], store.clock or 0)
                batch.retire([floor - 1], "other")
            first = int(store.allocate_ids(max(count, 1))[0])
        return [first, first + count]

    def _begin_update(self, op: str, step: int) -> str:
        if self._is_updating():
            raise InvalidError("a weight update is under way at another client")
        self._opened().plan_for([], step)  # refuses a step that the trainer cannot be at
        self._alive_until = time.monotonic() + self._config.lease
        self._keep(self._record._replace(updating=op).answered(op, op))
        return op

    def _end_update(self, op: str, step: int) -> int:
        version = self._advance(op, step, None, self._record._replace(updating=None))
        with self._update_ended:
            self._update_ended.notify_all()
        return version

    def _is_updating(self) -> bool:
        """Whether a weight update is under way. One whose client is silent ends here: when in doubt, stale."""
        with self._lock:
            if self._record.updating is not None and time.monotonic() > self._alive_until:
                self._end_update(self._record.updating + "-lapsed", self._opened().clock or 0)
                self._settle()
            return self._record.updating is not None
