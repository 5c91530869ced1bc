"""What this package takes from torch, Ray and TransferQueue, and which of them fit.

Everything here is untyped on purpose: the package is checked where none of them is installed.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

TRANSFERQUEUE_TESTED = "0.1.11"
"""The version whose controller :mod:`._recovery` knows."""


def require_transferqueue() -> None:
    """Raises :class:`ImportError` where TransferQueue is missing."""
    try:
        metadata.version("TransferQueue")
    except metadata.PackageNotFoundError:
        raise ImportError(
            f"rollstore.transferqueue needs TransferQueue; run: pip install 'TransferQueue=={TRANSFERQUEUE_TESTED}'"
        ) from None


def module(name: str) -> Any:
    """A module, untyped."""
    return import_module(name)
