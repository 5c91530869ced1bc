"""A shard's figures in Ray's own metrics: whatever collects those collects these."""

from __future__ import annotations

import time
from typing import Any

from .._store import RolloutStore
from ._cluster import metrics

EVERY = 1.0
"""Seconds between two looks at a store's figures."""

FIGURES = {
    "live": "Rollouts that are live.",
    "stale": "Rollouts whose old log-probs are more than max_version_lag advances behind.",
    "log_bytes": "Bytes of the log on disk.",
}


class Gauges:
    """One shard's gauges."""

    def __init__(self, service: str, shard: int) -> None:
        tags = {"service": service, "shard": str(shard)}
        self._gauges = {name: metrics.Gauge(f"rollstore_{name}", text, ("service", "shard")) for name, text in FIGURES.items()}
        self._commits = metrics.Counter("rollstore_commits", "Commits of the shard.", ("service", "shard"))
        for metric in (*self._gauges.values(), self._commits):
            metric.set_default_tags(tags)
        self._next = 0.0

    def committed(self, store: RolloutStore) -> None:
        """Counts a commit; looks at the figures when it is time."""
        self._commits.inc()
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            stats = store.stats()
            for name, gauge in self._gauges.items():
                gauge.set(stats[name])


def waits_counter(service: str) -> Any:
    """Calls of a client that had to wait for room among those in flight."""
    counter = metrics.Counter("rollstore_client_waits", "Calls that waited for room among those in flight.", ("service",))
    counter.set_default_tags({"service": service})
    return counter
