"""Goal: torch tensors go in and come out without a warning, and a write into one never reaches the store.

Method: needs torch, which the package does not: skipped without it.
"""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rollstore
from conftest import logps, tokens
from rollstore import RolloutStore

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_tensors_say_the_same_as_arrays(store: RolloutStore) -> None:
    ids = torch.tensor([1, 2])
    completions = torch.tensor([[5, 6, 7], [8, 9, -100]])
    old = torch.tensor([[-0.5, -0.25, -1.0], [-2.0, -3.0, float("nan")]], requires_grad=True)
    lengths = torch.tensor([3, 2])
    store.insert(ids, 100, completion_ids=completions, old_logps=old, old_version=0, lengths=lengths, rewards=torch.ones(2))
    assert store[2].completion_ids.tolist() == [8, 9] and store[1].old_logps.tolist() == [-0.5, -0.25, -1.0]
    out = torch.full((2, 4), 9.0)
    padded = store.gather(ids, "old_logps", out, step=100)
    assert padded.values is out and out.tolist() == [[-0.5, -0.25, -1, 0], [-2, -3, 0, 0]]
    wide = store.gather(ids, "completion_ids", torch.zeros((2, 4), dtype=torch.int64), pad=-100).values
    assert wide.tolist() == [[5, 6, 7, -100], [8, 9, -100, -100]]
    plan = store.plan_for(ids, 120)
    assert store.apply(plan, torch.full((2, 3), -1.0)).computed == 2


def test_a_write_into_a_tensor_stays_in_it(store: RolloutStore) -> None:
    store.insert([1], 100, old_logps=logps(64), old_version=0, completion_ids=tokens(64))
    view = store[1].old_logps
    before = view.tolist()
    for tensor in (view.torch(), view[3:].torch(), torch.from_dlpack(view)):
        tensor.fill_(7)
        assert (tensor == 7).all()
    assert view.tolist() == store[1].old_logps.tolist() == before
    assert store.verify().is_sound


def test_a_large_tensor_is_no_copy_and_outlives_the_store(tmp_path: Path) -> None:
    path = tmp_path / "rollouts"
    values = logps(1 << 20)
    with RolloutStore.open(path, window=8, background_compaction=False, reads="mapped") as store:
        store.insert([1], 100, old_logps=values, old_version=0)
        store.insert([2], 100, columns={"routing": [torch.ones(1 << 20, dtype=torch.bfloat16)]})
        files = {file: file.read_bytes() for file in path.glob("*.log")}
        view, routing = store[1].old_logps, store[2]["routing"]
        tensors = [view.torch(), view.torch(), view[1000:].torch(), torch.from_dlpack(view)]
        for tensor in [*tensors, routing.torch()]:
            assert is_private(path, tensor.data_ptr()), "its memory is the file's, mapped for it alone"
        for number, tensor in enumerate(tensors):
            tensor.fill_(number)
        assert [tensor.unique().tolist() for tensor in tensors] == [[0], [1], [2], [3]], "none sees the others' writes"
        tensors[0].requires_grad_().sum().backward()
        np.testing.assert_array_equal(view, values[0])
        np.testing.assert_array_equal(store[1].old_logps, values[0])
        assert {file: file.read_bytes() for file in files} == files and store.verify().is_sound
        store.retire([1, 2])
        store.insert([3], 100)
        store.compact()
        late = view.torch()
        assert not is_private(path, late.data_ptr()), "its file was removed: a copy"
        np.testing.assert_array_equal(late, values[0])
    del view, store
    gc.collect()
    tensors[1].add_(1)
    assert tensors[1].unique().tolist() == [2]


def is_private(path: Path, address: int) -> bool:
    """Whether the address lies in a private, writable map of a file of the store."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(number, 16) for number in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1] == "rw-p" and f"{path}/" in line
    return False


def test_bfloat16_is_torchs_own(store: RolloutStore) -> None:
    values = torch.tensor([-0.5, 3.140625, 1e30], dtype=torch.bfloat16)
    store.insert([1], 100, columns={"own": [values]})
    assert store[1].columns()[0][1] == "bfloat16"
    again = store[1]["own"].torch()
    assert again.dtype == torch.bfloat16 and torch.equal(again, values)
    out = torch.zeros((1, 4), dtype=torch.bfloat16)
    assert torch.equal(store.gather([1], "own", out).values[0, :3], values)


def test_buffers_that_cannot_be_filled_are_refused(store: RolloutStore) -> None:
    store.insert([1], 100, old_logps=logps(3), old_version=0)
    for out in (torch.zeros((1, 8))[:, ::2], torch.zeros((1, 4), requires_grad=True), torch.zeros((1, 4), device="meta")):
        with pytest.raises(rollstore.InvalidError):
            store.gather([1], "old_logps", out, step=100)


def test_ranks_of_a_process_group_agree(store: RolloutStore) -> None:
    dist: Any = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", init_method=f"file://{store.path}.group", rank=0, world_size=1)
    try:
        store.insert(range(5), 0, completion_ids=tokens(*[4] * 5))
        sizes: list[int] = []

        def forward(plan: rollstore.Plan) -> list[Any]:
            sizes.append(len(plan))
            return [np.full(n, -0.5, np.float32) for n in plan.lens]

        store.get_or_compute(range(5), 0, forward, micro_batch=2, agree=dist.group.WORLD)
        assert sizes == [2, 2, 1]
    finally:
        dist.destroy_process_group()
