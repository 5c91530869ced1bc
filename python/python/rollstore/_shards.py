"""Shards: where rollouts belong, and how the number of shards is changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _rollstore as native
from ._arrays import id_array
from ._opened import number_of
from .errors import InvalidError

_Path = str | os.PathLike[str]


class VersionCount(NamedTuple):
    """Rollouts whose old logps stand on one version; without such, the one current at their insert."""

    live: int
    """All of them."""
    stale: int
    """Those more than the allowed lag behind."""
    missing: int
    """Those without old logps."""


class Census(NamedTuple):
    """What stores hold together."""

    rollouts: int
    """Live rollouts."""
    tokens: int
    """Their prompt and completion tokens."""
    array_bytes: int
    """Bytes of their arrays."""
    partials: int
    """Partial rollouts."""
    partial_tokens: int
    """The tokens of those."""
    versions: dict[int, VersionCount]
    """Rollouts by version."""


class Made(NamedTuple):
    """What was made of shards."""

    stores: list[tuple[str, int]]
    """The stores, each with its number of rollouts."""
    before: Census
    """What the shards held of it."""
    after: Census
    """What was made holds: the same, or the call would have raised."""
    superseded: int
    """Rollouts that were not taken, since a newer one of their id was."""
    superseded_partials: int
    """Partial rollouts, likewise."""
    sweeps: dict[str, list[str]]
    """Names of sweeps that begin anew, by shard: no other store can go on from their progress."""


def shards_of(ids: Any, shards: int) -> npt.NDArray[np.uint32]:
    """The shard that each rollout belongs to, of so many: rendezvous hashing, the same on every machine and in every version. One
    shard more takes rollouts from the others, and moves none between them.

    >>> shards_of([7, 42], 3).tolist()
    [1, 1]
    """
    return native.shards_of(id_array(ids), _count(shards, "shards"))


def merge(
    shards: Iterable[_Path] | _Path,
    path: _Path,
    *,
    on_conflict: Literal["error", "newest"] = "error",
    cursor: Literal["same"] | int | None = "same",
) -> Made:
    """Makes one store of the shards of a run. It appears at ``path`` when it is whole and on disk; killed or interrupted, the same
    call goes on. The shards are only read: directories of stores or checkpoints, or of shards (``shard-00000`` and so on).

    ``on_conflict``: ids that more than one shard has are an error, or the newest of each is taken. ``cursor``: the one that all
    shards have, the one of the shard at this place (from 0), or ``None``: none.

    Raises :class:`InvalidError` where they are no shards of one run, or a choice is to be made; :class:`LockedError` where another
    makes the same; :class:`DamagedError`; :class:`FullError`. Nothing is at ``path`` then.
    """
    return _made(shards, None, path, on_conflict, cursor)


def reshard(
    shards: Iterable[_Path] | _Path,
    count: int,
    path: _Path,
    *,
    on_conflict: Literal["error", "newest"] = "error",
    cursor: Literal["same"] | int | None = "same",
) -> Made:
    """Makes a directory of ``count`` shards, ``shard-00000`` and so on, each with the rollouts that :func:`shards_of` sends to it.
    As :func:`merge` in all else."""
    return _made(shards, _count(count, "count"), path, on_conflict, cursor)


def _made(shards: Iterable[_Path] | _Path, count: int | None, path: _Path, on_conflict: str, cursor: str | int | None) -> Made:
    if on_conflict not in ("error", "newest"):
        raise InvalidError(f"on_conflict is {on_conflict!r}, it must be 'error' or 'newest'")
    if isinstance(cursor, str) and cursor != "same":
        raise InvalidError(f"cursor is {cursor!r}, it must be 'same', the place of a shard, or None")
    place = number_of(cursor, "cursor") if isinstance(cursor, int) else None
    paths = [shards] if isinstance(shards, (str, os.PathLike)) else list(shards)
    made = native.make_shards([os.fspath(each) for each in paths], count, path, on_conflict == "newest", (cursor is not None, place))
    stores, before, after, (superseded, superseded_partials), sweeps = made
    return Made(
        stores=[(os.fspath(store), rollouts) for store, rollouts in stores],
        before=_census(before),
        after=_census(after),
        superseded=superseded,
        superseded_partials=superseded_partials,
        sweeps={os.fspath(shard): names for shard, names in sweeps},
    )


def _census(counted: native.Counted) -> Census:
    rollouts, tokens, array_bytes, partials, partial_tokens, versions = counted
    by_version = {version: VersionCount(live, stale, missing) for version, live, stale, missing in versions}
    return Census(rollouts, tokens, array_bytes, partials, partial_tokens, by_version)


def _count(value: int, what: str) -> int:
    count = number_of(value, what)
    if count is None or not 1 <= count <= 100_000:
        raise InvalidError(f"{what} is {value}, it must be 1 to 100000")
    return count
