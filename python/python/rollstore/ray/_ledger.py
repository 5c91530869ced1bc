"""What a shard knows beside its rollouts: at which of the service's versions it is, and which writes it has done.

It is the cursor of the shard's store, and so lies in the same commit as what it tells of. A write that is sent again, after a kill
between its commit and its answer, is found here and answered, and not done twice.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .._store import RolloutStore
from ._answers import Done, OpId, View
from ._versions import Versions

DONE_MAX = 1024
"""Writes that are remembered, of all clients together. Those that have their answers go as their clients write on; this bounds what
clients leave that end."""

RETIRED = ("trained", "stale", "superseded", "evicted", "rewound", "other")


class Totals(NamedTuple):
    """What a store ever did, as it is counted on disk: what a write did is the difference."""

    retired: int
    computed: int
    dropped: int

    @staticmethod
    def of(store: RolloutStore) -> Totals:
        counters = store._store.counters()
        return Totals(sum(counters[f"retired_{reason}"] for reason in RETIRED), counters["computed"], counters["dropped"])


class Entry(NamedTuple):
    """A write that was done."""

    floor: int
    """Writes of its client below it have their answers, on all shards."""
    shards: tuple[int, ...]
    """Those that take part in it."""
    done: Done | None
    """``None`` in the commit of the write itself, which cannot tell yet."""


class Ledger(NamedTuple):
    """The whole of it; every change makes a new one."""

    service: str
    shard: int
    shards: int
    turn: int
    versions: Versions
    kl_versions: Versions
    entries: dict[tuple[str, int], Entry]
    before: Totals
    """The totals before the last write."""
    moved: list[int]
    """Ref versions of the service that the commit itself issues: which numbers the store gives to them it cannot tell yet."""
    kl_moved: list[int]
    """The same of the KL reference."""
    restored: int
    """How often the shard came back from a checkpoint because its disk was empty."""

    @staticmethod
    def new(service: str, shard: int, shards: int) -> Ledger:
        """That of a new store."""
        return Ledger(service, shard, shards, 0, Versions(), Versions(), {}, Totals(0, 0, 0), [], [], 0)

    @property
    def view(self) -> View:
        """What the shard is at."""
        return View(self.turn, self.versions.current, self.kl_versions.current)

    def found(self, op: OpId) -> Done | None:
        """What the write did, if it was done before."""
        entry = self.entries.get((op.client, op.number))
        return None if entry is None else entry.done

    @property
    def last(self) -> Done:
        """What the last write did."""
        done = self.entries[next(reversed(self.entries))].done
        assert done is not None, "its commit is settled"
        return done

    def wrote(self, op: OpId, before: Totals) -> Ledger:
        """With a write that is being committed."""
        kept = {key: entry for key, entry in self.entries.items() if key[0] != op.client or key[1] >= op.floor}
        while len(kept) >= DONE_MAX:
            del kept[next(iter(kept))]
        kept[op.client, op.number] = Entry(op.floor, op.shards, None)
        return self._replace(entries=kept, before=before)

    def answered(self, done: Done) -> Ledger:
        """With what the last write did, as its client is told."""
        key = next(reversed(self.entries))
        return self._replace(entries={**self.entries, key: self.entries[key]._replace(done=done)})

    def settled(self, store: RolloutStore, done: Done | None = None) -> Ledger:
        """With what its commit could not tell: after the commit, or, where a kill came between, at the opening. What the last write
        did is known, or else what was counted since."""
        entries = self.entries
        if entries:
            key = next(reversed(entries))
            if entries[key].done is None:
                entries = {**entries, key: entries[key]._replace(done=done or self._counted_since(store))}
        versions = self.versions.issued(self.moved, store.ref_version)
        kl_versions = self.kl_versions.issued(self.kl_moved, store.kl_ref_version)
        return self._replace(entries=entries, versions=versions, kl_versions=kl_versions, moved=[], kl_moved=[])

    def _counted_since(self, store: RolloutStore) -> Done:
        """What the last write did, as the store counted it."""
        now, before = Totals.of(store), self.before
        applied = (now.computed - before.computed, max(0, now.dropped - before.dropped), 0)
        return Done(store.stats()["last_lsn"], now.retired - before.retired, [applied])

    def to_bytes(self) -> bytes:
        told: dict[str, Any] = {
            **self._asdict(),
            "versions": self.versions.runs,
            "kl_versions": self.kl_versions.runs,
            "entries": [[*key, *entry] for key, entry in self.entries.items()],
        }
        return json.dumps(told, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(cursor: bytes) -> Ledger:
        """As it was committed."""
        told: dict[str, Any] = json.loads(cursor)
        told["entries"] = {
            (client, number): Entry(floor, tuple(shards), None if done is None else _done(*done))
            for client, number, floor, shards, done in told["entries"]
        }
        told["before"] = Totals(*told["before"])
        for name in ("versions", "kl_versions"):
            told[name] = Versions(told[name])
        return Ledger(**told)


def _done(lsn: int, retired: int, applied: list[list[int]]) -> Done:
    return Done(lsn, retired, [(computed, dropped, declined) for computed, dropped, declined in applied])
