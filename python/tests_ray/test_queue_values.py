"""Whatever TransferQueue may put comes back equal in type, dtype and bits, or is refused by a message that names its key.

Each value goes through a store that is closed and opened again in between, so that it comes from the disk.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from queue_client import client_of, same

QUIET_NAN = np.array([0x7FF8_0000_0000_0001], np.uint64).view(np.float64)[0]

TORCH_DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]

ODD = {
    "no dimension": torch.tensor(3.5),
    "no values": torch.empty(0),
    "no rows of three": torch.empty(0, 3, dtype=torch.int64),
    "not contiguous": torch.arange(12.0).reshape(3, 4).t(),
    "every other": torch.arange(10)[::2],
    "not finite": torch.tensor([float("nan"), float("inf"), -0.0]),
    "conjugated": torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "jagged": torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged),
    "nested, strided": torch.nested.nested_tensor([torch.ones(2, 2), torch.zeros(3, 1)]),
    "numpy": np.arange(6.0).reshape(2, 3),
    "numpy, transposed": np.arange(6).reshape(2, 3).T,
    "numpy, big-endian": np.arange(3, dtype=">i4"),
    "numpy, no values": np.empty((0, 2), np.float32),
    "numpy, no dimension": np.array(7, np.int16),
    "numpy, text": np.array(["a", "größer"]),
    "numpy, bytes": np.array([b"a", b"long"]),
    "numpy, dates": np.array(["2026-01-01", "NaT"], "M8[s]"),
    "numpy, objects": np.array([None, "x", {"a": np.float32(1)}, torch.ones(2)], object),
    "numpy scalars": [np.float32(0.1), np.bool_(True), np.str_("é"), np.bytes_(b"\x00\xff"), np.datetime64("2026-01-01", "D")],
    "text": "größer \ud800 \x00",
    "no text": "",
    "bytes": b"\x00\xff",
    "None": None,
    "numbers": [True, 0, -(10**40), 0.1, -0.0, float("inf"), float(QUIET_NAN)],
    "lists": [[], [1, [2, [torch.ones(1)]]]],
    "a tuple": (1, ("a", b"b")),
    "a dict": {"role": "user", "content": [{"type": "text"}], "scores": torch.ones(2, dtype=torch.bfloat16)},
    "a dict of other keys": {1: "a", None: 2, (1, 2): 3.0},
    "a dict like our own": {"~": "tensor", "dtype": "float32", "shape": [9]},
    "a long text": "x" * 100_000,
    "a long list": list(range(5_000)),
}


def through(tmp_path: Path, values: list[Any]) -> list[Any]:
    """These values, as rows of one field, from the disk."""
    keys = [f"{row}@field" for row in range(len(values))]
    client = client_of(tmp_path / "queue")
    client.put(keys, values)
    client.close()
    client = client_of(tmp_path / "queue")
    try:
        return client.get(keys)
    finally:
        client.close()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_tensors_of_each_type_come_back_in_shapes_of_their_own(tmp_path: Path, dtype: torch.dtype) -> None:
    given = [torch.arange(n).to(dtype) for n in (3, 1, 0)] + [torch.ones(2, 2).to(dtype)]
    assert all(map(same, through(tmp_path, given), given))


@pytest.mark.parametrize("name", ODD)
def test_other_values_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    (found,) = through(tmp_path, [ODD[name]])
    assert same(found, ODD[name]), f"{found!r}"


def test_rows_of_one_field_may_be_of_any_kinds(tmp_path: Path) -> None:
    given = list(ODD.values())
    assert all(map(same, through(tmp_path, given), given))


def test_what_comes_back_may_be_written_to(tmp_path: Path) -> None:
    tensors = through(tmp_path, [torch.ones(3), torch.ones(2)])
    tensors[0] += 1
    assert tensors[0].tolist() == [2, 2, 2] and tensors[1].tolist() == [1, 1]
    client = client_of(tmp_path / "queue")
    (array,) = (client.put(["9@array"], [np.zeros(2)]), client.get(["9@array"]))[1]
    array += 1
    assert client.get(["9@array"])[0].tolist() == [0, 0]
    client.close()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "builtins.object"),
        ({"a": [OrderedDict(a=1)]}, "collections.OrderedDict"),
        ({1, 2}, "builtins.set"),
        (np.zeros(2, [("a", "f4")]), "numpy.ndarray of"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.nn.Parameter(torch.ones(1)), "a class of its own"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_held_is_refused_by_its_key(tmp_path: Path, value: Any, named: str) -> None:
    client = client_of(tmp_path / "queue")
    with pytest.raises(TypeError, match="8@field holds a") as refused:
        client.put(["7@field", "8@field"], [1, value])
    assert named in str(refused.value)
    with pytest.raises(KeyError):
        client.get(["7@field"])
    client.close()
