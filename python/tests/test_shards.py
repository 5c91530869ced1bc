"""Goal: shards of a run become others, from Python too, and a rollout is looked for where it was put. Method: shards are written,
made into others, and every rollout is read where the routing says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore


def make(path: Path, ids: list[int], cursor: bytes = b"epoch 1") -> Path:
    lens = [2 + id % 3 for id in ids]
    with RolloutStore.open(path, window=8) as store, store.batch() as batch:
        batch.insert(ids, 100, completion_ids=tokens(*lens), old_logps=logps(*lens), old_version=0)
        batch.cursor(cursor)
    return path


def test_known_ids_go_to_known_shards() -> None:
    ids = np.array([0, 1, 2, 3, 7, 42, 1 << 32, (1 << 63) | 1, 2**64 - 1], np.uint64)
    shards = rollstore.shards_of(ids, 8)
    assert shards.dtype == np.uint32 and shards.tolist() == [5, 3, 0, 0, 3, 5, 7, 4, 2]
    assert rollstore.shards_of([], 3).tolist() == []
    for count in (0, -1, 100_001):
        with pytest.raises(rollstore.InvalidError):
            rollstore.shards_of(ids, count)


def test_shards_become_others_and_hold_the_same(tmp_path: Path) -> None:
    given = [make(tmp_path / f"rank-{rank}", list(range(rank, 60, 2))) for rank in range(2)]
    made = rollstore.reshard(given, 3, tmp_path / "three")
    assert made.before == made.after and made.after.rollouts == 60 and made.after.versions[0].live == 60
    assert (made.superseded, made.superseded_partials, made.sweeps) == (0, 0, {})
    shards = rollstore.shards_of(range(60), 3)
    for shard, (path, count) in enumerate(made.stores):
        with RolloutStore.open(path, read_only=True) as store:
            assert sorted(store.ids().tolist()) == np.flatnonzero(shards == shard).tolist() and len(store) == count
    rollstore.merge(tmp_path / "three", tmp_path / "all")
    with RolloutStore.open(tmp_path / "all", read_only=True) as store:
        assert store.cursor == b"epoch 1" and len(store) == 60
        for id in range(60):
            assert store.get(id).old_logps.tolist() == logps(2 + id % 3)[0].tolist()


def test_what_needs_a_choice_says_so_and_takes_it(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a", [1, 2], b"a"), make(tmp_path / "b", [2, 3], b"b")
    with pytest.raises(rollstore.InvalidError, match="cursors"):
        rollstore.merge([a, b], tmp_path / "all")
    with pytest.raises(rollstore.InvalidError, match=r"in more than one shard: 2 \(different"):
        rollstore.merge([a, b], tmp_path / "all", cursor=None)
    assert not (tmp_path / "all").exists()
    made = rollstore.merge([a, b], tmp_path / "all", on_conflict="newest", cursor=1)
    assert made.superseded == 1 and made.after.rollouts == 3
    with RolloutStore.open(tmp_path / "all", read_only=True) as store:
        assert store.cursor == b"b"


def test_bad_choices_and_shards_are_refused_by_name(tmp_path: Path) -> None:
    a = make(tmp_path / "a", [1])
    with pytest.raises(rollstore.InvalidError, match="on_conflict"):
        rollstore.merge([a], tmp_path / "all", on_conflict="oldest")  # type: ignore[arg-type]
    with pytest.raises(rollstore.InvalidError, match="cursor"):
        rollstore.merge([a], tmp_path / "all", cursor="first")  # type: ignore[arg-type]
    with pytest.raises(rollstore.InvalidError, match="there already"):
        rollstore.merge([a], a)
    with pytest.raises(rollstore.NotFoundError):
        rollstore.merge([tmp_path / "nowhere"], tmp_path / "all")
