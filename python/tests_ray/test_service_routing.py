"""Which shard a rollout lies with, what a shard calls a version, what a cut waits for: all are arithmetic, and tried as such.

The routing is compared with its definition in Python's own whole numbers, since every reader of a shard must agree on it.
"""

from __future__ import annotations

import numpy as np
import pytest
from rollstore import shards_of
from rollstore.ray._cutting import missing_of
from rollstore.ray._ledger import Entry
from rollstore.ray._versions import Versions

MASK = (1 << 64) - 1


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def test_it_is_rendezvous_hashing_as_defined() -> None:
    ids = np.array([0, 1, 2, 1000, 150_323_855_360, 1 << 63, MASK], np.uint64)
    for shards in (1, 2, 3, 8):
        expected = [max(range(shards), key=lambda shard: (mix(int(id) ^ mix(shard)), -shard)) for id in ids]
        assert shards_of(ids, shards).tolist() == expected
    assert shards_of(ids, 3).dtype == np.uint32


def test_ids_in_a_row_spread_evenly() -> None:
    counts = np.bincount(shards_of(np.arange(80_000, dtype=np.uint64), 8))
    assert counts.min() > 9_500 and counts.max() < 10_500


def test_one_shard_more_takes_its_share_and_moves_nothing_else() -> None:
    ids = np.arange(40_000, dtype=np.uint64)
    before, after = shards_of(ids, 4), shards_of(ids, 5)
    moved = before != after
    assert (after[moved] == 4).all() and 0.18 < moved.mean() < 0.22


def test_numbers_of_versions_go_both_ways() -> None:
    versions = Versions().issued([1, 2, 3], 3).pushed(256, 9).issued([257, 258], 11)
    assert versions.runs == [[0, 0, 4], [256, 9, 3]]
    assert versions.current == 258
    for service, own in ((0, 0), (3, 3), (256, 9), (258, 11)):
        assert (versions.own(service), versions.service(own)) == (own, service)
    assert versions.own(4) is None and versions.own(259) is None, "never issued"
    assert versions.service(5) == 3, "what a rewind left in between counts as the one before"
    assert versions.after(2) == [3, 256, 257, 258]


@pytest.mark.parametrize("shards", [1, 7])
def test_no_ids_are_no_shards(shards: int) -> None:
    assert shards_of(np.empty(0, np.uint64), shards).shape == (0,)


def test_a_cut_waits_for_those_parts_of_writes_that_are_under_way() -> None:
    def entry(floor: int, *shards: int) -> Entry:
        return Entry(floor, shards, None)

    remembered = [
        {("a", 1): entry(0, 0, 1), ("b", 5): entry(5, 0, 2), ("c", 0): entry(0, 0)},
        {("a", 2): entry(2, 1)},  # told with its next write that "a" has the answer of 1
        {},
    ]
    assert missing_of(remembered, set()) == [set(), set(), {("b", 5)}]
    assert missing_of(remembered, {("b", 5)}) == [set(), set(), set()], "waited for before, in vain"
