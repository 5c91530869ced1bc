"""The storage client keeps what TransferQueue asks of one: put, get, clear, overwriting, and its errors.

A client with the store in its own process stands for all: the same code runs in the owner.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rollstore
import torch
import transfer_queue
from queue_client import client_of
from rollstore.transferqueue._calls import Origin, batches
from transfer_queue.storage.clients.base import StorageClientFactory


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    client = client_of(tmp_path / "queue")
    yield client
    client.close()


def live(client: Any) -> dict[int | str, list[tuple[str, ...]]]:
    """The fields of each sample's rollouts."""
    return {sample: sorted(part.fields for part in parts) for sample, parts in client.owner._parts.items()}


def test_values_come_in_the_order_of_the_keys(client: Any) -> None:
    client.put(["0@a", "1@a", "0@b", "1@b"], ["a0", "a1", "b0", "b1"])
    assert client.get(["1@b", "0@a", "1@a", "1@b"]) == ["b1", "a0", "a1", "b1"]
    assert client.get([]) == []


def test_fields_of_one_put_are_one_rollout_and_later_ones_another(client: Any) -> None:
    client.put(["5@b", "5@a"], [1, 2])
    client.put(["5@c"], [3])
    assert live(client) == {5: [("a", "b"), ("c",)]}
    assert client.get(["5@a", "5@b", "5@c"]) == [2, 1, 3]


def test_the_last_value_of_a_key_counts(client: Any) -> None:
    client.put(["0@a", "0@a"], [1, 2])
    assert client.get(["0@a"]) == [2]
    client.put(["0@a"], [torch.tensor(3)])
    assert client.get(["0@a"]) == [torch.tensor(3)]


@pytest.mark.parametrize("closed", [False, True], ids=["open", "opened again"])
def test_overwriting_a_field_leaves_its_neighbours(client: Any, tmp_path: Path, closed: bool) -> None:
    half = torch.ones(2, dtype=torch.bfloat16)
    client.put(["0@a", "0@b", "0@c"], [half, "b", [1]])
    client.put(["0@b", "0@d"], ["new", 4])
    if closed:
        client.close()
        client.__init__({"path": str(tmp_path / "queue")})
    assert live(client) == {0: [("a", "c"), ("b", "d")]}
    kept, *others = client.get(["0@a", "0@b", "0@c", "0@d"])
    assert torch.equal(kept, half) and kept.dtype == torch.bfloat16 and others == ["new", [1], 4]


def test_a_cleared_field_is_gone_and_its_neighbours_are_not(client: Any) -> None:
    client.put(["0@a", "0@b", "1@a"], [1, 2, 3])
    client.clear(["0@a", "1@a", "7@never"])
    assert client.get(["0@b"]) == [2] and live(client) == {0: [("b",)]}
    for key in ("0@a", "1@a"):
        with pytest.raises(transfer_queue.StorageKeyNotFoundError, match=key):
            client.get([key])


def test_fields_may_have_any_names(client: Any) -> None:
    names = ["old_log_probs", "completion_ids", "a+b", "a", "b", "%2B", "x@y", "größer", "f" * 900]
    keys = [f"0@{name}" for name in names]
    client.put(keys, list(range(len(keys))))
    client.put(["0@a+b"], ["new"])
    assert client.get(keys) == [0, 1, "new", 3, 4, 5, 6, 7, 8]


def test_keys_may_be_other_than_those_of_transferqueue(client: Any, tmp_path: Path) -> None:
    client.put(["t", "17", "17@a", "i"], [torch.ones(2), "hi", 1, 2])
    client.put(["17", "i"], ["ho", 3])
    client.close()
    client.__init__({"path": str(tmp_path / "queue")})
    assert client.get(["17", "17@a", "i"]) == ["ho", 1, 3] and client.get(["t"])[0].tolist() == [1, 1]
    client.clear(["t", "17", "never"])
    assert client.get(["17@a", "i"]) == [1, 3]
    with pytest.raises(transfer_queue.StorageKeyNotFoundError, match="'17 was not put"):
        client.get(["17"])
    with pytest.raises(TypeError, match="^s holds a builtins.set"):
        client.put(["s"], [set()])


def test_a_put_is_divided_between_samples_and_a_get_between_keys(tmp_path: Path) -> None:
    client = client_of(tmp_path / "queue", call_bytes=1000)
    values = [torch.full((100,), float(row)) for row in range(7)]
    samples = {row: {"a": value} for row, value in enumerate(values)}
    assert [len(some) for some, _ in batches(samples, 1000)] == [2, 2, 2, 1]
    assert [len(some) for some, _ in batches(samples, 1)] == [1] * 7
    keys = [f"{row}@a" for row in range(7)]
    client.put(keys, values)
    assert all(map(torch.equal, client.get(keys), values))
    assert len(client.owner.get([(row, "a") for row in range(7)], 1000).trees) == 2
    client.close()


def test_an_index_that_means_another_sample_keeps_nothing_of_the_first(client: Any) -> None:
    first, second = Origin("train", "first", {}), Origin("train", "second", {})
    client.put_samples({3: {"a": 1, "b": 2}}, {3: first})
    client.put_samples({3: {"c": 3}}, {3: first})
    assert client.get(["3@a", "3@c"]) == [1, 3]
    client.put_samples({3: {"b": 4}}, {3: second})
    assert live(client) == {3: [("b",)]} and client.get(["3@b"]) == [4]


def test_puts_go_on_when_a_full_disk_has_room_again(client: Any) -> None:
    client.put(["0@a"], [torch.ones(10)])
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, unlimited[1]))
    try:
        with pytest.raises(rollstore.Error):
            client.put(["0@a"], [torch.zeros(1 << 20)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert torch.equal(*client.get(["0@a", "0@a"])) and client.get(["0@a"])[0].tolist() == [1] * 10
    client.put(["0@b"], ["more"])
    assert client.get(["0@b"]) == ["more"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.put("0@a", [1]), "keys is a str"),
        (lambda client: client.put(["0@a"], [1, 2]), "1 keys and 2 values"),
        (lambda client: client.put(["0@"], [1]), "'0@' is no key"),
        (lambda client: client.get(["0@"]), "'0@' is no key"),
        (lambda client: client.clear(("0@a",)), "keys is a tuple"),
    ],
)
def test_a_call_that_is_none_is_refused(client: Any, call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(client)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "path is missing"),
        ({"path": "queue"}, "must be an absolute path"),
        ({"path": "/queue", "durable": True}, "no setting 'durable'"),
        ({"path": "/queue", "durability": "maybe"}, "'synced' or 'buffered'"),
        ({"path": "/queue", "recover": "no"}, "recover is 'no'"),
        ({"path": "/queue", "calls": 0}, "calls is 0"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(rollstore.InvalidError, match=said):
        StorageClientFactory.create("RollstoreClient", settings)


def test_another_store_is_not_taken_for_a_queue(tmp_path: Path) -> None:
    rollstore.RolloutStore.open(tmp_path / "rollouts", window=8, run_identity="a trainer's").close()
    with pytest.raises(rollstore.InvalidError, match="belongs to run"):
        client_of(tmp_path / "rollouts")


def test_the_command_line_shows_samples_and_fields(client: Any, tmp_path: Path) -> None:
    client.put(["17@responses", "17@prompt"], [torch.tensor([5, 6, 7]), "why?"])

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "rollstore", *arguments]
        return " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    path = str(tmp_path / "queue")
    assert "17@prompt+responses" in said("ls", path, "--group", "17")
    shown = said("get", path, "17@prompt+responses")
    assert '"prompt":"why?"' in shown and "@responses int64 3 - - 5 6 7" in shown
    assert said("get", path, "17@prompt+responses", "--column", "@responses") == "5 6 7"
