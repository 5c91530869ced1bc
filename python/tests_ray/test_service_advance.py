"""An advance reaches all shards or is finished by the next call, is done once, and no call sees two versions.

The coordinator ends before, in and behind the commit of an advance, and between two shards; the call is sent again by Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import InvalidError
from rollstore.ray import RolloutService
from rollstore.ray._coordinator import Coordinator
from service_cluster import actor, cluster, dying, kill, ray, services  # noqa: F401

SHARDS, ROLLOUTS = 3, 60
STAGES = {"refused": "before _keep", "committed": "after _keep", "unsettled": "before _joined", "settled": "after _joined"}
Open = Callable[..., RolloutService]


class HalfJoined(Coordinator):
    """Brings an advance to the first shard, and then to all."""

    def _each(self, name: str, args: Any) -> list[Any]:
        if name == "join":
            ray.get(self._shard(0).join.remote(*args[0]))
            return self._joined(name, args)
        return super()._each(name, args)

    def _joined(self, name: str, args: Any) -> list[Any]:
        return Coordinator._each(self, name, args)


class Fragile(RolloutService):
    """A service whose coordinator ends where it is told."""

    _coordinator_class: Any = dying(__name__, HalfJoined, STAGES)


def test_killed_at_every_stage_it_is_done_once(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, kind=Fragile, shards=SHARDS, max_version_lag=100)
    service.insert(range(ROLLOUTS), 1, old_logps=[[-0.5]] * ROLLOUTS, old_version=0)
    for number, stage in enumerate(STAGES, start=1):
        (tmp_path / f"die-at-{stage}").touch()
        label = number if number % 2 else None
        assert service.advance_ref_version(number, label) == number
        assert not (tmp_path / f"die-at-{stage}").exists(), f"{stage} was not reached"
        assert (service.staleness(range(ROLLOUTS), number).lag == number).all(), f"not once on every shard: {stage}"
        if label is not None:
            assert service.ref_version_of(label) == number
            assert service.advance_ref_version(number, label) == number, "the same label again is nothing new"


def test_a_killed_shard_comes_back_at_the_version_of_the_others(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=SHARDS)
    service.insert(range(ROLLOUTS), 1, old_logps=[[-0.5]] * ROLLOUTS, old_version=0)
    kill(service, 1)
    service.advance_ref_version(2)
    kill(service, 2)
    assert (service.staleness(range(ROLLOUTS), 2).lag == 1).all()
    assert (service.ref_version, service.count_stale()) == (1, ROLLOUTS)


def test_no_call_mixes_versions_while_another_client_advances(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=SHARDS, max_version_lag=2**64 - 1)
    service.insert(range(ROLLOUTS), 1, old_logps=[[-0.5]] * ROLLOUTS, old_version=0)
    stop = threading.Event()
    other = RolloutService.attach(service.name)

    def advance() -> None:
        for step in range(1, 40):
            other.advance_ref_version(step)
        stop.set()

    advancing = threading.Thread(target=advance)
    advancing.start()
    seen: set[int] = set()
    while not stop.is_set():
        lags = np.unique(service.staleness(range(ROLLOUTS), 40).lag)
        assert len(lags) == 1, f"one call saw versions {lags}"
        seen.add(int(lags[0]))
    advancing.join()
    assert len(seen) > 3, "it never ran beside an advance"


def test_plans_wait_for_the_end_of_a_weight_update(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=SHARDS)
    service.insert(range(4), 1, completion_ids=[[1]] * 4)
    other = RolloutService.attach(service.name)
    versions: list[int] = []
    planning = threading.Thread(target=lambda: versions.append(other.plan_for(range(4), 2).ref_version))
    with service.weight_update(2):
        planning.start()
        planning.join(timeout=1.0)
        assert planning.is_alive(), "a plan was made while the weights changed"
        with pytest.raises(InvalidError, match="weight update"):
            service.plan_for(range(4), 2)
        ray.kill(actor(service, None), no_restart=False)  # the coordinator remembers it
    planning.join(timeout=60.0)
    assert versions == [1]


def test_a_weight_update_whose_client_is_gone_ends_by_itself(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=1, update_lease=0.5)
    service.insert([1], 1, completion_ids=[[1]])
    service._handle.calls.operate("begin_update", 2)  # and no sign of life
    assert service.plan_for([1], 2).ref_version == 1, "when in doubt, stale"


def test_a_rewind_makes_everything_stale_on_every_shard(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=SHARDS, max_version_lag=100)
    service.insert(range(ROLLOUTS), 1, old_logps=[[-0.5]] * ROLLOUTS, old_version=0)
    service.advance_ref_version(9)
    service.insert(range(100, 120), 9, old_logps=[[-0.5]] * 20, old_version=1)
    kill(service, 0)
    version = service.rewind(5, created_later="drop")
    assert service.ref_version == version and service.clock == 5
    assert service.ids().tolist() == list(range(ROLLOUTS))
    assert service.staleness(range(ROLLOUTS), 5).stale.all()
    service.insert([200], 5, old_logps=[[-0.5]], old_version=version)
    assert service.staleness([200], 5).fresh.all()
