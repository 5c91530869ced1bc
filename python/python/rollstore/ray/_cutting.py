"""The coordinator's part in checkpoints: one cut through all shards, taken while no write runs.

The stages are methods, in order: hold, take, carry, publish. Killed in any of them the checkpoint before it counts.
"""

from __future__ import annotations

import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._store import RolloutStore
from ..errors import Error
from ._answers import Config, View
from ._cut import Cut, Where
from ._errors import ShardUnavailableError
from ._keeping import clear_staged
from ._ledger import Entry
from ._place import Place, at
from ._record import Record

MISSING_MAX = 2.0
"""Seconds that a cut waits for the missing parts of a write that some shards have done: its client sent them with the others, or has
died."""

ATTEMPTS_MAX = 5
"""Cuts that are begun before the checkpoint fails, where actors restart again and again."""


Key = tuple[str, int]
"""A write: its client, and its number there."""


def missing_of(remembered: Sequence[Mapping[Key, Entry]], given_up: set[Key]) -> list[set[Key]]:
    """For each shard, the writes that others have done and it has not, of what all of them remember.

    A shard forgets a write when it is told that its client has the answer, which the others may not have heard yet.
    """
    missing: list[set[Key]] = []
    for shard, own in enumerate(remembered):
        floors: dict[str, int] = defaultdict(int)
        for (client, _), entry in own.items():
            floors[client] = max(floors[client], entry.floor)
        others = {key for told in remembered for key, entry in told.items() if shard in entry.shards}
        missing.append({key for key in others - own.keys() - given_up if key[1] >= floors[key[0]]})
    return missing


class Cutting:
    """Checkpoints of all shards."""

    path: Path
    _config: Config
    _lock: threading.RLock
    _cut_lock: threading.Lock
    _record: Record
    _given_up: set[Key] = set()
    """Writes whose missing parts were waited for in vain, or came."""

    def _opened(self) -> RolloutStore: ...

    def _each(self, name: str, args: Sequence[tuple[Any, ...]]) -> list[Any]: ...

    def _settle(self, *, again: bool = False) -> None: ...

    def _view(self) -> View: ...

    def _keep(self, record: Record) -> None: ...

    def _all(self, name: str, *args: Any) -> list[Any]:
        """Calls all shards side by side."""
        return self._each(name, [args] * self._config.shards)

    def _checkpoint(self, op: str, root: str, keep: int | None) -> tuple[int, str | None]:
        """Bytes that were sent, and why older checkpoints were not ended, where they should have been."""
        with self._cut_lock:
            with self._lock:
                self._settle()
            if op in self._record.done:
                return self._record.done[op], None
            place = at(root)
            place.check(self._record.service)
            cut, sent = self._carried(place, root)
            place.check_there(cut)
            cut = cut._replace(where=self._publish(place, cut))
            with self._lock:
                self._keep(self._record._replace(checkpoint=cut.where).answered(op, sent))
            clear_staged(self.path)
            return sent, self._end_others(place, cut, keep)

    def _carried(self, place: Place, root: str) -> tuple[Cut, int]:
        """A cut whose shards' parts are all at their place, and the bytes that were sent."""
        attempts = 0
        while True:
            id = f"cut-{secrets.token_hex(8)}"
            place.begin(id)
            try:
                version = self._taken(id)
                carried = self._carry(id, root)
            except ShardUnavailableError:
                # An actor restarted in the middle, or stood still: what the others hold is no cut. Take another.
                attempts += 1
                if attempts == ATTEMPTS_MAX:
                    raise
                continue
            numbers = [number for number, _ in carried]
            cut = Cut(Where(root, None), id, self._record.service, self._config.shards, version, numbers)
            return cut, sum(size for _, size in carried)

    def _taken(self, id: str) -> int:
        """Takes the cut, and tells the version that it is of. No advance happens meanwhile."""
        with self._lock:
            self._settle(again=True)
            try:
                self._hold(id)
                self._take(id)
            finally:
                self._all("release", id)
            return self._view().version

    def _hold(self, id: str) -> None:
        """No write begins from here on, and none is done on some of its shards alone."""
        remembered = self._all("hold", id)
        missing = missing_of(remembered, self._given_up)
        if any(missing):
            self._each("admit", [(ops, MISSING_MAX) for ops in missing])
        # Who died with a write half sent will not send the rest at the next checkpoint either.
        self._given_up = (self._given_up & set[Key]().union(*remembered)).union(*missing)

    def _take(self, id: str) -> None:
        """Each store makes a checkpoint beside itself, of links."""
        self._all("cut", id)
        clear_staged(self.path)
        self._opened().checkpoint(self._staged(id))

    def _carry(self, id: str, root: str) -> list[tuple[int, int]]:
        """Each shard's checkpoint is brought to its place; writes run again. Numbers there, and bytes that were sent."""
        return self._all("carry", id, root)

    def _publish(self, place: Place, cut: Cut) -> Where:
        """From here on the checkpoint is complete."""
        return place.publish(cut, self._staged(cut.id))

    def _end_others(self, place: Place, cut: Cut, keep: int | None) -> str | None:
        """Ends older checkpoints. Why it could not: the new one is there all the same."""
        try:
            kept = place.end_others(cut, keep)
            self._each("end_parts", [(cut.where.root, numbers) for numbers in kept])
        except (Error, OSError) as error:
            return str(error)
        return None

    def _staged(self, id: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{id}")
