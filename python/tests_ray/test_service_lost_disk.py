"""A node that is gone and comes back with an empty disk: its shard comes back from the last checkpoint, and says so.

A third node joins the cluster, leaves it, and joins again; what lay in its directory is removed meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rollstore.ray import RolloutService, ShardLostError, ShardUnavailableError
from service_cluster import cluster, services  # noqa: F401
from third_node import Third, third  # noqa: F401

Open = Callable[..., RolloutService]
NODES = [{"resources": {"disk-a": 0.001}}, {"resources": {"disk-c": 0.001}}]
SHARDS, ROLLOUTS = 2, 40
"""Shard 1 lies on the third node."""


def filled(services: Open, path: Path, **options: Any) -> RolloutService:  # noqa: F811
    service = services(path, nodes=NODES, shards=SHARDS, **options)
    service.insert(range(ROLLOUTS), 1, completion_ids=[[id, id] for id in range(ROLLOUTS)])
    return service


def test_its_shard_comes_back_from_the_last_checkpoint(tmp_path: Path, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local")
    version = service.advance_ref_version(2)
    service.insert([100, 101, 102, 103], 2, old_logps=[[-0.5]] * 4, old_version=version)
    service.checkpoint(tmp_path / "remote")
    late = list(range(200, 240))
    service.insert(late, 2, completion_ids=[[1]] * len(late))
    service.advance_ref_version(3)
    service.advance_ref_version(4)
    split = service._handle.calls.split(service.ids()[-len(late) :])

    third.remove()
    shutil.rmtree(tmp_path / "local" / "shard-1")
    third.add()

    kept = service.gather_flat(range(ROLLOUTS), "completion_ids")
    assert kept.values.tolist() == [id for id in range(ROLLOUTS) for _ in range(2)], "what the checkpoint holds is back"
    assert (service.staleness([100, 101, 102, 103], 4).lag == 2).all(), "it did the advances that it had missed"
    assert len(service) == ROLLOUTS + 4 + len(split[0]), "of what came later the other shard lost nothing"
    assert len(split[1]) > 0 and any("shard 1 lost its disk" in warning for warning in service.warnings())
    service.insert([300, 301, 302], 4, old_logps=[[-0.5]] * 3, old_version=service.ref_version)
    assert service.staleness([300, 301, 302], 4).fresh.all()


def test_without_a_checkpoint_it_says_that_it_is_lost(tmp_path: Path, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local")
    third.remove()
    shutil.rmtree(tmp_path / "local" / "shard-1")
    third.add()
    with pytest.raises(ShardLostError, match="shard 1 has no store"):
        service.ids()
    with pytest.raises(ShardLostError):
        service.insert([1000 + id for id in range(20)], 1, completion_ids=[[1]] * 20)


def test_a_node_that_stays_away_is_told_in_time(tmp_path: Path, third: Third, services: Open) -> None:  # noqa: F811
    service = filled(services, tmp_path / "local")
    impatient = RolloutService.attach(service.name, timeout=2.0)
    third.remove()
    with pytest.raises(ShardUnavailableError, match=r"did not answer within 2 s"):
        impatient.ids()
    third.add()
    assert len(service.ids()) == ROLLOUTS, "with its disk it lost nothing"
