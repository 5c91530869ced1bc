"""A cluster of two nodes in this machine's processes, services on it, and ways to kill their actors.

One cluster serves all test files of a session; it is shut down when the session ends.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray runs actors at the lowest priority but few, which on a busy machine makes minutes of seconds.
os.environ.setdefault("RAY_worker_niceness", "0")
ray: Any = pytest.importorskip("ray")

import psutil  # noqa: E402
import rollstore  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from rollstore.ray import RolloutService  # noqa: E402
from rollstore.ray._answers import NAMESPACE, shard_name  # noqa: E402

NODES = [{"resources": {"disk-a": 0.001}}, {"resources": {"disk-b": 0.001}}]
"""How shards find the two nodes."""

_names = itertools.count()
_cluster: Any = None


def _begun(config: pytest.Config) -> Any:
    global _cluster
    if _cluster is None:
        package = str(Path(rollstore.__file__).parent.parent)
        os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
        head = {"num_cpus": 2, "resources": {"disk-a": 1}, "object_store_memory": 1 << 28, "include_dashboard": False}
        _cluster = Cluster(initialize_head=True, head_node_args=head)
        _cluster.add_node(num_cpus=2, resources={"disk-b": 1}, object_store_memory=1 << 28)
        ray.init(address=_cluster.address, log_to_driver=False, logging_level="ERROR")
        config.add_cleanup(_ended)
    return _cluster


def _ended() -> None:
    started = psutil.Process().children(recursive=True)
    ray.shutdown()
    _cluster.shutdown()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert not alive, f"Ray left {alive}"


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Any:
    """The cluster, with this process as its driver."""
    return _begun(request.config)


@pytest.fixture
def services(cluster: Any) -> Iterator[Callable[..., RolloutService]]:
    """Opens services of names of their own, and ends them behind the test."""
    opened: list[RolloutService] = []

    def open(path: Path, kind: type[RolloutService] = RolloutService, **options: Any) -> RolloutService:
        options = {"name": f"service-{next(_names)}", "nodes": NODES, "window": 8, "timeout": 120.0, **options}
        service = kind.open(path, **options)
        opened.append(service)
        return service

    yield open
    for service in opened:
        service.shutdown()  # also those that are detached, or ended already


def actor(service: RolloutService, shard: int | None) -> Any:
    """The actor of a shard; the coordinator for none."""
    return ray.get_actor(service.name if shard is None else shard_name(service.name, shard), NAMESPACE)


def dying(module: str, base: type, stages: Mapping[str, str]) -> type:
    """A kind of actor whose process ends at a stage, once, where a file ``die-at-STAGE`` lies beside its stores.

    ``stages`` maps names of stages to methods, as ``"before _take"``. What lies in the directory ``watched`` is copied to ``frozen``
    first: what a machine would find that fails here.
    """
    ray.cloudpickle.register_pickle_by_value(sys.modules[module])
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def wrapped(method: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            _die(self.path.parent, stages, f"before {method}")
            result = getattr(base, method)(self, *args, **options)
            _die(self.path.parent, stages, f"after {method}")
            return result

        return call

    methods = {stage.split()[1] for stage in stages.values()}
    return type(f"Dying{base.__name__}", (base,), {method: wrapped(method) for method in methods})


def _die(folder: Path, stages: Mapping[str, str], here: str) -> None:
    for stage, place in stages.items():
        marker = folder / f"die-at-{stage}"
        if place == here and marker.exists():
            marker.unlink()
            if (folder / "watched").exists():
                shutil.copytree(folder / "watched", folder / "frozen")
            os._exit(1)


def kill(service: RolloutService, shard: int) -> None:
    """Ends a shard's process as a failing machine would: it is told nothing."""
    try:
        os.kill(ray.get(actor(service, shard).facts.remote(), timeout=60)["pid"], signal.SIGKILL)
    except (ProcessLookupError, ray.exceptions.RayError, rollstore.Error):
        pass  # it is gone already, or on its way back


def until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until something is so that nobody tells of; it is a failure if it never is."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to be so"
        time.sleep(0.05)
