"""TransferQueue with the backend: a real controller and owner, clients in several processes, through TransferQueue's own interface.

One Ray for all tests; each has a partition of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rollstore.transferqueue  # registers the backend
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict


def configuration(path: Path | str, **settings: Any) -> Any:
    return OmegaConf.create(
        {
            "controller": {"polling_mode": True},
            "backend": {"storage_backend": "Rollstore", "Rollstore": {"path": str(path), **settings}},
        }
    )


@pytest.fixture(scope="module")
def path(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("queue") / "store"
    tq.init(configuration(path))
    yield path
    tq.close()


@pytest.fixture
def owner(path: Path) -> Any:
    """Who has the store, as the clients know it."""
    return tq.get_client().storage_manager.storage_client.owner


def rows(count: int, at: int = 0) -> TensorDict:
    """Rows whose values say which they are."""
    tokens = [torch.arange(at + row, at + row + 2 + row % 3) for row in range(count)]
    return TensorDict(
        {"tokens": torch.nested.as_nested_tensor(tokens, layout=torch.jagged), "text": [f"row {at + row}" for row in range(count)]},
        batch_size=count,
    )


def tokens_of(found: Any) -> list[list[int]]:
    return [row.tolist() for row in found["tokens"].unbind()]


def test_batches_come_back_by_key_whole_and_field_by_field(path: Path) -> None:
    tq.kv_batch_put(keys=["a", "b", "c"], partition_id="fields", fields=rows(3), tags=[{"n": n} for n in range(3)])
    tq.kv_batch_put(keys=["a", "c"], partition_id="fields", fields=TensorDict({"reward": torch.tensor([0.5, 1.5])}, batch_size=2))
    found = tq.kv_batch_get(keys=["c", "a"], partition_id="fields")
    assert sorted(found.keys()) == ["reward", "text", "tokens"]
    assert tokens_of(found) == [[2, 3, 4, 5], [0, 1]] and list(found["text"]) == ["row 2", "row 0"]
    assert found["reward"].tolist() == [1.5, 0.5]
    alone = tq.kv_batch_get(keys=["b"], partition_id="fields", select_fields=["text"])
    assert list(alone.keys()) == ["text"] and list(alone["text"]) == ["row 1"]
    assert tq.kv_list("fields") == {"fields": {key: {"n": n} for n, key in enumerate("abc")}}


def test_a_cleared_sample_leaves_nothing_in_the_store(path: Path, owner: Any) -> None:
    before = len(owner.records())
    tq.kv_batch_put(keys=["a", "b"], partition_id="clear", fields=rows(2))
    tq.kv_batch_put(keys=["a"], partition_id="clear", fields=TensorDict({"late": torch.ones(1, 1)}, batch_size=1))
    assert len(owner.records()) == before + 3
    tq.kv_clear(keys=["a"], partition_id="clear")
    assert len(owner.records()) == before + 1
    tq.get_client().clear_partition("clear")
    assert len(owner.records()) == before


def test_other_processes_need_no_import_and_work_at_once(local_ray: Any, path: Path) -> None:
    @local_ray.remote(num_cpus=0)
    class Worker:
        def __init__(self) -> None:
            import transfer_queue

            transfer_queue.init()

        def put(self, name: str, rounds: int) -> None:
            import torch
            import transfer_queue
            from tensordict import TensorDict

            for number in range(rounds):
                fields = TensorDict({"number": torch.full((4, 3), number)}, batch_size=4)
                keys = [f"{name}-{number}-{row}" for row in range(4)]
                transfer_queue.kv_batch_put(keys=keys, partition_id="workers", fields=fields)

    workers = {name: Worker.remote() for name in ("left", "right")}
    local_ray.get([worker.put.remote(name, 5) for name, worker in workers.items()])
    keys = [f"{name}-{number}-{row}" for name in workers for number in range(5) for row in range(4)]
    found = tq.kv_batch_get(keys=keys, partition_id="workers")["number"]
    assert [row.tolist() for row in found.unbind()] == [[number] * 3 for _ in workers for number in range(5) for _ in range(4)]


def test_a_killed_owner_comes_back_with_its_data_and_calls_go_on(local_ray: Any, path: Path) -> None:
    tq.kv_batch_put(keys=["a", "b"], partition_id="killed", fields=rows(2))
    actor = local_ray.get_actor("RollstoreOwner", namespace="transfer_queue")
    pid = local_ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    tq.kv_batch_put(keys=["c"], partition_id="killed", fields=rows(1, at=2))
    assert tokens_of(tq.kv_batch_get(keys=["a", "b", "c"], partition_id="killed")) == [[0, 1], [1, 2, 3], [2, 3]]
    assert local_ray.get(actor.__ray_call__.remote(lambda _: os.getpid())) != pid


def test_what_comes_out_of_rays_memory_may_be_written_to(path: Path) -> None:
    client = tq.get_client().storage_manager.storage_client
    keys = ["large@tensor", "large@array"]
    client.put(keys, [torch.zeros(1 << 17), np.zeros(1 << 17)])
    for value in client.get(keys):
        value += 1
    assert [value.any() for value in client.get(keys)] == [False, False]
    client.clear(keys)


def test_what_the_store_raises_comes_as_it_was_raised(path: Path) -> None:
    client = tq.get_client().storage_manager.storage_client
    with pytest.raises(tq.StorageKeyNotFoundError, match="999999@tokens"):
        client.get(["999999@tokens"])
    fields = TensorDict({"bad": [{1, 2}]}, batch_size=1)
    with pytest.raises(TypeError, match="@bad holds a builtins.set"):
        tq.kv_batch_put(keys=["a"], partition_id="refused", fields=fields)
    # TransferQueue has named the key before it was refused; a key without fields is in no store.
    tq.get_client().clear_partition("refused")


def test_a_checkpoint_of_transferqueue_brings_exactly_its_samples_back(path: Path, tmp_path: Path) -> None:
    tq.kv_batch_put(keys=["a"], partition_id="checkpoint", fields=rows(1), tags=[{"saved": True}])
    tq.save_checkpoint(tmp_path / "saved")
    tq.kv_batch_put(keys=["a", "b"], partition_id="checkpoint", fields=rows(2, at=10))
    tq.load_checkpoint(tmp_path / "saved")
    assert tq.kv_list("checkpoint") == {"checkpoint": {"a": {"saved": True}}}
    assert tokens_of(tq.kv_batch_get(keys=["a"], partition_id="checkpoint")) == [[0, 1]]


def test_a_checkpoint_that_is_damaged_changes_nothing(path: Path, tmp_path: Path) -> None:
    tq.kv_batch_put(keys=["a"], partition_id="damaged", fields=rows(1))
    tq.save_checkpoint(tmp_path / "saved")
    (manifest,) = (tmp_path / "saved" / "rollstore").glob("MANIFEST-*")
    half = manifest.read_bytes()[: manifest.stat().st_size // 2]
    manifest.unlink()  # It may be the store's own file.
    manifest.write_bytes(half)
    with pytest.raises(rollstore.DamagedError):
        tq.load_checkpoint(tmp_path / "saved")
    tq.kv_batch_put(keys=["b"], partition_id="damaged", fields=rows(1, at=1))
    assert tokens_of(tq.kv_batch_get(keys=["a", "b"], partition_id="damaged")) == [[0, 1], [1, 2]]


def test_a_new_controller_serves_what_the_old_one_did(path: Path) -> None:
    tq.kv_batch_put(keys=["a", "b"], partition_id="again", fields=rows(2), tags=[{"n": 1}, {"n": 2}])
    low = tq.get_client().put(TensorDict({"score": torch.arange(4.0)}, batch_size=4), partition_id="indexed")
    before = tq.kv_list()
    tq.close()
    tq.init(configuration(path))
    assert tq.kv_list() == before
    assert list(tq.kv_batch_get(keys=["b", "a"], partition_id="again")["text"]) == ["row 1", "row 0"]
    meta = tq.get_client().get_meta(data_fields=["score"], batch_size=4, partition_id="indexed", task_name="train")
    assert meta.global_indexes == low.global_indexes
    assert tq.get_client().get_data(meta)["score"].flatten().tolist() == [0, 1, 2, 3]
    fresh = tq.get_client().put(TensorDict({"score": torch.ones(2)}, batch_size=2), partition_id="indexed")
    assert min(fresh.global_indexes) > max(low.global_indexes), "an index of the earlier run may not mean another sample"


def test_a_run_that_begins_anew_retires_what_is_there(path: Path) -> None:
    tq.kv_batch_put(keys=["a"], partition_id="old", fields=rows(1))
    tq.close()
    tq.init(configuration(path, recover=False, durability="buffered"))
    assert not tq.kv_list()
    tq.kv_batch_put(keys=["a"], partition_id="new", fields=rows(1, at=7))
    assert tokens_of(tq.kv_batch_get(keys=["a"], partition_id="new")) == [[7, 8]]


def test_a_store_that_cannot_be_opened_fails_the_initialisation(path: Path) -> None:
    tq.close()
    with pytest.raises(RuntimeError, match="could not start"):
        tq.init(configuration(Path(__file__)))
