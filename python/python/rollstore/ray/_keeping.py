"""A shard's store: opening it, bringing it to the service's state, and the writes."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _rollstore as native
from .._store import RolloutStore
from ..errors import Error, InvalidError, LockedError
from ._answers import Config, Done, Join, OpId, Refused, View
from ._cut import Where
from ._directory import sync
from ._errors import ShardLostError, ShardUnavailableError
from ._ledger import Entry, Ledger, Totals
from ._place import at
from ._planned import Planned
from ._versions import Versions

HOLD_MAX = 60.0
"""Seconds after which a shard writes again, though the checkpoint that held it did not end: its coordinator is gone."""

STEPS_MAX = 4096
"""Advances that a shard catches up with one by one. Who is further behind is rewound: everything is stale then, as it would be."""

LOCKED_MAX = 30.0
"""Seconds that an actor waits for the process before it to let the store go."""


SYNC_AT_LAST = 1.0
"""Seconds after which the store syncs by itself what nobody waits for: a write whose actor was killed before it waited."""


class Keeping:
    """An open store that knows its place in the service. One write at a time: the ledger is part of each.

    Always true: a write is acknowledged once it is as durable as was asked for. It waits for that behind the lock, so that the writes of
    several clients share a sync.
    """

    def __init__(self, config: Config, shard: int, planned: Planned) -> None:
        self._config, self._shard, self._planned = config, shard, planned
        self.path = Path(config.path) / f"shard-{shard}"
        self._lock = threading.RLock()
        self._held: str | None = None
        self._held_until = 0.0
        self._admitted: set[tuple[str, int]] = set()
        self._is_moving = False
        self._store: RolloutStore | None = None
        self._ledger: Ledger | None = None

    @property
    def store(self) -> RolloutStore:
        if self._store is None:
            raise ShardUnavailableError(f"shard {self._shard} has just started and is not open; call again")
        return self._store

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            raise ShardUnavailableError(f"shard {self._shard} has just started and is not open; call again")
        return self._ledger

    @property
    def _is_synced(self) -> bool:
        return self._config.options.get("durability", "synced") == "synced"

    @property
    def restored(self) -> int:
        """How often it came back from a checkpoint since its disk was empty."""
        return 0 if self._ledger is None else self._ledger.restored

    def refusal(self, view: View) -> Refused | None:
        """Why a call of this view is not begun."""
        if self._ledger is None:
            return Refused("unjoined")
        here = self.ledger.view
        if here == view and not self._is_moving:
            return None
        return Refused("behind" if here < view else "ahead")

    def join(self, join: Join) -> View:
        """Opens the store, and brings it to where the service is."""
        with self._lock:
            self._held_until = 0.0
            try:
                if self._ledger is None:
                    self._ledger = self._opened(join)
                self._check(join)
                # Until the ledger says so no reader may see what is committed under it.
                self._is_moving = True
                if self.ledger.view != join.view:
                    self._catch_up(join)
                self.make_durable()
            except BaseException:
                self.close()
                raise
            finally:
                self._is_moving = False
            return self.ledger.view

    def _check(self, join: Join) -> None:
        """Raises where this is another service's store, or the coordinator's disk is of an earlier time."""
        ledger = self.ledger
        if (ledger.service, ledger.shard, ledger.shards) != (join.service, self._shard, self._config.shards):
            raise InvalidError(
                f"{self.path} is shard {ledger.shard} of {ledger.shards} of service {ledger.service}, wanted is shard "
                f"{self._shard} of {self._config.shards} of {join.service}; open it as what it is, or restore a checkpoint"
            )
        if ledger.view > join.view:
            raise InvalidError(
                f"shard {self._shard} is at {ledger.view}, the coordinator at {join.view}: its disk is of an earlier time; "
                "restore a checkpoint of the service"
            )

    def _opened(self, join: Join) -> Ledger:
        is_new = not self.path.exists() or not any(self.path.iterdir())
        if is_new and join.is_born:
            self._bring_back(join)
        options = self._config.options
        if self._is_synced:
            options = {**options, "durability": "buffered", "max_delay": SYNC_AT_LAST}
        self._store = opened(self.path, options)
        cursor = self.store.cursor
        if cursor is None:
            if join.is_born or len(self.store):
                raise InvalidError(f"{self.path} holds a store that is no shard of a service; give another directory")
            # A new one, or one that a kill cut before its first commit.
            return self._commit(native.Batch(), Ledger.new(join.service, self._shard, self._config.shards))
        ledger = Ledger.from_bytes(cursor).settled(self.store)
        return self._commit(native.Batch(), ledger._replace(restored=ledger.restored + 1)) if is_new else ledger

    def _bring_back(self, join: Join) -> None:
        """Restores the store on a disk that is empty, from the last checkpoint."""
        if join.checkpoint is None:
            raise ShardLostError(
                f"shard {self._shard} has no store at {self.path} any more, and there is no checkpoint to bring it back from",
                path=self.path,
            )
        part = self.path.with_name(f"{self.path.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        self._restore(join.checkpoint, part)
        part.replace(self.path)
        sync(part.parent)

    def _catch_up(self, join: Join) -> None:
        """Does the advances that it has not done, and the last rewind: each label is done once."""
        store, ledger = self.store, self.ledger
        missed = Versions(join.issued).after(ledger.versions.current)
        if join.view.turn > ledger.turn or len(missed) > STEPS_MAX:
            step, keep = join.rewind or (join.clock or 0, True)
            if store.clock is None or store.clock < step:
                store.advance_ref_version(step)
            store.rewind(step, created_later="keep" if keep else "drop")
            kl_versions = ledger.kl_versions.pushed(join.view.kl_version, store.kl_ref_version)
            ledger = ledger._replace(turn=join.view.turn, kl_versions=kl_versions)
        batch, step = native.Batch(), max(join.clock or 0, store.clock or 0)
        kl_missed = list(range(ledger.kl_versions.current + 1, join.view.kl_version + 1))
        for version in missed:
            batch.advance_ref_version(step, version)
        for _ in kl_missed:
            batch.advance_kl_ref_version()
        self._commit(batch, ledger._replace(moved=missed, kl_moved=kl_missed))

    def _commit(self, batch: native.Batch, ledger: Ledger) -> Ledger:
        """Commits operations and the ledger with them."""
        batch.cursor(ledger.to_bytes())
        lsn, retired, applied, _ = batch.commit(self.store._store)
        self._ledger = ledger.settled(self.store, Done(lsn, retired, applied))
        return self._ledger

    def write(self, view: View, op: OpId, operations: Sequence[tuple[Any, ...]]) -> Done | Refused:
        """Does a write, or tells what it did when it was sent before."""
        done = self._written(view, op, operations)
        if isinstance(done, Done):
            self.make_durable(done.lsn)
        return done

    def make_durable(self, lsn: int | None = None) -> None:
        """Waits until what was committed, up to a commit, is as durable as was asked for. A store that fails in it is closed: what
        of its last writes is there, the next opening finds out."""
        if not self._is_synced:
            return
        store = self.store
        try:
            store.sync() if lsn is None else store.wait_durable(lsn)
        except Error:
            self.close()
            raise

    def control(self, name: str, args: tuple[Any, ...]) -> Any:
        """A call of the store that concerns no version."""
        given = getattr(self.store._store, name)(*args)
        self.make_durable()
        return given

    def _written(self, view: View, op: OpId, operations: Sequence[tuple[Any, ...]]) -> Done | Refused:
        with self._lock:
            if self._ledger is None:
                return Refused("unjoined")
            done = self.ledger.found(op)
            if done is not None:
                return done
            if time.monotonic() < self._held_until and (op.client, op.number) not in self._admitted:
                return Refused("held")
            refused = self.refusal(view)
            if refused is not None:
                return refused
            batch = native.Batch()
            lost = [self._planned.put(batch, operation, self.ledger) for operation in operations]
            ledger = self._commit(batch, self.ledger.wrote(op, Totals.of(self.store)))
            done = ledger.last
            done = done._replace(applied=self._planned.applied(operations, lost, done.applied))
            self._ledger = ledger.answered(done)
            return done

    def hold(self, id: str) -> dict[tuple[str, int], Entry]:
        """Lets no write begin from now on, for a cut. Tells the writes that it remembers."""
        with self._lock:
            self._held, self._held_until, self._admitted = id, time.monotonic() + HOLD_MAX, set()
            return self.ledger.entries

    def admit(self, ops: set[tuple[str, int]], seconds: float) -> None:
        """Waits until these writes are done, whose other parts are done elsewhere; or for so long, if nobody sends them."""
        self._admitted = ops
        end = time.monotonic() + seconds
        while not ops <= self.ledger.entries.keys() and time.monotonic() < end:
            time.sleep(0.002)

    def cut(self, id: str) -> None:
        """Makes a checkpoint beside the store, of links. What earlier cuts left there goes."""
        with self._lock:
            if self._held != id or time.monotonic() >= self._held_until:
                raise ShardUnavailableError(f"shard {self._shard} stood still for so long that it wrote again; take another cut")
            clear_staged(self.path)
            self.store.checkpoint(self.staged(id))

    def carry(self, id: str, root: str) -> tuple[int, int]:
        """Brings the checkpoint of a cut to its place, and forgets it here. Tells its number there, and the bytes that were sent."""
        put = at(root).put(id, self._shard, self.staged(id))
        shutil.rmtree(self.staged(id), ignore_errors=True)
        return put

    def end_parts(self, root: str, numbers: list[int]) -> None:
        """Ends its checkpoints at a place, but those of these numbers."""
        at(root).end_parts(self._shard, numbers)

    def release(self, id: str) -> None:
        """Lets writes begin again, where no other cut holds them."""
        with self._lock:
            if self._held == id:
                self._held_until = 0.0

    def staged(self, id: str) -> Path:
        """Where the checkpoint of a cut lies until it is carried to its place."""
        return self.path.with_name(f"{self.path.name}.{id}")

    def restore(self, where: Where) -> None:
        """Brings the store back from a cut."""
        with self._lock:
            self.close()
            self._restore(where, self.path)

    def _restore(self, where: Where, path: Path) -> None:
        place = at(where.root)
        place.bring_back(place.complete(where.number), self._shard, path)

    def close(self) -> None:
        """Closes the store; a shard that is closed joins again."""
        with self._lock:
            self._ledger = None
            self._planned.clear()
            if self._store is not None:
                self._store.close()
                self._store = None


def clear_staged(path: Path) -> None:
    """Removes the checkpoints beside a store that earlier cuts left."""
    for left in path.parent.glob(f"{path.name}.cut-*"):
        shutil.rmtree(left, ignore_errors=True)


def opened(path: Path, options: dict[str, Any]) -> RolloutStore:
    """Opens a store that an actor before this one owned: its process may take a moment to end."""
    end = time.monotonic() + LOCKED_MAX
    while True:
        try:
            return RolloutStore.open(path, **options)
        except LockedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
