"""What a put and a get through TransferQueue cost with each of its backends, in one run, as ratios to its SimpleStorage.

The guarantees differ: `Rollstore` returns from a put when it survives power loss, with `buffered` when it survives a killed process;
`SimpleStorage` and `RayStore` keep values in memory, and lose them with their process. Every backend is started anew in each round,
so that they stand beside each other in time; the fastest call of a size counts.

Run it as `python benches/transferqueue.py [DIRECTORY]`, where the stores go.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", TQ_LOGGING_LEVEL="ERROR")
os.environ.setdefault("RAY_worker_niceness", "0")

import ray
import rollstore.transferqueue  # noqa: F401: registers the backend
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict

ROUNDS = 2
CALLS = 8
SAMPLES = 64
MEGABYTES = (2, 16)


def backends(directory: str) -> dict[str, dict[str, Any]]:
    def rollstore_at(name: str, **settings: Any) -> dict[str, Any]:
        return {"storage_backend": "Rollstore", "Rollstore": {"path": f"{directory}/{name}", "recover": False, **settings}}

    return {
        "SimpleStorage": {"storage_backend": "SimpleStorage"},
        "RayStore": {"storage_backend": "RayStore", "RayStore": {}},
        "Rollstore, buffered": rollstore_at("buffered", durability="buffered"),
        "Rollstore, synced": rollstore_at("synced"),
    }


def batch(megabytes: int, call: int) -> TensorDict:
    """Samples of two fields of tokens and two of floats."""
    tokens = megabytes * (1 << 20) // SAMPLES // 24
    fields: dict[str, Any] = {}
    for name in ("input_ids", "responses"):
        fields[name] = torch.full((SAMPLES, tokens), call)
    for name in ("old_log_probs", "rollout_log_probs"):
        fields[name] = torch.full((SAMPLES, tokens), float(call))
    return TensorDict(fields, batch_size=SAMPLES)


def measure(megabytes: int) -> tuple[float, float]:
    """Seconds of the fastest put and get."""
    puts: list[float] = []
    gets: list[float] = []
    for call in range(CALLS):
        keys = [f"{call}-{row}" for row in range(SAMPLES)]
        given = batch(megabytes, call)
        begun = time.perf_counter()
        tq.kv_batch_put(keys=keys, partition_id="bench", fields=given)
        puts.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        found = tq.kv_batch_get(keys=keys, partition_id="bench")
        gets.append(time.perf_counter() - begun)
        assert all(bool((row == call).all()) for field in given.keys() for row in found[field].unbind())
        tq.kv_clear(keys=keys, partition_id="bench")
    return min(puts), min(gets)


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    best: dict[tuple[str, int], tuple[float, float]] = {}
    cannot: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name, backend in backends(directory).items():
            if name in cannot:
                continue
            try:
                tq.init(OmegaConf.create({"backend": backend}))
                for megabytes in MEGABYTES:
                    times = measure(megabytes)
                    best[name, megabytes] = tuple(map(min, times, best.get((name, megabytes), times)))  # pyright: ignore
            except Exception as error:
                cannot[name] = str(error).strip().splitlines()[-1][:160]
            tq.close()
    ray.shutdown()
    print(f"{'backend':<22}{'a call':>8}{'put':>14}{'get':>14}{'put, ratio':>12}{'get, ratio':>12}")
    for megabytes in MEGABYTES:
        base = best["SimpleStorage", megabytes]
        for name in backends(directory):
            if (name, megabytes) not in best:
                continue
            put, get = best[name, megabytes]
            rates = "".join(f"{megabytes / seconds:>9.0f} MB/s" for seconds in (put, get))
            print(f"{name:<22}{megabytes:>5} MB{rates}{base[0] / put:>12.2f}{base[1] / get:>12.2f}")
    for name, why in cannot.items():
        print(f"{name} cannot run here: {why}")


if __name__ == "__main__":
    main()
