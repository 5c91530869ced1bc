"""What this package takes from torch, transformers and trl, and which of them fit.

Everything here is untyped on purpose: the package is checked where none of them is installed.
"""

from __future__ import annotations

import re
from importlib import import_module, metadata
from typing import Any

TRL_MIN = (1, 10)
"""Before it, `_generate` and `_get_per_token_logps_and_entropies` return something else."""


def require_trl() -> None:
    """Raises :class:`ImportError` where trl is missing or too old."""
    wanted = ".".join(map(str, TRL_MIN))
    try:
        version = metadata.version("trl")
    except metadata.PackageNotFoundError:
        raise ImportError(f"rollstore.trl needs trl {wanted} or newer; run: pip install 'trl>={wanted}'") from None
    if not fits(version):
        raise ImportError(f"rollstore.trl needs trl {wanted} or newer, {version} is installed; run: pip install 'trl>={wanted}'")


def fits(version: str) -> bool:
    """Whether a version of trl is new enough."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= TRL_MIN


def module(name: str) -> Any:
    """A module, untyped."""
    return import_module(name)
