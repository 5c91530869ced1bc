"""A store in a directory of its own, and rollouts to put into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import RolloutStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RolloutStore]:
    with RolloutStore.open(tmp_path / "rollouts", window=8) as store:
        yield store


def tokens(*lens: int) -> list[Any]:
    """Completions of these lengths; the tokens of row ``i`` are ``100 * i + 0, 1, ...``."""
    return [np.arange(100 * row, 100 * row + n, dtype=np.uint32) for row, n in enumerate(lens)]


def logps(*lens: int, at: float = -0.5) -> list[Any]:
    """Log-probs of these lengths, each a little below ``at``."""
    return [np.full(n, at, np.float32) - np.arange(n, dtype=np.float32) / 1024 for n in lens]
