"""Goal: a buffer that is killed comes back as of its last call: rollouts, ends, counts, draws and the caller's cursor together.

Method: a child puts, draws, trains and is killed by SIGKILL; the buffer is opened again and compared with what the child reported
before. Then the same with a checkpoint and a restore.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import rollstore
from rollstore.replay_buffer import ReplayBuffer

CHILD = """
import json, sys, time
import numpy as np
from rollstore.replay_buffer import ReplayBuffer

buffer = ReplayBuffer.open(sys.argv[1], max_staleness=2, seed=5, durability="buffered")
for step in range(1, 6):
    buffer.advance(step)
    buffer.put(completion_ids=[np.arange(3)] * 4, cursor=f"loader {step}".encode())
    sample = buffer.sample(2)
    buffer.trained(sample.ids[:1], cursor=f"trained {step}".encode())
held = buffer.sample(2, hold=True)
print(json.dumps({"ids": sorted(buffer.store.ids().tolist()), "dropped": buffer.dropped, "cursor": buffer.cursor.decode(),
                  "step": buffer.step, "next": held.ids.tolist()}), flush=True)
time.sleep(600)
"""


def test_a_killed_buffer_comes_back_as_of_its_last_call(tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    line = child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    was = json.loads(line)
    with ReplayBuffer.open(path, max_staleness=2, seed=5) as buffer:
        assert sorted(buffer.store.ids().tolist()) == was["ids"] and len(buffer) == len(was["ids"])
        assert buffer.dropped == was["dropped"] and buffer.step == was["step"] == 5
        assert buffer.cursor == b"trained 5" == was["cursor"].encode()
        assert buffer.sample(2).ids.tolist() == was["next"], "what was drawn and not trained on is drawn again"


def test_a_restore_brings_back_the_buffer_of_the_checkpoint(tmp_path: Path) -> None:
    with ReplayBuffer.open(tmp_path / "buffer", max_staleness=2) as buffer:
        buffer.put(completion_ids=[np.arange(3)] * 4, cursor=b"then")
        buffer.sample(1)
        buffer.checkpoint(tmp_path / "checkpoint")
        after = buffer.sample(2).ids.tolist()
        buffer.drop(buffer.sample(4).ids, "later", cursor=b"later")
        assert len(buffer) == 0
    rollstore.restore(tmp_path / "checkpoint", tmp_path / "buffer")
    with ReplayBuffer.open(tmp_path / "buffer", max_staleness=2) as buffer:
        assert (len(buffer), buffer.cursor, buffer.dropped) == (4, b"then", {})
        assert buffer.sample(2).ids.tolist() == after, "draws go on where the checkpoint was"
