"""What the page on Ray shows runs as it stands, and so does its example.

Each runs in a process and a cluster of its own, as a user's does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

import rollstore  # noqa: E402

PYTHON = Path(__file__).parents[1]
PAGE = PYTHON.parent / "docs" / "ray.md"
EXAMPLE = PYTHON / "examples" / "ray" / "service.py"


def run(*command: str, cwd: Path) -> str:
    package = str(Path(rollstore.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_through_the_kill_of_an_actor(tmp_path: Path) -> None:
    assert "step 3: 32 computed, 64 live, version 4" in run(str(EXAMPLE), cwd=tmp_path)


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    # The cluster is not the session's: this program starts its own, and takes tasks from a file.
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks).replace("ray.init()", "ray.init(address='local', num_cpus=2, include_dashboard=False)"))
    run(str(program), cwd=tmp_path)
