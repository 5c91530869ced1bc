"""What calls cost, as ratios within one run: figures of one machine say little, ratios say whether a call is worth it.

Prints one line for each, with its bound, and fails where a bound is missed. Each ratio is of interleaved measurements, and the
best of several rounds, so that what else the machine does matters little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
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


def report(what: str, ratio: float, bound: str, is_met: bool, note: str) -> bool:
    print(f"{what:<44} {ratio:7.2f}   bound {bound:<8} {'met' if is_met else 'MISSED'}   {note}")
    return is_met


def main() -> int:
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

        for turn in range(len(batches)):
            gather(turn)
        store.set_cursor(b"")  # as a trainer commits: what was asked for is counted with it
        gathered, copied, looped = best(len(batches), gather, copy, loop)
        assert (out == -0.5).all()
        rollout = store[1]
        bare = np.zeros(1 << 16, np.float32)
        viewed, sliced, got = best(5000, lambda _: rollout.old_logps, lambda _: bare[512:1024], lambda turn: store.get(turn % 64))
        us = 1e6
        note = f"{gathered * us:.1f} us for [{ROWS}, {WIDTH}]"
        met = [
            report("Python loop over views / gather", looped / gathered, ">= 20", looped / gathered >= 20, f"{looped * us:.1f} us / {note}"),
            report("gather / one memcpy of the same bytes", gathered / copied, "<= 1.5", gathered / copied <= 1.5, f"{note} / {copied * us:.1f} us"),
            report("a view / a bare NumPy view", viewed / sliced, "<= 5", viewed / sliced <= 5, f"{viewed * us:.2f} us / {sliced * us:.2f} us"),
        ]
        print(f"{'(a rollout is found and opened)':<44} {got / sliced:7.2f}   {'':<14} {'':<3}     {got * us:.2f} us")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
