"""What was acknowledged is there, and nothing is served under a wrong version, whatever is killed.

Four clients insert, plan, apply, advance and retire on four shards, while actors are killed at random, by SIGKILL and through Ray. Each
client keeps a model of what was acknowledged to it. Log-probs are made of the version that their plan named, so that a value served
under another version is seen; and a call that serves fresh ones at lag 0 must serve them of one version.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rollstore import InvalidError
from rollstore.ray import RolloutService
from service_cluster import actor, cluster, kill, ray, services  # noqa: F401

SCALE = float(os.environ.get("ROLLSTORE_TEST_SCALE", "1"))
CLIENTS, SHARDS, BATCH = 4, 4, 1000
ROUNDS = max(4, int(25 * SCALE))
"""Of each client: 100,000 rollouts in all."""
ROUNDS_A_KILL = max(2, CLIENTS * ROUNDS // 8)
"""The clients' rounds together from one kill to the next."""
KILLS_MIN = 4


def test_nothing_acknowledged_is_lost_and_no_version_is_mixed(
    tmp_path: Path, services: Callable[..., RolloutService]  # noqa: F811
) -> None:
    service = services(tmp_path, shards=SHARDS, window=2**64 - 1, detached=True)
    killer = Killer(service)
    killer.start()
    clients = [Client(RolloutService.attach(service.name, timeout=120.0), number, killer.progress) for number in range(CLIENTS)]
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(Client.run, clients))
    finally:
        killer.stop()
    assert killer.kills >= KILLS_MIN, "too few kills to show anything"
    for client in clients:
        client.check(service)
    assert len(service) == sum(len(client.live) for client in clients)
    assert sum(client.served for client in clients) > 1000, "too little was served to show anything"
    assert service.verify().is_sound
    service.shutdown()

    again = services(tmp_path, shards=SHARDS)
    for client in clients:
        client.check(again)


def logp_of(version: int) -> float:
    """A log-prob that tells its version, exactly."""
    return -(version + 1) / 4096


class Client:
    """One rank: its own ids, and what it was told of them."""

    def __init__(self, service: RolloutService, number: int, progress: threading.Semaphore) -> None:
        self.service, self.number, self.progress = service, number, progress
        self.rng = random.Random(number)
        self.live: dict[int, int] = {}
        """The rollouts that must be there, with their lengths."""
        self.served = 0

    def run(self) -> None:
        for round in range(ROUNDS):
            step = 1 + round
            self.insert(round, step)
            if self.number == 0:
                self.service.advance_ref_version(step, label=step)
            self.compute(step)
            self.retire()
            self.progress.release()

    def insert(self, round: int, step: int) -> None:
        first = (self.number * ROUNDS + round) * BATCH
        ids = np.arange(first, first + BATCH, dtype=np.uint64)
        lens = np.full(BATCH, 4)
        lens[:4] = 20_000  # few are large: they go through the object store
        offsets = np.concatenate([[0], np.cumsum(lens)])
        tokens = np.repeat(ids, lens).astype(np.uint32)
        self.service.insert(ids, step, completion_ids=(tokens, offsets), group_ids=ids // 8)
        self.live.update(zip(ids.tolist(), lens.tolist(), strict=True))

    def compute(self, step: int) -> None:
        ids = self.rng.sample(list(self.live), min(200, len(self.live)))

        def forward(plan: Any) -> Any:
            return [np.full(n, logp_of(plan.ref_version), np.float32) for n in plan.lens]

        plan = self.at_clock(step, lambda clock: self.service.plan_for(ids[:100], clock))
        applied = self.service.apply(plan, forward(plan))
        assert sum(applied) == len(plan)
        try:
            served = self.at_clock(step, lambda clock: self.service.get_or_compute(ids, clock, forward))
        except InvalidError as error:
            # An advance came between its computation and its commit, again and again.
            assert "ask again" in str(error)
            return
        versions = np.unique(served.values[:, 0])
        assert len(versions) == 1, f"versions are mixed in one call: {versions}"
        self.served += len(ids)

    def at_clock(self, step: int, call: Callable[[int], Any]) -> Any:
        """Clients run apart, and the clock is that of the first of them: who comes after it calls again."""
        while True:
            try:
                return call(max(step, self.service.clock or 0))
            except InvalidError as error:
                if "store is at step" not in str(error):
                    raise

    def retire(self) -> None:
        ids = self.rng.sample(list(self.live), min(300, len(self.live)))
        assert self.service.retire([*ids, 10**12 + self.number]) == len(ids)
        for id in ids:
            del self.live[id]

    def check(self, service: RolloutService) -> None:
        ids = list(self.live)
        tokens = service.gather_flat(ids, "completion_ids")
        assert np.array_equal(np.diff(tokens.cu_seqlens), list(self.live.values()))
        assert np.array_equal(tokens.values, np.repeat(np.array(ids, np.uint32), list(self.live.values())))
        for id, rollout in zip(ids[:500], service.get_many(ids[:500]), strict=True):
            assert rollout is not None, f"rollout {id} was acknowledged and is gone"
            if "old_logps" in rollout:
                assert rollout.old_logps[0] == np.float32(logp_of(rollout.ref_version)), "served under a wrong version"


class Killer(threading.Thread):
    """Ends a random actor whenever the clients have come a little further."""

    def __init__(self, service: RolloutService) -> None:
        super().__init__(name="killer")
        self.service, self.kills = service, 0
        self.progress = threading.Semaphore(0)
        self._is_stopped = False

    def run(self) -> None:
        rng = random.Random(7)
        while True:
            for _ in range(ROUNDS_A_KILL):
                self.progress.acquire()
            if self._is_stopped:
                return
            shard = rng.choice([None, *range(SHARDS)])
            if shard is None or rng.random() < 0.5:
                ray.kill(actor(self.service, shard), no_restart=False)
            else:
                kill(self.service, shard)
            self.kills += 1

    def stop(self) -> None:
        self._is_stopped = True
        self.progress.release(ROUNDS_A_KILL)
        self.join()
