"""What one shard of a large run costs a step: 32 rollouts of 32,768 tokens, as each of 256 ranks has where 8,192 are made a step.

Prints bytes and seconds of each call, beside writing the same bytes to a file and syncing it, in the same run; docs/scale.md extrapolates
from them. Median of the steps; the first window is left out, since space comes back only after it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rollstore import RolloutStore

ROLLOUTS, TOKENS, PROMPT = 32, 32_768, 2_048
WINDOW, STEPS = 4, 24
CHECKPOINT_EVERY = 8

seconds: dict[str, list[float]] = defaultdict(list)


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    seconds[what].append(time.perf_counter() - begun)


def main() -> None:
    random = np.random.default_rng(7)
    tokens = random.integers(0, 150_000, (ROLLOUTS, TOKENS), dtype=np.int32)
    prompts = random.integers(0, 150_000, (ROLLOUTS, PROMPT), dtype=np.int32)
    logps = -random.random((ROLLOUTS, TOKENS), dtype=np.float32)
    mask = np.ones((ROLLOUTS, TOKENS), np.uint8)
    out = np.zeros((ROLLOUTS, TOKENS), np.float32)
    payload = b"".join(array.tobytes() for array in (tokens, prompts, logps, logps, mask))
    # Beside the repository's build, so that it is a disk and no memory.
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent) as folder:
        store = RolloutStore.open(Path(folder) / "shard", window=WINDOW)
        raw = os.open(Path(folder) / "raw", os.O_CREAT | os.O_WRONLY)
        for step in range(STEPS):
            ids = np.arange(step * ROLLOUTS, (step + 1) * ROLLOUTS, dtype=np.uint64)
            with timed("write the same bytes to a file, and sync it"):
                os.write(raw, payload)
                os.fdatasync(raw)
            with timed("insert, synced"):
                store.insert(
                    ids,
                    step,
                    prompt_ids=list(prompts),
                    completion_ids=list(tokens),
                    old_logps=list(logps),
                    old_version=store.ref_version,
                    sampler_logps=list(logps),
                    loss_mask=list(mask),
                )
            with timed("advance"):
                store.advance_ref_version(step)
            with timed("plan of what the step trains on"):
                plan = store.plan_for(ids, step)
            with timed("apply of all of it (every old log-prob anew)"):
                store.apply(plan, list(logps[: len(plan.ids)]))
            with timed("gather into [32, 32768] float32"):
                store.gather(ids, "old_logps", out, step=step)
            with timed("retire what left the window"):
                store.retire_created_before(max(0, step - WINDOW + 1), "trained")
            if step % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                with timed("checkpoint, local"):
                    store.checkpoint(Path(folder) / "checkpoint")
        stats = store.stats()
        store.close()
        os.close(raw)
        with timed("open"):
            store = RolloutStore.open(Path(folder) / "shard")
        store.close()
    print(f"bytes of a rollout's arrays      {len(payload) / ROLLOUTS:14,.0f}")
    print(f"bytes of a step's arrays         {len(payload):14,.0f}")
    print(f"bytes appended a step            {stats['appended_bytes'] / STEPS:14,.0f}")
    print(f"bytes copied by compaction       {stats['compacted_bytes'] / STEPS:14,.0f}  a step")
    print(f"bytes of the log at the end      {stats['log_bytes']:14,.0f}  of them alive {stats['live_bytes']:,.0f}")
    for what, taken in seconds.items():
        steady = taken[WINDOW:] if len(taken) > WINDOW else taken
        print(f"{what:<46} {statistics.median(steady) * 1e3:9.2f} ms   worst {max(steady) * 1e3:9.2f}")


if __name__ == "__main__":
    main()
