"""How tests start Ray: on this machine alone. To be imported before Ray is, by every process that starts it."""

from __future__ import annotations

import os
from typing import Any

# Read when Ray is imported, here and by every process that it starts.
# Ray's workers stand back behind every other process unless told otherwise: on a machine with work to do, tests would wait for ever.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0", TQ_LOGGING_LEVEL="ERROR")

TWO_CORES: dict[str, Any] = {
    "address": "local",
    "num_cpus": 2,
    "include_dashboard": False,
    "object_store_memory": 256 << 20,
    "log_to_driver": False,
    "_node_ip_address": "127.0.0.1",
}
"""Arguments of ``ray.init``: two cores, on the loopback interface."""
