"""What clients and the owner say to each other: one call a batch, in plain lists and flat arrays.

Always true: every array of a call lies flat and outside the rest of it, so that Ray moves its bytes without looking at them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from .._arrays import I64, Rows
from ._values import (
    KIND,
    Blobs,
    Bytes,
    CannotHoldError,
    Tree,
    decode,
    dtype_of,
    encode,
    is_tensor,
    tensor_bytes,
    tensor_of,
    torch,
    why_not_plain,
)

Sample: TypeAlias = "int | str"
"""What comes before the ``@`` of a key: TransferQueue's global index. A key without one is a sample with one field, which has no name.
"""

TREE_BYTES_MAX = 4096
"""Longest tree that lies in a rollout's metadata, in bytes of JSON, where ``rollstore get`` shows it and every read parses it. A
longer one lies before its blobs."""

_COLUMN_TYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "int32": np.int32,
    "int64": np.int64,
    "uint32": np.uint32,
    "uint8": np.uint8,
}
"""Types of tensors that columns have, and how their values lie in arrays. Others lie in columns of bytes."""


class Origin(NamedTuple):
    """Where TransferQueue has a sample: what its controller would have to be told again."""

    partition: str
    key: str | None
    """The caller's own key, where the sample was put by one."""
    tags: dict[str, Any]
    """What was last said of the sample as a whole."""


class Put(NamedTuple):
    """Samples that all have the same fields."""

    samples: list[Sample]
    origins: list[Origin] | None
    fields: list[str]
    trees: list[list[str]]
    """For each field, the tree of each sample, as JSON."""
    columns: list[Rows | None]
    """For each field, the blobs of each sample; ``None`` where none has any."""


class Found(NamedTuple):
    """What there is of the first keys of a get."""

    trees: list[Tree]
    contents: dict[str, tuple[Bytes, I64]]
    """For each field, the blobs behind each other in the order of the keys, and the number of bytes of each."""


def split_key(key: str) -> tuple[Sample, str]:
    """Sample and field of a key."""
    name, at, field = key.partition("@")
    if at and not field:
        raise ValueError(f"{key!r} is no key of TransferQueue: those are '<global index>@<field>'")
    return int(name) if name.isdecimal() and str(int(name)) == name else name, field


def joined_key(sample: Sample, field: str) -> str:
    """The key of a field of a sample."""
    return f"{sample}@{field}" if field else str(sample)


def rows_of_field(samples: list[Sample], field: str, values: list[Any]) -> tuple[list[str], Rows | None]:
    """The trees and the column of a field's values. Raises :class:`TypeError` that names the key of one that cannot be held."""
    if all(isinstance(value, torch.Tensor) and not value.is_nested for value in values):
        alike = {(value.dtype, value.device) for value in values}
        if len(alike) == 1 and not any(map(why_not_plain, values)):
            return _tensors_alike(values)
    trees: list[str] = []
    contents: list[Bytes] = []
    lens = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        blobs: list[Bytes] = []
        try:
            tree = _text(encode(value, blobs))
        except CannotHoldError as error:
            raise TypeError(f"{joined_key(samples[row], field)} {error}") from None
        if len(tree) > TREE_BYTES_MAX:
            blobs.insert(0, np.frombuffer(tree.encode(), np.uint8))
            tree = _text({KIND: "long", "size": len(blobs[0])})
        trees.append(tree)
        contents.extend(blobs)
        lens[row] = sum(blob.nbytes for blob in blobs)
    if not lens.any():
        return trees, None
    return trees, _rows("uint8", np.concatenate(contents), lens)


def values_of_field(trees: list[Tree], content: Bytes, lens: I64) -> list[Any]:
    """The values again, from trees and blobs. They are the caller's own to write to; tensors of one field share one memory."""
    if all(map(is_tensor, trees)) and len({tree["dtype"] for tree in trees}) == 1:
        shapes = [tuple[int, ...](tree["shape"]) for tree in trees]
        whole = tensor_of(np.array(content, copy=True), trees[0]["dtype"], [sum(map(_numel, shapes))])
        parts = whole.split([_numel(shape) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    ends = np.cumsum(lens)
    return [_value(tree, content[end - size : end]) for tree, end, size in zip(trees, ends, lens, strict=True)]


def batches(put: dict[Sample, dict[str, Any]], bytes_max: int) -> Iterator[tuple[list[Sample], list[str]]]:
    """Samples that have the same fields, with these fields, in pieces of so many bytes at most; one sample is never split."""
    alike: dict[tuple[str, ...], list[Sample]] = {}
    for sample, fields in put.items():
        alike.setdefault(tuple(sorted(fields)), []).append(sample)
    for fields, samples in alike.items():
        begin, size = 0, 0
        for place, sample in enumerate(samples):
            more = sum(_bytes_of(value) for value in put[sample].values())
            if place > begin and size + more > bytes_max:
                yield samples[begin:place], list(fields)
                begin, size = place, 0
            size += more
        yield samples[begin:], list(fields)


def metadata_of(put: Put, at: int) -> list[bytes]:
    """What a rollout says of itself, for each sample: enough to read it without anything else. ``at`` is when, in nanoseconds since
    1970."""
    made: list[bytes] = []
    for row, sample in enumerate(put.samples):
        head: dict[str, Any] = {"sample": sample, "at": at}
        if put.origins is not None:
            head |= put.origins[row]._asdict()
        fields = ",".join(f"{json.dumps(field)}:{trees[row]}" for field, trees in zip(put.fields, put.trees, strict=True))
        made.append(f'{_text(head)[:-1]},"fields":{{{fields}}}}}'.encode())
    return made


def tags_of(sample: Sample, tags: dict[str, Any]) -> dict[str, Any]:
    """Tags as JSON has them. Raises :class:`TypeError` where one has no form in it."""
    blobs: list[Bytes] = []
    try:
        tree = encode(tags, blobs)
    except CannotHoldError as error:
        raise TypeError(f"a tag of sample {sample} {error}") from None
    if blobs:
        raise TypeError(f"the tags of sample {sample} hold an array or bytes, which belong into fields")
    return tree


def _tensors_alike(values: list[Any]) -> tuple[list[str], Rows]:
    """The column of tensors of one type: their values behind each other, copied once."""
    dtype = dtype_of(values[0])
    content = tensor_bytes(torch.cat([value.detach().reshape(-1) for value in values]))
    size = values[0].dtype.itemsize
    column, unit = (dtype, size) if dtype in _COLUMN_TYPES else ("uint8", 1)
    lens = np.array([value.numel() for value in values], np.int64) * (size // unit)
    trees = [f'{{"{KIND}":"tensor","dtype":"{dtype}","shape":{list(value.shape)}}}' for value in values]
    return trees, _rows(column, content.view(_COLUMN_TYPES[column]), lens)


def _rows(dtype: str, values: npt.NDArray[Any], lens: I64) -> Rows:
    return Rows(dtype, values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lens)]), None)


def _value(tree: Tree, content: Bytes) -> Any:
    blobs = Blobs(content)
    if isinstance(tree, dict):
        members = cast("dict[str, Any]", tree)
        if members.get(KIND) == "long":
            return decode(json.loads(blobs.take(members["size"]).tobytes()), blobs)
    return decode(tree, blobs)


def _bytes_of(value: Any) -> int:
    """About how much a value takes. What is no array is guessed: it only decides where a large put is split."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.itemsize
    if isinstance(value, np.ndarray):
        return value.nbytes
    return len(value) if isinstance(value, (str, bytes)) else 256


def _numel(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _text(tree: Tree) -> str:
    return json.dumps(tree, separators=(",", ":"))
