"""Clients that have the store open themselves, and values to put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rollstore.transferqueue  # noqa: F401: registers the backend
import torch
from transfer_queue.storage.clients.base import StorageClientFactory


def client_of(path: Path, **settings: Any) -> Any:
    """A client without an owner, as TransferQueue's factory makes it."""
    return StorageClientFactory.create("RollstoreClient", {"path": str(path), **settings})


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal in type, dtype, shape and bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return _same_tensors(left, right)
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.dtype == object:
            return all(same(one, other) for one, other in zip(left.flat, right.flat, strict=True))
        return left.tobytes() == right.tobytes()
    if isinstance(left, np.generic):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    if isinstance(left, float):
        return np.float64(left).tobytes() == np.float64(right).tobytes()
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right


def _same_tensors(left: Any, right: Any) -> bool:
    if left.dtype != right.dtype or left.layout != right.layout or left.is_nested != right.is_nested:
        return False
    if left.is_nested:
        return len(left.unbind()) == len(right.unbind()) and all(map(_same_tensors, left.unbind(), right.unbind()))

    def bits(tensor: Any) -> bytes:
        return tensor.resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return left.shape == right.shape and bits(left) == bits(right)
