"""Goal: a trainer comes back where it was. Method: save, go on, go back, and compare what is fresh and what the cursor says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore


def fill(store: RolloutStore, ids: list[int], step: int) -> None:
    lens = [3] * len(ids)
    with store.batch() as batch:
        batch.insert(ids, step, completion_ids=tokens(*lens), old_logps=logps(*lens), old_version=store.ref_version)
        batch.cursor(f"step {step}".encode())


def test_a_batch_takes_nothing_after_its_block(store: RolloutStore) -> None:
    with store.batch() as batch:
        batch.insert([1], 100)
    with pytest.raises(rollstore.InvalidError, match="ended"):
        batch.insert([2], 100)
    with pytest.raises(KeyError), store.batch() as batch:
        batch.insert([3], 100)
        raise KeyError
    with pytest.raises(rollstore.InvalidError, match="ended"):
        batch.commit()
    assert store.ids().tolist() == [1] and batch.committed is None


def test_a_restore_brings_back_what_was_fresh(tmp_path: Path) -> None:
    path, saved = tmp_path / "rollouts", tmp_path / "ckpt" / "rollouts"
    with RolloutStore.open(path, window=8) as store:
        fill(store, [1, 2], 100)
        assert store.checkpoint(saved) == 0, "linked, not copied"
        with store.weight_update(101):
            pass
        fill(store, [3], 101)
        store.retire([1])
    with RolloutStore.open(saved, read_only=True) as checkpoint:
        assert len(checkpoint) == 2
    rollstore.restore(saved, path)
    with RolloutStore.open(path, resume_step=100) as store:
        assert store.ids().tolist() == [1, 2] and store.staleness([1, 2], 100).fresh.all()
        assert store.cursor == b"step 100"
        assert store.advance_ref_version(100) > 1, "the version of the abandoned future is not used twice"


def test_a_trainer_behind_its_store_is_stopped_or_rewinds(store: RolloutStore) -> None:
    fill(store, [1], 100)
    state = store.state_dict()
    store.advance_ref_version(137)
    fill(store, [2], 137)
    assert state["clock"] is None
    later = store.state_dict()
    store.load_state_dict(later)
    store.advance_ref_version(140)
    with pytest.raises(rollstore.InvalidError, match="restore"):
        store.load_state_dict(later)
    store.load_state_dict(later, created_later="drop")
    assert store.clock == 137 and sorted(store.stale()) == [1, 2]
    with pytest.raises(rollstore.InvalidError, match="137"):
        store.advance_ref_version(100)
    store.rewind(100, created_later="drop")
    assert store.ids().tolist() == [1]
    with pytest.raises(rollstore.InvalidError, match="LSN"):
        store.load_state_dict({**later, "last_lsn": 10**9})


def test_a_batch_is_all_or_nothing(store: RolloutStore) -> None:
    with pytest.raises(RuntimeError), store.batch() as batch:
        batch.insert([1], 100)
        raise RuntimeError
    with pytest.raises(rollstore.InvalidError) as refused, store.batch() as batch:
        batch.insert([1, 2], 100)
        batch.advance_ref_version(100)
        batch.insert([3, 2], 100)
    assert refused.value.id == 2 and len(store) == 0 and store.ref_version == 0
    with store.batch() as batch:
        batch.insert([1, 2], 100)
        batch.retire([2, 9])
        batch.advance_ref_version(100, label=17)
        batch.insert([2], 101)
    assert batch.committed is not None
    assert (batch.committed.retired, batch.committed.ref_version, len(store)) == (1, 1, 2)
    assert store.ref_version_of(17) == 1


def test_lives_end_by_rule(store: RolloutStore) -> None:
    store.insert(range(20), range(20), group_ids=[id // 4 for id in range(20)])
    assert store.retire_created_before(4) == 4 and store.retire_groups([1, 99]) == 4
    assert store.retire(np.array([8, 8, 1000])) == 1
    store.advance_ref_version(20)
    assert store.retire_version_before(1) == 11
    stats = store.stats("rollstore/")
    assert (stats["rollstore/retired_evicted"], stats["rollstore/retired_trained"], stats["rollstore/live"]) == (4, 5, 0)
    assert all(isinstance(number, int) for number in stats.values())


def test_a_replacement_inherits_nothing(store: RolloutStore) -> None:
    fill(store, [1], 100)
    store.insert([1], 101, completion_ids=[[7]], replace=True)
    assert "old_logps" not in store[1] and store[1].completion_ids.tolist() == [7]
    with pytest.raises(rollstore.NotFoundError):
        store.insert([2], 101, replace=True)


def test_ids_are_handed_out_once(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "s", window=8) as store:
        first = store.allocate_ids(10)
    with RolloutStore.open(tmp_path / "s") as store:
        assert not set(first.tolist()) & set(store.allocate_ids(10).tolist())


def test_a_buffered_store_says_when_it_is_durable(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "s", window=8, durability="buffered", max_delay=3600) as store:
        lsn = store.insert([1], 100)
        store.wait_durable(lsn)
        assert store.durable_lsn >= lsn
        store.sync()


def test_why_nothing_is_fresh_is_told(store: RolloutStore) -> None:
    fill(store, [1, 2], 0)
    assert "0 of 2 rollouts are fresh" in store.diagnose(20)
    assert (store.would_recompute(20, 8, 0), store.would_recompute(20, 20, 0)) == (2, 0)
    assert (store.count_needs_recompute(20), store.count_out_of_window(20), store.count_stale()) == (2, 2, 0)


def test_a_table_holds_every_rollout(store: RolloutStore) -> None:
    pytest.importorskip("pyarrow")
    fill(store, [1], 100)
    store.insert([2], 101, columns={"x": [np.ones(2, np.float16)]}, rewards=[0.5])
    table: Any = store.to_arrow()
    assert table["id"].to_pylist() == [1, 2] and table["reward"].to_pylist() == [None, 0.5]
    assert table["completion_ids"].to_pylist() == [[0, 1, 2], None]
    assert store.to_arrow([2], ["x"])["x"].to_pylist() == [[1.0, 1.0]]  # pyright: ignore[reportUnknownMemberType]
