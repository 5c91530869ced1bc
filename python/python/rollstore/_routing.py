"""Which shard a rollout belongs to: rendezvous hashing, so that one shard more moves only the rollouts that it takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._arrays import U64

_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mix(numbers: U64) -> U64:
    """Each number's bits spread over all 64; arithmetic wraps."""
    x = numbers + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def shards_of(ids: U64, shards: int) -> npt.NDArray[np.uint32]:
    """The shard of each of these ids, from 0 to ``shards - 1``: the one with the highest score, the lowest of several. Shape as
    ``ids``."""
    best, owner = np.zeros(ids.shape, np.uint64), np.zeros(ids.shape, np.uint32)
    for shard, salt in enumerate(_mix(np.arange(shards, dtype=np.uint64))):
        score = _mix(ids ^ salt)
        wins = score > best
        best[wins], owner[wins] = score[wins], shard
    return owner
