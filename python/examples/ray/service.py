"""A trainer and its samplers on a Ray cluster, with one service between them: NumPy alone, under a minute.

Samplers are Ray tasks that put groups of rollouts in; the trainer computes old log-probs of what is not fresh, changes its weights, and
takes a checkpoint. In between an actor of the service is killed: nothing of it is seen but a moment's wait.

Run it again with the same folder: it goes on where it was.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import ray as ray_module  # pyright: ignore[reportMissingImports]
import rollstore
from rollstore.ray import RolloutService

ray: Any = ray_module
SHARDS, STEPS, PROMPTS, GROUP, LENGTH = 2, 4, 8, 4, 16


@ray.remote
def sample(service: RolloutService, step: int, prompt: int) -> None:
    """One prompt's group, as an inference engine makes it."""
    rng = np.random.default_rng((step, prompt))
    ids = service.allocate_ids(GROUP)
    tokens = [rng.integers(0, 1000, LENGTH) for _ in ids]
    logps = [np.full(LENGTH, -0.7, np.float32) for _ in ids]
    service.insert(ids, step, completion_ids=tokens, sampler_logps=logps, group_ids=[step * PROMPTS + prompt] * GROUP)


def forward(plan: rollstore.Plan) -> list[Any]:
    """The model: log-probs of the completions."""
    return [np.full(len(rollout.completion_ids), -0.5, np.float32) for rollout in plan.rollouts]


def kill_a_shard(service: RolloutService) -> None:
    """What a failing machine does."""
    shard: Any = ray.get_actor(f"{service.name}/shard-0", "rollstore")
    os.kill(ray.get(shard.facts.remote())["pid"], signal.SIGKILL)


def train(folder: Path) -> None:
    with RolloutService.open(folder / "rollouts", window=8, shards=SHARDS) as service:
        start = int(service.cursor or b"0")
        for step in range(start, start + STEPS):
            ray.get([sample.remote(service, step, prompt) for prompt in range(PROMPTS)])
            if step == start + 1:
                kill_a_shard(service)
            batch = service.ids()[-PROMPTS * GROUP :]
            old = service.get_or_compute(batch, step, forward)
            with service.weight_update(step):
                pass  # optimizer.step()
            with service.batch() as end_of_step:
                end_of_step.retire_created_before(max(0, step - 1))
                end_of_step.cursor(str(step + 1).encode())
            print(f"step {step}: {old.computed.sum()} computed, {len(service)} live, version {service.ref_version}")
        service.checkpoint(folder / "checkpoint")
        print(f"checkpoint of {len(service)} rollouts at version {service.ref_version}")


if __name__ == "__main__":
    # Ray's processes find the package where this one does.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(rollstore.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder))
    ray.shutdown()
