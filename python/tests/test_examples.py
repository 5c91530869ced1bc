"""Goal: what the documents show runs as it stands, and the quick start survives a kill.

Method: every Python block of the README and of docs/python.md is run, one document in one process; the quick start is killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
DOCUMENTS = {"README": PACKAGE / "README.md", "guide": PACKAGE.parent / "docs" / "python.md"}
QUICKSTART = PACKAGE / "examples" / "quickstart.py"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_in_the_documents_runs(document: str, tmp_path: Path) -> None:
    text = DOCUMENTS[document].read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    program = "\n".join(blocks)
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_the_quick_start_goes_on_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, str(QUICKSTART), str(tmp_path / "rollouts")]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    while not first.stdout.readline().startswith("step  20"):
        assert first.poll() is None
    os.kill(first.pid, 9)
    first.wait()
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0 and again.stderr == ""
    gone_on = re.search(r"goes on at step (\d+) with (\d+) rollouts", again.stdout)
    assert gone_on is not None and int(gone_on[1]) >= 20 and int(gone_on[2]) >= 256
    assert float(re.findall(r"reward ([0-9.]+)", again.stdout)[-1]) > 0.8
