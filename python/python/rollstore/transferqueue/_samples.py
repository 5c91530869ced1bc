"""Samples of TransferQueue in a store.

What one put brings of one sample is one rollout: a field is a column ``@field``, and what is no array lies in the metadata. Fields
that come later, in a put of their own, are another rollout of the same group, since the columns of a rollout never change.

Always true:
- Each field of a sample is in exactly one live rollout. What a put overwrites ends in the commit that brings the new.
- A call is one commit: after a crash all of it happened, or none.
- What is in memory says where things are and is read from the store at opening: there is no second truth.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .. import _rollstore as native
from .._arrays import Rows
from .._batch import Batch
from .._store import RolloutStore
from ..errors import Error, LockedError, PoisonedError
from ._calls import Found, Put, Sample, joined_key, metadata_of
from ._modules import module
from ._settings import Settings
from ._values import Bytes

if TYPE_CHECKING:
    from ._surface import StorageKeyNotFoundError
else:
    StorageKeyNotFoundError = module("transfer_queue").StorageKeyNotFoundError

IDENTITY = "rollstore.transferqueue, format 1"
"""What such a store is: opening another as one is refused."""

_LOCK_SECONDS_MAX = 20.0
"""How long the predecessor of an owner that starts may take to end."""

_FIELDS_BYTES_MAX = 512
"""Longest list of fields that a rollout's key spells out."""

_ROLLOUTS_A_SCAN = 4096
"""Rollouts whose metadata is read at once."""

_Place = tuple[str, "str | None"]
"""Partition and key of a sample, as TransferQueue has them."""


class Part(NamedTuple):
    """A rollout: some fields of a sample."""

    id: int
    fields: tuple[str, ...]
    place: _Place | None
    """Where TransferQueue has the sample; ``None`` where a client put it on its own."""


@dataclass
class _Change:
    """What a call ends, and the parts that each of its samples has then."""

    ended: list[int] = field(default_factory=list[int])
    rewritten: list[tuple[Sample, int, tuple[str, ...]]] = field(default_factory=list[tuple[Sample, int, tuple[str, ...]]])
    """Sample, rollout and the fields of it that stay, where others of it end."""
    parts: dict[Sample, list[Part]] = field(default_factory=dict[Sample, list[Part]])


class Samples:
    """The samples of one store, which it opens. It may be used from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Held by whatever changes the store, so that places and store change together.
        self._changing = threading.RLock()
        self._store, self._parts = self._open()
        self._is_read_only = False

    def put(self, put: Put) -> None:
        """Stores samples. What there was of the same fields ends, and all of a sample whose index means another one by now."""
        keys = [part_key(sample, put.fields) for sample in put.samples]
        places: list[_Place | None] = [None] * len(keys)
        if put.origins is not None:
            places = [(origin.partition, origin.key) for origin in put.origins]
        metadata = metadata_of(put, time.time_ns())
        columns = {f"@{name}": rows for name, rows in zip(put.fields, put.columns, strict=True) if rows is not None}

        def write() -> None:
            change = _Change()
            for sample, key, place in zip(put.samples, keys, places, strict=True):
                self._end(change, sample, put.fields, place)
                change.parts[sample].append(Part(native.id_from_key(key), tuple(put.fields), place))
            batch = self._begin(change)
            _insert(batch, put.samples, keys, metadata, columns)
            self._commit(batch, change)

        self._writing(write)

    def get(self, keys: Sequence[tuple[Sample, str]], bytes_max: int) -> Found:
        """The values of the first keys, as many as take no more than so many bytes, one at least.

        Raises ``StorageKeyNotFoundError`` for a key that was never put, or cleared.
        """
        found = self._get(keys, bytes_max)
        if found is None:
            # A put or clear ended a rollout between the two looks: what is asked for is what it left.
            with self._changing:
                found = self._get(keys, bytes_max)
        assert found is not None, "what lives cannot end while nothing may change"
        return found

    def clear(self, keys: Sequence[tuple[Sample, str]]) -> None:
        """Ends these fields; those that are not there are passed over."""
        fields: dict[Sample, list[str]] = {}
        for sample, name in keys:
            fields.setdefault(sample, []).append(name)

        def write() -> None:
            change = _Change()
            for sample, names in fields.items():
                self._end(change, sample, names, None)
            self._commit(self._begin(change), change)

        self._writing(write)

    def clear_samples(self, samples: Sequence[Sample]) -> None:
        """Ends all fields of these samples; those that are not there are passed over."""
        with self._changing:
            self.clear([(sample, name) for sample in samples for part in self._parts.get(sample, ()) for name in part.fields])

    def clear_all(self) -> int:
        """Ends every sample, and returns how many rollouts that were."""
        with self._changing:
            retired = self._store.retire(self._store.ids(), "evicted")
            self._parts = {}
            return retired

    def records(self) -> list[bytes]:
        """The metadata of every rollout that TransferQueue's manager put."""
        return [rollout.metadata for rollout, head in self._scan(self._store) if "partition" in head]

    def checkpoint(self, path: str) -> None:
        """Saves the store, by links where it can."""
        with self._changing:
            self._store.checkpoint(path)

    def restore(self, path: str) -> None:
        """Brings a checkpoint back: the samples are exactly those that it was saved with."""
        with self._changing:
            self._store.close()
            try:
                RolloutStore.restore(path, self._settings.path)
            finally:
                self._reopen()

    def stats(self) -> dict[str, Any]:
        """Figures of the store, as ``RolloutStore.stats`` has them."""
        return dict(self._store.stats())

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def _writing(self, write: Callable[[], None]) -> None:
        """Makes a change. After a write that failed the store refuses more until it is opened again: by now the disk may have
        room."""
        with self._changing:
            if self._is_read_only:
                self._reopen()
            try:
                write()
            except PoisonedError:
                self._reopen()
                write()

    def _reopen(self) -> None:
        """Opens the store again, at least for reading."""
        with suppress(PoisonedError):
            # It is closed, and says that it could not seal its log.
            self._store.close()
        try:
            self._store, self._parts = self._open()
        except Error:
            self._store = RolloutStore.open(self._settings.path, read_only=True)
            self._is_read_only = True
            raise
        self._is_read_only = False

    def _open(self) -> tuple[RolloutStore, dict[Sample, list[Part]]]:
        """The store, and the parts that it holds."""
        settings = self._settings
        begun = time.monotonic()
        while True:
            try:
                store = RolloutStore.open(
                    settings.path,
                    window=2**64 - 1,
                    durability=cast("Any", settings.durability),
                    run_identity=IDENTITY,
                    quota_bytes=settings.quota_bytes,
                )
                break
            except LockedError:
                if time.monotonic() - begun > _LOCK_SECONDS_MAX:
                    raise
                time.sleep(0.05)
        parts: dict[Sample, list[Part]] = {}
        for rollout, head in self._scan(store):
            place = (head["partition"], head["key"]) if "partition" in head else None
            parts.setdefault(head["sample"], []).append(Part(rollout.id, tuple(head["fields"]), place))
        return store, parts

    @staticmethod
    def _scan(store: RolloutStore) -> Iterator[tuple[native.Rollout, dict[str, Any]]]:
        """Every live rollout, with its metadata."""
        ids = store.ids()
        for begin in range(0, len(ids), _ROLLOUTS_A_SCAN):
            for rollout in store.get_many(ids[begin : begin + _ROLLOUTS_A_SCAN]):
                if rollout is not None:
                    yield rollout, json.loads(rollout.metadata)

    def _get(self, keys: Sequence[tuple[Sample, str]], bytes_max: int) -> Found | None:
        """The values of the first keys; ``None`` where one ended meanwhile."""
        rows: dict[int, int] = {}
        of = [rows.setdefault(self._id_of(sample, name), len(rows)) for sample, name in keys]
        rollouts = self._store.get_many(np.fromiter(rows, np.uint64, len(rows)))
        if None in rollouts:
            return None
        live = cast("list[native.Rollout]", rollouts)
        heads = [json.loads(rollout.metadata)["fields"] for rollout in live]
        trees: list[Any] = []
        views: dict[str, list[Bytes]] = {}
        size = 0
        for (_, name), row in zip(keys, of, strict=True):
            view = _bytes_of(live[row], name)
            size += view.nbytes
            if trees and size > bytes_max:
                break
            trees.append(heads[row][name])
            views.setdefault(name, []).append(view)
        return Found(
            trees,
            {name: (np.concatenate(of), np.array([view.nbytes for view in of], np.int64)) for name, of in views.items()},
        )

    def _id_of(self, sample: Sample, name: str) -> int:
        for part in self._parts.get(sample, ()):
            if name in part.fields:
                return part.id
        raise StorageKeyNotFoundError(f"{joined_key(sample, name)} was not put, or is cleared")

    def _end(self, change: _Change, sample: Sample, fields: Sequence[str], place: _Place | None) -> None:
        """Ends fields of a sample, and the whole of it where it is not the one of this place."""
        left = change.parts[sample] = []
        for part in self._parts.get(sample, ()):
            is_another = place is not None and part.place not in (None, place)
            rest = () if is_another else tuple(name for name in part.fields if name not in fields)
            if len(rest) == len(part.fields):
                left.append(part)
                continue
            change.ended.append(part.id)
            if rest:
                change.rewritten.append((sample, part.id, rest))
                left.append(Part(native.id_from_key(part_key(sample, rest)), rest, part.place))

    def _begin(self, change: _Change) -> Batch:
        """A batch that holds what a change ends, and what it writes again."""
        batch = self._store.batch()
        if change.ended:
            rollouts = self._store.get_many(np.array([id for _, id, _ in change.rewritten], np.uint64))
            batch.retire(change.ended, "superseded")
            for (sample, _, rest), rollout in zip(change.rewritten, rollouts, strict=True):
                assert rollout is not None, "what lives cannot end while nothing else may change"
                _insert_rest(batch, sample, rollout, rest)
        return batch

    def _commit(self, batch: Batch, change: _Change) -> None:
        """Commits, if there is anything to; from then on the parts are where the change has them."""
        if len(batch):
            batch.commit()
        for sample, parts in change.parts.items():
            if parts:
                self._parts[sample] = parts
            else:
                self._parts.pop(sample, None)


def part_key(sample: Sample, fields: Sequence[str]) -> str:
    """The key of the rollout that has these fields of a sample: readable, and another for other fields."""
    names = "+".join(name.replace("%", "%25").replace("+", "%2B") for name in fields)
    if len(names.encode()) > _FIELDS_BYTES_MAX:
        names = f"{len(fields)} fields {blake2b(names.encode(), digest_size=16).hexdigest()}"
    return joined_key(sample, names)


def _insert(batch: Batch, samples: Sequence[Sample], keys: list[str], metadata: list[bytes], columns: dict[str, Rows]) -> None:
    """Inserts rollouts; the group of a rollout is its sample, where that is a number."""
    groups = samples if all(isinstance(sample, int) for sample in samples) else None
    batch.insert(keys, 0, metadata=metadata, columns=columns, group_ids=groups)


def _insert_rest(batch: Batch, sample: Sample, rollout: native.Rollout, rest: tuple[str, ...]) -> None:
    """Inserts what stays of a rollout as one of its own."""
    head = json.loads(rollout.metadata)
    head["fields"] = {name: head["fields"][name] for name in rest}
    wanted = {f"@{name}" for name in rest}
    columns = {
        name: Rows(dtype, np.array(rollout[name], copy=True, subok=False), np.array([0, count], np.int64), None)
        for name, dtype, count, _ in rollout.columns()
        if name in wanted
    }
    _insert(batch, [sample], [part_key(sample, rest)], [json.dumps(head, separators=(",", ":")).encode()], columns)


def _bytes_of(rollout: native.Rollout, name: str) -> Bytes:
    """The bytes of a field's column, without a copy; none where the field has no column."""
    column = f"@{name}"
    return rollout[column].view(np.ndarray).view(np.uint8) if column in rollout else np.empty(0, np.uint8)
