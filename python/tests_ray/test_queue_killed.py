"""What was put before every process was killed is served after the restart, by TransferQueue itself.

A driver with a Ray of its own puts, and says when a put returned; then it and all that it started end by SIGKILL. A second driver
with a new Ray and a new controller is asked for everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil

DRIVER = Path(__file__).with_name("queue_driver.py")

PUTS = 7
"""Rounds that were acknowledged before the kill, at least."""


def test_what_was_acknowledged_survives_the_kill_of_every_process(tmp_path: Path) -> None:
    path = str(tmp_path / "queue")
    with subprocess.Popen([sys.executable, str(DRIVER), "put", path], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        acknowledged = [driver.stdout.readline() for _ in range(PUTS)]
        everyone = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
        names = [process.name() for process in everyone]
        for name in ("gcs_server", "raylet", "ray::TransferQueueController", "ray::Samples"):
            assert any(one.startswith(name) for one in names), f"{name} is not among {names}"
        for process in everyone:
            process.suspend()  # So that none sees another one's end.
        for process in everyone:
            process.kill()
        acknowledged += driver.stdout.readlines()
        psutil.wait_procs(everyone)
    last = [int(line) for line in acknowledged][-1]
    assert last >= PUTS - 1

    served = subprocess.run([sys.executable, str(DRIVER), "serve", path], capture_output=True, text=True)
    assert served.returncode == 0, served.stderr
    whole = json.loads(served.stdout.splitlines()[-1])
    for number in range(last + 1):
        for row in range(4):
            key = f"{number}-{row}"
            if number % 3 == 2:
                assert key not in whole, "what was cleared does not come back"
            else:
                assert whole[key] == [number, [number], [number / 2], [f"text of {key}"]]
    assert {int(key.split("-")[0]) for key in whole} <= set(range(last + 2)), "nothing is served that was never put"
