"""Ray on this machine alone, and an end of it that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local import TWO_CORES

SECONDS_MAX = 30
"""How long processes may take to end that were told to."""


@pytest.fixture(scope="module")
def local_ray() -> Iterator[Any]:
    """Ray with two cores, on the loopback interface; when the module is done, its processes are gone."""
    import psutil
    import ray

    begun = set(psutil.Process().children(recursive=True))
    ray.init(**TWO_CORES)
    try:
        yield ray
    finally:
        started = set(psutil.Process().children(recursive=True)) - begun
        ray.shutdown()
        _, alive = psutil.wait_procs(started, timeout=SECONDS_MAX)
        for process in alive:
            process.kill()
        assert not alive, f"Ray left {alive}"
