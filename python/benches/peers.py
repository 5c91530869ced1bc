"""rollstore beside what else Python programs keep rollouts in, under one guarantee: a batch is on the device when it returns.

Each round gives every peer a process of its own, which writes, reads, and is killed, and a second one, which opens what the first
one left. Rounds are interleaved, ratios are taken within a round, and the median counts. Each process compares every value that it
wrote, or finds, with what it should be.

Prints a page in Markdown; ``--save`` keeps it, and the figures, in ``docs/benchmarks``, and ``--again`` makes the page of the kept
figures. ``count_syncs.c`` is loaded before the C library and counts syncs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS, ROLLOUTS, BATCH, GATHERED, WIDTH = 3, 16_384, 512, 64, 1024
GETS, GATHERS = 20_000, 200
Figures = dict[str, float]

METRICS = {
    "ingest_mb_s": ("ingest, MB/s", 0),
    "commit_ms": ("a batch, ms", 1),
    "syncs": ("syncs a batch", 1),
    "get_first_us": ("get, first value, µs", 2),
    "get_sum_us": ("get, summed, µs", 2),
    "gather_us": ("gather, µs", 0),
    "reload_ms": ("reload, ms", 1),
    "disk": ("space on disk", 2),
}

WHY = {
    "ingest_mb_s": "each array is checked and checksummed and lies in a frame of its own, which one array for all rows needs not",
    "get_first_us": "a rollout is found, its header checked, and a view made that keeps its file mapped; a slice of an array is that alone",
    "get_sum_us": "the same",
    "gather_us": "rows that were padded when they were put need only be copied",
    "reload_ms": "after a kill the end of the log is read and settled, and the index loaded into memory",
    "disk": "headers, and 8 MiB that are kept in reserve for a full disk",
}


def contents(rollouts: int) -> tuple[list[Any], list[Any]]:
    """The same in every process: log-probs and token ids that do not compress, 512 to 1,024 of each."""
    import numpy as np

    rng = np.random.default_rng(7)
    lens = rng.integers(WIDTH // 2, WIDTH + 1, rollouts)
    logps = [-8 * rng.random(n, np.float32) for n in lens]
    return logps, [rng.integers(0, 150_000, n, np.int32) for n in lens]


def check(store: Any, logps: list[Any], tokens: list[Any]) -> None:
    """Every value, by get and by gather."""
    import numpy as np

    for id, (values, of_row) in enumerate(zip(logps, tokens, strict=True)):
        assert np.array_equal(store.get(id), values) and np.array_equal(store.tokens(id), of_row), f"rollout {id} differs"
    out = np.ones((GATHERED, WIDTH), np.float32)
    for first in range(0, len(logps), GATHERED):
        ids = np.arange(first, first + GATHERED, dtype=np.uint64)
        store.gather(ids, out)
        for row, id in zip(out, ids.tolist(), strict=True):
            values = logps[id]
            assert np.array_equal(row[: len(values)], values) and not row[len(values) :].any(), f"row of {id} differs"


def write(peer: str, folder: Path, rollouts: int) -> Figures:
    """What the first process measures."""
    import numpy as np
    from peer_stores import PEERS

    logps, tokens = contents(rollouts)
    syncs = ctypes.CDLL(None).syncs_made
    syncs.restype = ctypes.c_ulong
    store = PEERS[peer](folder, rollouts)
    took, before = [], syncs()
    for first in range(0, rollouts, BATCH):
        part, ids = slice(first, first + BATCH), np.arange(first, first + BATCH, dtype=np.uint64)
        begun = time.perf_counter()
        store.put(ids, logps[part], tokens[part])
        took.append(time.perf_counter() - begun)
    synced = (syncs() - before) / len(took)
    # Every page is touched and every checksum checked: what follows is warm.
    check(store, logps, tokens)
    rng = random.Random(7)
    ids = [rng.randrange(rollouts) for _ in range(GETS)]

    def us_each(call: Any, over: list[Any]) -> float:
        begun = time.perf_counter()
        for one in over:
            call(one)
        return (time.perf_counter() - begun) / len(over) * 1e6

    first_us = us_each(lambda id: store.get(id)[0], ids)
    sum_us = us_each(lambda id: store.get(id).sum(), ids)
    out = np.zeros((GATHERED, WIDTH), np.float32)
    batches = [np.array(rng.sample(range(rollouts), GATHERED), np.uint64) for _ in range(GATHERS)]
    gather_us = us_each(lambda ids: store.gather(ids, out), batches)
    value_bytes = sum(row.nbytes * 2 for row in logps)
    disk_bytes = sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
    return {
        "ingest_mb_s": value_bytes / sum(took) / 1e6,
        "commit_ms": statistics.median(took) * 1e3,
        "syncs": synced,
        "get_first_us": first_us,
        "get_sum_us": sum_us,
        "gather_us": gather_us,
        "disk": disk_bytes / value_bytes,
    }


def reload(peer: str, folder: Path, rollouts: int) -> Figures:
    """What the second process measures, after the first one was killed: opening, and one gather."""
    import numpy as np
    from peer_stores import PEERS

    logps, tokens = contents(rollouts)
    out = np.zeros((GATHERED, WIDTH), np.float32)
    # What is imported is not the store's: that is done once elsewhere.
    with tempfile.TemporaryDirectory(dir=folder.parent) as other:
        PEERS[peer](Path(other), rollouts)
    begun = time.perf_counter()
    store = PEERS[peer](folder, rollouts)
    store.gather(np.arange(0, rollouts, rollouts // GATHERED, dtype=np.uint64), out)
    took = time.perf_counter() - begun
    check(store, logps, tokens)
    return {"reload_ms": took * 1e3}


def in_child(phase: str, peer: str, folder: Path, rollouts: int) -> Figures:
    """Runs a phase in a process of its own, which is killed once it has told its figures."""
    command = [sys.executable, __file__, "--child", phase, "--peer", peer, "--folder", str(folder), "--rollouts", str(rollouts)]
    child = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if child.returncode != -signal.SIGKILL:
        raise SystemExit(f"{peer}, {phase}: exit {child.returncode}")
    return json.loads(child.stdout.splitlines()[-1])


def measure(rounds: int, rollouts: int, scratch: Path) -> dict[str, Any]:
    from peer_stores import PEERS

    names = list(PEERS)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    load = os.getloadavg()[0]
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            folder = Path(tempfile.mkdtemp(prefix="peers-", dir=scratch))
            try:
                figures = in_child("write", name, folder, rollouts)
                found[name].append(figures | in_child("reload", name, folder, rollouts))
            finally:
                shutil.rmtree(folder)
            print(f"round {turn + 1} of {rounds}: {name}", file=sys.stderr)
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{_processor()}, {os.cpu_count()} cores, Linux {platform.release()}, CPython {platform.python_version()}",
        "load": round(load, 2),
        "rounds": rounds,
        "rollouts": rollouts,
        "settings": {name: [peer.settings, peer.guarantee] for name, peer in PEERS.items()},
        "versions": _versions(),
        "figures": {name: {metric: [round(one[metric], 3) for one in of] for metric in METRICS} for name, of in found.items()},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _versions() -> str:
    import importlib.metadata
    import sqlite3

    names = ["rollstore", "torch", "torchrl", "lmdb", "safetensors", "numpy"]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([*versions, f"SQLite {sqlite3.sqlite_version}"])


def times_ahead(result: dict[str, Any], name: str, metric: str) -> float:
    """How many times better rollstore is: the median of the rounds' ratios."""
    ours, theirs = result["figures"]["rollstore"][metric], result["figures"][name][metric]
    pairs = [(b, a) if metric == "ingest_mb_s" else (a, b) for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(theirs / max(ours, 1e-9) for ours, theirs in pairs)


def page(result: dict[str, Any]) -> str:
    figures = result["figures"]
    lines = [
        "# Benchmarks of the Python package",
        "",
        "rollstore beside what else Python programs keep rollouts in. Made by `cargo xtask bench-python-peers`; no figure was typed.",
        "",
        "```sh",
        "cargo xtask bench-python-peers --save",
        "```",
        "",
        f"{result['rollouts']:,} rollouts of {WIDTH // 2} to {WIDTH:,} tokens, each with float32 log-probs and int32 token ids that do not "
        f"compress, {BATCH} a batch. Each batch is on the device when its call returns; syncs are counted at the C library. Then random "
        f"gets of log-probs, warm, and gathers of {GATHERED} random rollouts, padded to {WIDTH:,}. Then the process is killed, and another one "
        "opens what it left and gathers once (reload; imports are not counted, the files are in the page cache). All values are compared "
        "in both processes. A peer does in each round what the others do; ratios are taken within a round, and the median counts.",
        "",
        f"{result['date']}: {result['machine']}. {result['versions']}. {result['rounds']} rounds; the load was {result['load']} when they "
        "began. Ratios carry over, absolute figures do not.",
        "",
    ]
    if result["rounds"] < ROUNDS or result["load"] > 0.5:
        lines += ["**Provisional**: fewer rounds than usual, or a machine that others were using too.", ""]
    lines += ["| | " + " | ".join(title for title, _ in METRICS.values()) + " |", "|---|" + "---|" * len(METRICS)]
    for name in figures:
        cells = []
        for metric, (_, digits) in METRICS.items():
            cell = f"{statistics.median(figures[name][metric]):,.{digits}f}"
            if name != "rollstore" and metric in WHY:
                cell += f" ({times_ahead(result, name, metric):.2f})"
            cells.append(cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "In brackets: how many times better rollstore is; below 1, the other one is better. Space is told in bytes of values.",
        "",
        "Where another one is more than 5 % ahead:",
        "",
    ]
    for metric, (title, _) in METRICS.items():
        ahead = {name: times_ahead(result, name, metric) for name in figures if name != "rollstore"}
        # Syncs are no merit, and the time of a batch is told by the rate.
        if metric not in WHY:
            continue
        names = [f"{name} ({1 / max(times, 1e-9):.1f} ×)" for name, times in ahead.items() if times < 0.95]
        if names:
            lines.append(f"- {title}: {', '.join(names)}: {WHY[metric]}")
    lines += ["", "## Settings and guarantees", ""]
    lines += [f"- **{name}**: {settings}. Guarantee: {guarantee}." for name, (settings, guarantee) in result["settings"].items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of two batches: shows that it runs")
    parser.add_argument("--save", action="store_true", help="keeps figures and page in docs/benchmarks")
    parser.add_argument("--again", action="store_true", help="measures nothing: takes the kept figures")
    parser.add_argument("--child", choices=["write", "reload"], help=argparse.SUPPRESS)
    for option, kind in (("--peer", str), ("--folder", Path), ("--rollouts", int)):
        parser.add_argument(option, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        phase = write if options.child == "write" else reload
        print(json.dumps(phase(options.peer, options.folder, options.rollouts)), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    root = Path(__file__).resolve().parents[2]
    kept = root / "docs" / "benchmarks" / "python.json"
    if options.again:
        result = json.loads(kept.read_text())
    else:
        # Beside the build: on a disk, where the system's temporary directory may be memory.
        rounds, rollouts = (1, 2 * BATCH) if options.quick else (ROUNDS, ROLLOUTS)
        result = measure(rounds, rollouts, root / "target")
    if options.save:
        kept.write_text(json.dumps(result, indent=1) + "\n")
        kept.with_suffix(".md").write_text(page(result) + "\n")
    print(page(result))


if __name__ == "__main__":
    main()
