"""Goal: arrays that are views never crash the process, change the file, or outlive their bytes.

Method: write through every way out of an array, let store and file go while arrays live, and compare bytes.
"""

from __future__ import annotations

import gc
import pickle
import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore, View

MODES: tuple[Literal["mapped", "copied"], ...] = ("mapped", "copied")


def test_a_view_is_no_copy_and_read_only(store: RolloutStore) -> None:
    store.insert([1], 100, old_logps=logps(64), old_version=0)
    view = store[1].old_logps
    assert isinstance(view, View) and not view.flags.owndata and not view.flags.writeable
    assert view.ctypes.data % 64 == 0 and view.ctypes.data == store[1].old_logps.ctypes.data
    with pytest.raises(ValueError):
        view[0] = 1
    with pytest.raises(ValueError):
        view.setflags(write=True)
    with pytest.raises(ValueError):
        view[3:].view(np.uint8)[0] = 1


def test_many_views_come_in_the_order_asked_with_none_for_who_is_not_live(store: RolloutStore) -> None:
    values = logps(3, 5)
    store.insert([1, 2], [100, 101], old_logps=values, old_version=0)
    second, absent, first, again = store.get_many([2, 7, 1, 2])
    assert absent is None and first is not None and second is not None and again is not None
    assert (first.created_step, second.created_step, again.created_step) == (100, 101, 101)
    np.testing.assert_array_equal(first.old_logps, values[0])
    np.testing.assert_array_equal(second.old_logps, values[1])
    assert store.get_many([]) == []
    with pytest.raises(rollstore.InvalidError):
        store.get_many([1, -1])


def test_what_takes_over_a_view_writes_into_a_copy(store: RolloutStore, tmp_path: Path) -> None:
    store.insert([1], 100, old_logps=logps(64), old_version=0)
    view = store[1].old_logps
    before = view.tolist()
    taken = np.from_dlpack(view)
    assert not np.shares_memory(taken, view)
    taken = np.asarray(pickle.loads(pickle.dumps(view)))
    taken[:] = 7
    assert view.tolist() == store[1].old_logps.tolist() == before
    assert rollstore.verify(tmp_path / "rollouts").is_sound


def test_a_write_stays_in_what_was_asked_for_to_be_written(tmp_path: Path) -> None:
    values = [*logps(100), *logps(200_000)]
    for reads in MODES:
        with RolloutStore.open(tmp_path / reads, window=8, reads=reads) as store:
            store.insert([1, 2], 100, old_logps=values, old_version=0)
            for id in (1, 2):
                view = store[id].old_logps
                for own in (view.writable(), view[3:].writable(), view[::2].writable(), view[:0].writable()):
                    assert own.flags.writeable and type(own) is np.ndarray
                    own[:] = 7
                    assert (own == 7).all()
                np.testing.assert_array_equal(view, values[id - 1])
                np.testing.assert_array_equal(view[::2].writable(), view[::2])
                np.testing.assert_array_equal(store[id].old_logps, values[id - 1])
            assert store.verify().is_sound


def test_what_was_written_to_outlives_everything(tmp_path: Path) -> None:
    store = RolloutStore.open(tmp_path / "rollouts", window=8)
    store.insert([1], 100, old_logps=logps(200_000), old_version=0)
    own = store[1].old_logps.writable()
    own[0] = 7
    store.close()
    shutil.rmtree(tmp_path / "rollouts")
    del store
    gc.collect()
    own[1] = 8
    assert own[:2].tolist() == [7, 8]
    np.testing.assert_array_equal(own[2:], logps(200_000)[0][2:])


def test_a_view_outlives_store_and_rollout(tmp_path: Path) -> None:
    store = RolloutStore.open(tmp_path / "rollouts", window=8)
    store.insert([1], 100, old_logps=logps(5000), old_version=0)
    view = store[1].old_logps[10:]
    store.close()
    del store
    gc.collect()
    np.testing.assert_array_equal(view, logps(5000)[0][10:])


def test_compaction_under_live_views_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "rollouts"
    with RolloutStore.open(path, window=8, segment_bytes=1 << 16, background_compaction=False) as store:
        store.insert(range(200), 100, completion_ids=tokens(*[500] * 200), old_logps=logps(*[500] * 200), old_version=0)
        views = [(store[id].old_logps, store[id].completion_ids) for id in range(200)]
        copies = [(old.copy(), ids.copy()) for old, ids in views]
        store.retire(range(0, 200, 2))
        assert store.compact().freed_bytes > 100_000
        assert store.stats()["pinned_bytes"] > 0
        for view, copy in zip(views, copies, strict=True):
            np.testing.assert_array_equal(view[0], copy[0])
            np.testing.assert_array_equal(view[1], copy[1])
        for id in range(1, 200, 2):
            np.testing.assert_array_equal(store[id].old_logps, copies[id][0])
        del views, view
        gc.collect()
        assert store.stats()["pinned_bytes"] == 0


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_a_million_gets_and_drops_leak_nothing(store: RolloutStore) -> None:
    store.insert(range(100), 100, completion_ids=tokens(*[64] * 100), old_logps=logps(*[64] * 100), old_version=0)

    def look(times: int) -> None:
        for at in range(times):
            rollout = store[at % 100]
            assert rollout.old_logps.size == rollout.completion_ids.size

    look(20_000)
    gc.collect()
    before = resident_bytes()
    look(1_000_000)
    gc.collect()
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"{grown} bytes for a million gets: a leak of 5 bytes each would show"


def test_maps_to_write_to_are_let_go(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "rollouts", window=8, reads="mapped") as store:
        store.insert([1], 100, old_logps=logps(200_000), old_version=0)
        view = store[1].old_logps

        def maps() -> int:
            return sum(str(tmp_path) in line for line in Path("/proc/self/maps").read_text().splitlines())

        before = maps()
        held = [view.writable() for _ in range(50)]
        assert maps() == before + 50
        del held
        for _ in range(2_000):
            view.writable()[0] = 7
        gc.collect()
        assert maps() == before


def test_gathers_and_plans_leak_nothing(store: RolloutStore) -> None:
    store.insert(range(64), 100, completion_ids=tokens(*[256] * 64))
    out = np.zeros((64, 256), np.uint32)

    def look(times: int) -> None:
        for _ in range(times):
            store.gather(range(64), "completion_ids", out)
            store.gather(range(64), "completion_ids")
            store.gather_flat(range(64), "completion_ids")
            assert len(store.plan_for(range(64), 100).rollouts) == 64

    look(300)
    gc.collect()
    before = resident_bytes()
    look(2_000)
    gc.collect()
    assert resident_bytes() - before < 8 << 20
