"""Goal: the rollouts of a trainer's checkpoint fit another number of processes, and none is lost on the way.

Method: checkpoints as the trainer writes them, without trl: the module is loaded beside its package. Each new rank is asked what it would
restore, and the rollouts of every micro-step are compared as a whole.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import rollstore
from rollstore import RolloutStore

SLICES, PER_DEVICE, ITERATIONS = 2, 6, 2


@pytest.fixture(autouse=True)
def without_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("rollstore.trl")
    package.__path__ = [str(Path(rollstore.__file__).parent / "trl")]
    monkeypatch.setitem(sys.modules, "rollstore.trl", package)


def make(checkpoint: Path, world: int, micro_step: int = 5) -> None:
    from rollstore.trl._restore import Saved
    from rollstore.trl._window import Window

    count = SLICES * PER_DEVICE
    shape = {"world_size": world, "per_device_train_batch_size": PER_DEVICE, "seed": 1}
    for rank in range(world):
        ids = [1000 + rank * count + place for place in range(count)]
        order = [ids[1::2], ids[0::2]]
        window = Window(SLICES, ITERATIONS, ids, updates=1, stored={0, 1})
        saved = Saved({**shape, "steps_per_generation": SLICES, "num_iterations": ITERATIONS}, micro_step, 3, 0, window, None, order)
        with RolloutStore.open(checkpoint / f"store-{rank}", window=8) as store:
            logps = [np.full(2, -float(id), np.float32) for id in ids]
            store.insert(ids, 7, completion_ids=[np.array([1, 2])] * count, old_logps=logps, old_version=0)
            store.advance_ref_version(7)
            store.set_cursor(saved.to_bytes())
            (checkpoint / "_rollouts").mkdir(parents=True, exist_ok=True)
            store.checkpoint(checkpoint / "_rollouts" / f"rank-{rank:05}")


def slices(checkpoint: Path) -> tuple[dict[str, int], list[list[int]]]:
    """The shape, and the ids of each slice over all ranks; every rank has its rollouts, and no other."""
    from rollstore.trl._restore import Saved

    shape: dict[str, int] = {}
    all_ranks: list[list[int]] = [[] for _ in range(SLICES)]
    for rank in sorted((checkpoint / "_rollouts").iterdir()):
        with RolloutStore.open(rank, read_only=True) as store:
            assert store.cursor is not None
            saved = Saved.from_bytes(store.cursor)
            shape = saved.shape
            assert saved.window is not None and sorted(store.ids().tolist()) == sorted(saved.window.ids)
            assert saved.window.updates == 1 and saved.window.stored == {0, 1} and (saved.micro_step, saved.generation) == (5, 3)
            for whole, ids in zip(all_ranks, saved.order, strict=True):
                assert len(ids) == shape["per_device_train_batch_size"]
                whole.extend(ids)
                for id in ids:
                    assert store.get(id).old_logps.tolist() == [-float(id)] * 2 and store.staleness([id], 7).lag.tolist() == [1]
    return shape, all_ranks


@pytest.mark.parametrize("processes", [1, 3, 4, 12])
def test_every_micro_step_keeps_its_rollouts(tmp_path: Path, processes: int) -> None:
    from rollstore.trl._elastic import reshard_checkpoint
    from rollstore.trl._restore import misfit

    make(tmp_path, 2)
    _, before = slices(tmp_path)
    assert reshard_checkpoint(tmp_path, processes) == 12 // processes
    shape, after = slices(tmp_path)
    assert after == before and shape["world_size"] == processes
    assert len(list((tmp_path / "_rollouts").iterdir())) == processes
    assert misfit(str(tmp_path / "_rollouts" / "rank-00000"), shape) is None
    assert sorted(path.name for path in tmp_path.iterdir() if "roll" in path.name) == ["_rollouts", "_rollouts-of-2"]


def test_there_and_back_again_is_the_same(tmp_path: Path) -> None:
    from rollstore.trl._elastic import reshard_checkpoint

    make(tmp_path, 2)
    before = slices(tmp_path)
    reshard_checkpoint(tmp_path, 4)
    reshard_checkpoint(tmp_path, 3)
    assert reshard_checkpoint(tmp_path, 2) == PER_DEVICE
    assert slices(tmp_path) == before


def test_a_killed_call_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rollstore.trl import _elastic

    make(tmp_path, 2)
    before = slices(tmp_path)
    rename = _elastic.os.rename

    def killed(at: int) -> None:
        calls = iter(range(10))

        def until(source: str, target: str) -> None:
            if next(calls) == at:
                raise KeyboardInterrupt
            rename(source, target)

        monkeypatch.setattr(_elastic.os, "rename", until)
        with pytest.raises(KeyboardInterrupt):
            _elastic.reshard_checkpoint(tmp_path, 4)
        monkeypatch.setattr(_elastic.os, "rename", rename)

    killed(0)
    assert slices(tmp_path) == before
    killed(1)
    assert slices(tmp_path) == before
    killed(2)
    assert _elastic.reshard_checkpoint(tmp_path, 4) == 3
    assert slices(tmp_path)[1] == before[1]


def test_what_cannot_be_dealt_out_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    from rollstore.trl._elastic import reshard_checkpoint

    make(tmp_path, 2)
    before = slices(tmp_path)
    with pytest.raises(rollstore.InvalidError, match="12 rollouts on 2 processes, which 5"):
        reshard_checkpoint(tmp_path, 5)
    assert slices(tmp_path) == before
    (tmp_path / "_rollouts" / "rank-00001").rename(tmp_path / "lost")
    with pytest.raises(rollstore.InvalidError, match="rollouts of 1 ranks, it was saved by 2; 1 are wanted"):
        reshard_checkpoint(tmp_path, 1)
