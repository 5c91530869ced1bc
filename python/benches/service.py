"""What a service gives in throughput, against one embedded store in the same run: inserts that are synced, gets and gathers.

    python python/benches/service.py [FOLDER] [--shards 4] [--clients 4] [--mb 2 8 32] [--rounds 12] [--durability synced]

Prints, for each size of a call, MB a second of both, their ratio, and what bare Ray actors give that hand the same bytes over and do
nothing else. A call is one insert of so many bytes of token ids and sampler log-probs, one ``get_many`` or one ``gather`` of the same
rows, or what a rank does in a step (``train``): it inserts so many bytes, plans, applies, retires, and one rank advances the version. The store is called from one thread, as a trainer does, and from as many as the service has clients; the service's clients are
processes of their own, as ranks are. All are measured in turns, round by round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")

import numpy as np
import ray
import rollstore
from ray.cluster_utils import Cluster
from rollstore.ray import RolloutService

TOKENS = 2048
ROW_BYTES = TOKENS * 8
"""Token ids and sampler log-probs of a rollout."""


class Client:
    """One rank: it inserts rows of its own, and reads them."""

    def __init__(self, store: Any, number: int) -> None:
        self.store, self.next = store, number << 40

    def insert(self, rows: int) -> float:
        begin = time.perf_counter()
        self._insert(rows)
        return time.perf_counter() - begin

    def _insert(self, rows: int) -> Any:
        ids = np.arange(self.next, self.next + rows, dtype=np.uint64)
        self.next += rows
        offsets = np.arange(rows + 1) * TOKENS
        tokens = np.arange(rows * TOKENS, dtype=np.uint32)
        logps = np.full(rows * TOKENS, -0.5, np.float32)
        self.store.insert(ids, 1, completion_ids=(tokens, offsets), sampler_logps=(logps, offsets))
        return ids

    def train(self, rows: int) -> float:
        """What a rank does with rollouts: it inserts, plans, applies and retires them; the first one advances the version."""
        begin = time.perf_counter()
        ids = self._insert(rows)
        plan = self.store.plan_for(ids, 1)
        values = np.full(rows * TOKENS, -0.25, np.float32), np.arange(rows + 1) * TOKENS
        applied = self.store.apply(plan, values)
        assert applied.computed + applied.dropped == len(plan) == rows
        self.store.retire(ids)
        if ids[0] >> 40 == 0:
            self.store.advance_ref_version(1)
        return time.perf_counter() - begin

    def get(self, rows: int) -> float:
        ids = np.arange(self.next - rows, self.next, dtype=np.uint64)
        begin = time.perf_counter()
        for rollout in self.store.get_many(ids):
            assert rollout.completion_ids.sum() and rollout.sampler_logps[0] == -0.5
        return time.perf_counter() - begin

    def gather(self, rows: int) -> float:
        ids = np.arange(self.next - rows, self.next, dtype=np.uint64)
        begin = time.perf_counter()
        for column in ("completion_ids", "sampler_logps"):
            assert len(self.store.gather(ids, column).lens) == rows
        return time.perf_counter() - begin


class Bare:
    """An actor that hands bytes over, and nothing else."""

    def __init__(self) -> None:
        self.bytes = np.ones(0, np.uint8)

    def give(self, size: int) -> Any:
        if len(self.bytes) != size:
            self.bytes = np.ones(size, np.uint8)
        return self.bytes

    def take(self, given: Any) -> int:
        return len(given)


class BareClient:
    """A rank that moves a call's bytes to or from as many actors as there are shards."""

    def __init__(self, actors: list[Any]) -> None:
        self.actors = actors
        self.bytes = np.ones(0, np.uint8)

    def move(self, call: str, size: int) -> None:
        part = size // len(self.actors)
        if call in ("insert", "train"):
            if len(self.bytes) != part:
                self.bytes = np.ones(part, np.uint8)
            ray.get([actor.take.remote(self.bytes) for actor in self.actors])
        else:
            ray.get([actor.give.remote(part) for actor in self.actors])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=None)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=2, help="nodes of the cluster, all on this machine")
    parser.add_argument("--mb", type=float, nargs="+", default=[2.0, 8.0, 32.0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--durability", choices=("synced", "buffered"), default="synced", help="of both")
    given = parser.parse_args()
    package = str(Path(rollstore.__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    cluster = Cluster()
    for node in range(given.nodes):
        cluster.add_node(num_cpus=2, resources={f"node-{node}": 1}, object_store_memory=1 << 30, include_dashboard=False)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    places = [{"num_cpus": 0, "resources": {f"node-{node}": 0.001}} for node in range(given.nodes)]

    def spread(kind: Any, count: int, *args: Any, numbered: bool = False) -> list[Any]:
        made = [ray.remote(**places[each % given.nodes])(kind) for each in range(count)]
        return [one.remote(*args, *([each] if numbered else [])) for each, one in enumerate(made)]

    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        store = rollstore.RolloutStore.open(Path(folder) / "store", window=8, durability=given.durability)
        service = RolloutService.open(Path(folder) / "service", window=8, durability=given.durability, shards=given.shards, nodes=places)
        ranks = spread(Client, given.clients, service, numbered=True)
        threads = [Client(store, number) for number in range(given.clients)]
        pool = ThreadPoolExecutor(given.clients)
        actors = spread(Bare, given.shards)
        bare_ranks = spread(BareClient, given.clients, actors)

        def embedded(call: str, rows: int, clients: int) -> None:
            list(pool.map(lambda client: getattr(client, call)(rows), threads[:clients]))

        def served(call: str, rows: int, clients: int) -> None:
            ray.get([getattr(rank, call).remote(rows) for rank in ranks[:clients]])

        def bare(call: str, rows: int, clients: int) -> None:
            ray.get([rank.move.remote(call, rows * ROW_BYTES) for rank in bare_ranks[:clients]])

        print(f"{'call':8} {'MB':>5} {'clients':>7} {'store MB/s':>11} {'service MB/s':>13} {'ratio':>6} {'bare Ray MB/s':>14}")
        for size in given.mb:
            rows = max(1, round(size * 1e6 / ROW_BYTES))
            for clients in sorted({1, given.clients}):
                for call in ("insert", "get", "gather", "train"):
                    seconds = compared([lambda of=of: of(call, rows, clients) for of in (embedded, served, bare)], given.rounds)
                    one, other, floor = (rows * ROW_BYTES * clients / 1e6 / each for each in seconds)
                    print(f"{call:8} {size:5g} {clients:7} {one:11.0f} {other:13.0f} {other / one:6.2f} {floor:14.0f}", flush=True)
        service.close()
        store.close()
    ray.shutdown()
    cluster.shutdown()


def compared(calls: list[Callable[[], None]], rounds: int) -> list[float]:
    """Seconds of each, in turns: the median of the rounds behind the first two."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 2):
        for call, into in zip(calls, seconds, strict=True):
            begin = time.perf_counter()
            call()
            into.append(time.perf_counter() - begin)
    return [statistics.median(of[2:]) for of in seconds]


if __name__ == "__main__":
    main()
