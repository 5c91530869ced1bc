"""Goal: processes and signals do no harm: workers read, forks do not write, Ctrl-C is heard, and every way to end is quiet.

Method: each in a child interpreter of its own, whose exit code and standard error are looked at.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import rollstore
from conftest import tokens
from rollstore import RolloutStore


def read(store: RolloutStore, id: int) -> list[int]:
    """What a worker sees of a store that was pickled to it."""
    return store[id].completion_ids.tolist()


def fail(store: RolloutStore, id: int) -> None:
    store.insert([id], 100)


def test_a_pickled_store_is_read_by_workers_and_not_written(store: RolloutStore) -> None:
    store.insert([1, 2], 100, completion_ids=tokens(3, 2))
    assert pickle.loads(pickle.dumps(store)).get(1) is not None
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(read, [store, store], [1, 2])) == [[0, 1, 2], [100, 101]]
        with pytest.raises(rollstore.InvalidError):
            pool.submit(fail, store, 3).result()
    assert len(store) == 2


def test_a_forked_child_reads_and_cannot_write(store: RolloutStore) -> None:
    store.insert([1], 100, completion_ids=tokens(3))
    view = store[1].completion_ids
    child = os.fork()
    if child == 0:
        try:
            assert view.tolist() == [0, 1, 2]
            try:
                store.insert([2], 100)
            except rollstore.InvalidError:
                os._exit(7)
            os._exit(1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.insert([2], 100)
    assert len(store) == 2


BEGIN = """
import os, signal, sys, threading
import numpy as np
import rollstore
store = rollstore.RolloutStore.open(sys.argv[1], window=8, durability="buffered")
store.insert(np.arange(50), 100, completion_ids=[np.arange(500)] * 50)
view = store[3].completion_ids
"""

ENDS = {
    "falls off": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise SystemExit(4)", 4),
    "os._exit": ("os._exit(5)", 5),
    "a reference cycle": ("cycle = [store, view]; cycle.append(cycle)", 0),
    "a weight update under way": ("store.weight_update(101).__enter__(); update = store", 0),
    "a daemon thread that inserts": (
        "def insert():\n"
        "    for id in range(1000, 10**6): store.insert([id], 100, completion_ids=[[1]])\n"
        "threading.Thread(target=insert, daemon=True).start()\n"
        "while len(store) < 60: pass\n",
        0,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_end_is_quiet_and_loses_nothing(tmp_path: Path, end: str) -> None:
    code, status = ENDS[end]
    run = subprocess.run([sys.executable, "-c", BEGIN + code, tmp_path / "s"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (status, "")
    with RolloutStore.open(tmp_path / "s") as store:
        assert len(store) >= 50 and store.verify().is_sound


# A shell that puts a job into the background makes it deaf to this signal, and so every child of it.
LONG = """
import signal, sys
import rollstore
signal.signal(signal.SIGINT, signal.default_int_handler)
store = rollstore.RolloutStore.open(sys.argv[1], window=8)
try:
    print("ready", flush=True)
    while True:
        store.verify()
except KeyboardInterrupt:
    store.insert([10**6], 100)
    print("heard", len(store), flush=True)
"""


def test_ctrl_c_is_heard_in_a_long_call_and_the_store_goes_on(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "s", window=8) as store:
        store.insert(range(500), 100, completion_ids=np.zeros((500, 20_000), np.uint32), lengths=20_000)
    child = subprocess.Popen([sys.executable, "-c", LONG, tmp_path / "s"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert child.stdout.readline() == "heard 501\n"
    assert time.monotonic() - begun < 30, "a call that waits for its end would go on for ever"
    assert child.wait(60) == 0
    with RolloutStore.open(tmp_path / "s") as store:
        assert len(store) == 501


GATE = """
import sys, threading
import rollstore
store = rollstore.RolloutStore.open(sys.argv[1], window=8)
turns = 0
def turn():
    global turns
    while not done.is_set(): turns += 1
done = threading.Event()
threading.Thread(target=turn).start()
store.verify()
done.set()
print(turns)
"""


def test_other_threads_run_while_the_store_works(tmp_path: Path) -> None:
    with RolloutStore.open(tmp_path / "s", window=8) as store:
        store.insert(range(200), 100, completion_ids=np.zeros((200, 50_000), np.uint32), lengths=50_000)
    run = subprocess.run([sys.executable, "-c", GATE, tmp_path / "s"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and int(run.stdout) > 1000, "with the lock held the thread takes no turn"
