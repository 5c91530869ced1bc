"""A node that joins the cluster of the tests, leaves it, and joins again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from service_cluster import cluster, ray, until  # noqa: F401


class Third:
    """A node that comes and goes."""

    def __init__(self, cluster: Any) -> None:  # noqa: F811
        self.cluster = cluster
        self.node: Any = None

    def add(self) -> None:
        self.node = self.cluster.add_node(num_cpus=1, resources={"disk-c": 1}, object_store_memory=1 << 27)
        until(lambda: "disk-c" in ray.available_resources())

    def leave(self) -> None:
        self.cluster.remove_node(self.node, allow_graceful=False)

    def remove(self) -> None:
        self.leave()
        until(lambda: "disk-c" not in ray.cluster_resources())


@pytest.fixture
def third(cluster: Any) -> Iterator[Third]:  # noqa: F811
    third = Third(cluster)
    third.add()
    yield third
    third.leave()
