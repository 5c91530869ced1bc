"""Values as text and bytes, and back: equal in type, dtype and bits. No pickle: what is read from a disk is never run.

A value becomes a *tree*, which is JSON, and *blobs*, the bytes of its arrays in the order in which the tree names them. What JSON
has is itself in the tree; anything else is an object with the member ``"~"``, which says what it is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ._modules import module

torch = module("torch")

Bytes: TypeAlias = npt.NDArray[np.uint8]
Tree: TypeAlias = Any

KIND = "~"
"""The member that says what an object of a tree stands for."""

_ARRAY_KINDS = "biufcSUMm"
"""Kinds of NumPy types whose arrays are their bytes."""


class CannotHoldError(TypeError):
    """A value that has no form on disk."""

    def __init__(self, value: object, why: str = "") -> None:
        kind = type(value)
        super().__init__(
            f"holds a {kind.__module__}.{kind.__qualname__}{why}, which rollstore cannot hold; it holds tensors, arrays, numbers, "
            "strings, bytes, None, and lists, tuples and dicts of them"
        )


def encode(value: Any, blobs: list[Bytes]) -> Tree:
    """The tree of a value; its arrays' bytes are appended to ``blobs``. Raises :class:`CannotHoldError`."""
    kind = cast("Any", type(value))
    if issubclass(kind, torch.Tensor):
        return _encode_tensor(value, blobs)
    if issubclass(kind, np.ndarray):
        return _encode_array(value, blobs)
    if issubclass(kind, np.generic):
        return _encode_scalar(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {KIND: "float", "hex": struct.pack("<d", value).hex()}
    if kind is bytes:
        blobs.append(np.frombuffer(value, np.uint8))
        return {KIND: "bytes", "size": len(value)}
    # What a stack of values in a TensorDict turns into: a list that remembers where it came from.
    if kind is list or kind.__name__ == "LinkedList":
        return [encode(one, blobs) for one in value]
    if kind is tuple:
        return {KIND: "tuple", "of": [encode(one, blobs) for one in value]}
    if kind is dict:
        return _encode_dict(value, blobs)
    raise CannotHoldError(value)


def _encode_dict(value: dict[Any, Any], blobs: list[Bytes]) -> Tree:
    if KIND not in value and all(type(key) is str for key in value):
        return {key: encode(one, blobs) for key, one in value.items()}
    return {KIND: "dict", "of": [[encode(key, blobs), encode(one, blobs)] for key, one in value.items()]}


def _encode_scalar(value: Any) -> Tree:
    if isinstance(value, np.str_):
        return {KIND: "numpy.str", "of": str(value)}
    if isinstance(value, np.bytes_):
        return {KIND: "numpy.bytes", "hex": bytes(value).hex()}
    dtype = _dtype_name(value.dtype)
    if dtype is None:
        raise CannotHoldError(value)
    return {KIND: "scalar", "dtype": dtype, "hex": value.tobytes().hex()}


def _encode_array(value: npt.NDArray[Any], blobs: list[Bytes]) -> Tree:
    if isinstance(value, np.ma.MaskedArray):
        raise CannotHoldError(value)
    shape = list(value.shape)
    if value.dtype.kind == "O":
        return {KIND: "objects", "shape": shape, "of": [encode(one, blobs) for one in value.reshape(-1).tolist()]}
    dtype = _dtype_name(value.dtype)
    if dtype is None:
        raise CannotHoldError(value, f" of {value.dtype}")
    blobs.append(array_bytes(value))
    return {KIND: "ndarray", "dtype": dtype, "shape": shape}


def _encode_tensor(value: Any, blobs: list[Bytes]) -> Tree:
    if value.is_nested:
        layout = "jagged" if value.layout == torch.jagged else "strided"
        return {KIND: "nested", "layout": layout, "of": [encode(one, blobs) for one in value.unbind()]}
    why = why_not_plain(value)
    if why:
        raise CannotHoldError(value, why)
    blobs.append(tensor_bytes(value))
    return {KIND: "tensor", "dtype": dtype_of(value), "shape": list(value.shape)}


def why_not_plain(value: Any) -> str:
    """Why a tensor is not its bytes, as a clause; empty where it is."""
    if type(value) is not torch.Tensor:
        return " (a tensor of a class of its own)"
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        return " (sparse, quantized or without values)"
    return ""


def dtype_of(value: Any) -> str:
    """The name of a tensor's type, as torch has it."""
    return str(value.dtype).removeprefix("torch.")


def tensor_bytes(value: Any) -> Bytes:
    """The bytes of a plain tensor, row by row, without a copy where they lie so on the CPU."""
    flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def array_bytes(value: npt.NDArray[Any]) -> Bytes:
    """The bytes of an array of a type that has a name, row by row, without a copy where they lie so."""
    flat = np.ascontiguousarray(value).reshape(-1)
    return flat.view(np.uint8) if flat.nbytes else np.empty(0, np.uint8)


def _dtype_name(dtype: Any) -> str | None:
    """A name by which NumPy finds the type again; ``None`` where there is none."""
    if dtype.type.__module__ == "ml_dtypes":
        return str(dtype)
    return str(dtype.str) if dtype.kind in _ARRAY_KINDS else None


def _dtype_named(name: str) -> np.dtype[Any]:
    if name[0] not in "<>|":
        module("ml_dtypes")
    return np.dtype(name)


class Blobs:
    """The blobs of a value behind each other, taken off one by one."""

    def __init__(self, content: Bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> Bytes:
        """The next ``size`` bytes, as an array of their own: aligned, and safe to write to."""
        taken = self._content[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError(f"{size} bytes were expected at {self._at} of {len(self._content)}: this is not what was put")
        self._at += size
        return np.array(taken, copy=True)


def decode(tree: Tree, blobs: Blobs) -> Any:
    """The value that a tree and its blobs stand for."""
    if isinstance(tree, list):
        return [decode(one, blobs) for one in cast("list[Tree]", tree)]
    if not isinstance(tree, dict):
        return tree
    members = cast("dict[str, Any]", tree)
    kind: str | None = members.get(KIND)
    if kind is None:
        return {key: decode(one, blobs) for key, one in members.items()}
    return _DECODERS[kind](members, blobs)


def is_tensor(tree: Tree) -> bool:
    """Whether a tree is that of a plain tensor."""
    return isinstance(tree, dict) and cast("dict[str, Any]", tree).get(KIND) == "tensor"


def tensor_of(content: Bytes, dtype: str, shape: Iterable[int]) -> Any:
    """The tensor of these bytes. It shares them."""
    if not content.size:
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype))
    return torch.from_numpy(content).view(getattr(torch, dtype)).reshape(tuple(shape))


def tensor_size(members: dict[str, Any]) -> int:
    """The number of bytes of a tensor's blob."""
    return prod(members["shape"]) * getattr(torch, members["dtype"]).itemsize


def _decode_array(members: dict[str, Any], blobs: Blobs) -> npt.NDArray[Any]:
    dtype: Any = _dtype_named(members["dtype"])
    shape = tuple[int, ...](members["shape"])
    size = prod(shape) * dtype.itemsize
    array: npt.NDArray[Any] = blobs.take(size).view(dtype).reshape(shape) if size else np.empty(shape, dtype)
    return array


def _decode_objects(members: dict[str, Any], blobs: Blobs) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.empty(prod(members["shape"]), np.object_)
    for place, one in enumerate(members["of"]):
        array[place] = decode(one, blobs)
    return array.reshape(tuple[int, ...](members["shape"]))


def _decode_nested(members: dict[str, Any], blobs: Blobs) -> Any:
    parts = decode(members["of"], blobs)
    return torch.nested.as_nested_tensor(parts, layout=getattr(torch, members["layout"]))


_DECODERS: dict[str, Callable[[dict[str, Any], Blobs], Any]] = {
    "float": lambda members, _: struct.unpack("<d", bytes.fromhex(members["hex"]))[0],
    "bytes": lambda members, blobs: blobs.take(members["size"]).tobytes(),
    "tuple": lambda members, blobs: tuple(decode(members["of"], blobs)),
    "dict": lambda members, blobs: {decode(key, blobs): decode(one, blobs) for key, one in members["of"]},
    "numpy.str": lambda members, _: np.str_(members["of"]),
    "numpy.bytes": lambda members, _: np.bytes_(bytes.fromhex(members["hex"])),
    "scalar": lambda members, _: np.frombuffer(bytes.fromhex(members["hex"]), _dtype_named(members["dtype"]))[0],
    "ndarray": _decode_array,
    "objects": _decode_objects,
    "tensor": lambda members, blobs: tensor_of(blobs.take(tensor_size(members)), members["dtype"], members["shape"]),
    "nested": _decode_nested,
}
