"""Ray on this machine alone, and an end of it that leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

# Read when Ray is imported, here and by every process that it starts.
# Ray's workers stand back behind every other process unless told otherwise: on a machine with work to do, tests would wait for ever.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0", TQ_LOGGING_LEVEL="ERROR")

SECONDS_MAX = 30
"""How long processes may take to end that were told to."""


@pytest.fixture(scope="module")
def local_ray() -> Iterator[Any]:
    """Ray with two cores, on the loopback interface; when the module is done, its processes are gone."""
    import psutil
    import ray

    begun = set(psutil.Process().children(recursive=True))
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=256 << 20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    try:
        yield ray
    finally:
        started = set(psutil.Process().children(recursive=True)) - begun
        ray.shutdown()
        _, alive = psutil.wait_procs(started, timeout=SECONDS_MAX)
        for process in alive:
            process.kill()
        assert not alive, f"Ray left {alive}"
