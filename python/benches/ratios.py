"""What calls cost, as ratios within one run: figures of one machine say little, ratios say whether a call is worth it.

Prints one line for each, with the bound that it should keep. Each ratio is of interleaved measurements, and the best of several
rounds, so that what else the machine does matters little. The store holds more rows than a cache does, and the copy that
a gather is compared with is of bytes as cold.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rollstore import RolloutStore

ROWS, WIDTH = 64, 512
ROLLOUTS = 8192
ROUNDS = 15


def best(times: int, *calls: Callable[[int], object]) -> list[float]:
    """Seconds for one of each call: the best of all rounds, in which they take turns."""
    fastest = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for at, call in enumerate(calls):
            begun = time.perf_counter()
            for turn in range(times):
                call(turn)
            fastest[at] = min(fastest[at], (time.perf_counter() - begun) / times)
    return fastest


def report(what: str, ratio: float, bound: str, is_met: bool, note: str) -> None:
    print(f"{what:<44} {ratio:7.2f}   bound {bound:<8} {'met' if is_met else 'MISSED':<6}   {note}")


def remark(what: str, ratio: float, note: str) -> None:
    print(f"{'(' + what + ')':<44} {ratio:7.2f}   {'':<23}   {note}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, RolloutStore.open(Path(folder) / "s", window=8) as store:
        random = np.random.default_rng(7)
        lens = np.full(ROLLOUTS, WIDTH)
        logps = [np.full(n, -0.5, np.float32) for n in lens]
        store.insert(np.arange(ROLLOUTS), 100, old_logps=logps, old_version=0)
        batches = [random.choice(ROLLOUTS, ROWS, replace=False).astype(np.uint64) for _ in range(ROLLOUTS // ROWS)]
        out = np.zeros((ROWS, WIDTH), np.float32)
        # As many bytes as the store holds: what is copied is as cold for the one as for the other.
        sources = [np.full((ROWS, WIDTH), -0.5, np.float32) for _ in batches]

        def gather(turn: int) -> None:
            store.gather(batches[turn % len(batches)], "old_logps", out, step=100)

        def copy(turn: int) -> None:
            np.copyto(out, sources[turn % len(sources)])

        def loop(turn: int) -> None:
            out.fill(0)
            for row, id in enumerate(batches[turn % len(batches)].tolist()):
                view = store[id].old_logps
                out[row, : len(view)] = view

        tensor = torch.zeros((ROWS, WIDTH))

        def gather_tensor(turn: int) -> None:
            store.gather(batches[turn % len(batches)], "old_logps", tensor, step=100)

        def loop_tensor(turn: int) -> None:
            tensor.zero_()
            for row, id in enumerate(batches[turn % len(batches)].tolist()):
                logps = store[id].old_logps.torch()
                tensor[row, : len(logps)] = logps

        for turn in range(len(batches)):
            gather(turn)
        store.insert([ROLLOUTS], 100)  # as a trainer goes on: what was asked for is counted with it
        gathered, copied, looped = best(len(batches), gather, copy, loop)
        gathered_tensor, looped_tensor = best(len(batches), gather_tensor, loop_tensor)
        assert (out == -0.5).all() and bool((tensor == -0.5).all())
        rollout = store[1]
        bare = np.zeros(1 << 16, np.float32)
        viewed, sliced, got = best(5000, lambda _: rollout.old_logps, lambda _: bare[512:1024], lambda turn: store.get(turn % 64))
        us = 1e6
        note = f"{gathered * us:.1f} us for [{ROWS}, {WIDTH}]"
        faster, slower, dearer = looped / gathered, gathered / copied, viewed / sliced
        faster_tensor = looped_tensor / gathered_tensor
        tensor_note = f"{looped_tensor * us:.1f} us / {gathered_tensor * us:.1f} us"
        report("loop over views as tensors / gather", faster_tensor, ">= 20", faster_tensor >= 20, tensor_note)
        report("loop over views as NumPy arrays / gather", faster, ">= 20", faster >= 20, f"{looped * us:.1f} us / {note}")
        # The loop copies the same bytes, so that no gather can be further ahead of it than this.
        remark("that loop / one memcpy", looped / copied, f"{looped * us / ROWS:.2f} us a row in the loop")
        report("gather / one memcpy of the same bytes", slower, "<= 1.5", slower <= 1.5, f"{note} / {copied * us:.1f} us")
        report("a view / a bare NumPy view", dearer, "<= 5", dearer <= 5, f"{viewed * us:.2f} us / {sliced * us:.2f} us")
        remark("a rollout is found and opened", got / sliced, f"{got * us:.2f} us")


if __name__ == "__main__":
    main()
