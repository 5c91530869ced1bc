"""A service is reached by its name, from tasks, actors and other jobs; its arrays come without a copy.

A client is handed into a task, another job attaches in a process of its own, and what must be refused is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollstore import InvalidError, LockedError, NotFoundError
from rollstore.ray import RolloutService
from service_cluster import cluster, ray, services  # noqa: F401

Open = Callable[..., RolloutService]

OTHER_JOB = """
import sys, ray
from rollstore.ray import RolloutService
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
with RolloutService.attach(sys.argv[2]) as service:
    service.insert([7], 1, completion_ids=[[1, 2, 3]])
    assert sorted(service.ids().tolist()) == [5, 7]
"""


def test_a_client_may_be_handed_into_a_task(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=2)
    service.insert([1, 2, 3], 1, completion_ids=[[1], [2, 2], [3, 3, 3]])

    def lengths(client: RolloutService) -> Any:
        client.insert([4], 1, completion_ids=[[4] * 4])
        return client.gather([4, 2], "completion_ids").lens

    task: Any = ray.remote(lengths)
    assert ray.get(task.remote(service)).tolist() == [4, 2]
    assert len(service) == 4, "the copy's end ended nothing"


def test_another_job_attaches_by_name(tmp_path: Path, cluster: Any, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=2, detached=True)
    service.insert([5], 1, completion_ids=[[1]])
    command = [sys.executable, "-c", OTHER_JOB, cluster.address, service.name]
    subprocess.run(command, check=True, timeout=120, env=os.environ)
    assert service[7].completion_ids.tolist() == [1, 2, 3]


def test_arrays_come_without_a_copy_and_are_read_only(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=2)
    tokens = np.arange(100_000, dtype=np.uint32)
    service.insert([1, 2], 1, completion_ids=[tokens, tokens + 1])
    for rollout in service.get_many([1, 2]):
        assert rollout is not None
        view = rollout.completion_ids
        assert not view.flags.owndata and not view.flags.writeable
        assert view[-1] == 99_999 + (rollout.id == 2)
        own = view.writable()
        own[0] = 7
        assert view[0] == rollout.id - 1


def test_what_cannot_be_is_refused_by_name(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=2)
    with pytest.raises(LockedError, match="attach to it"):
        services(tmp_path / "other", name=service.name, shards=2)
    with pytest.raises(NotFoundError, match="no service 'nobody'"):
        RolloutService.attach("nobody")
    with pytest.raises(InvalidError, match="complete_groups"):
        service.sweep("x", 1, None, lambda plan: None, complete_groups=2)
    service.advance_ref_version(9)
    service.close()
    with pytest.raises(InvalidError, match="rollstore reshard"):
        services(tmp_path, shards=3)
    with pytest.raises(InvalidError, match="the trainer resumes at 5"):
        services(tmp_path, shards=2, resume_step=5)


def test_ids_that_are_handed_out_are_nobodys(tmp_path: Path, services: Open) -> None:  # noqa: F811
    service = services(tmp_path, shards=2)
    service.insert([10**6], 1, completion_ids=[[1]])
    first = service.allocate_ids(5)
    other = RolloutService.attach(service.name).allocate_ids(5)
    assert first.min() > 10**6 and not set(first.tolist()) & set(other.tolist())
