"""Goal: the wheel alone is the whole package: library, types and command.

Method: it is installed by pip into a fresh environment; there a store is written, and the command replays a recorded run that it
kills again and again. The variable ROLLSTORE_WHEEL says where it is: `cargo xtask test-python` builds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WHEEL = os.environ.get("ROLLSTORE_WHEEL")
TRACE = Path(__file__).parents[2] / "tests" / "data" / "grpo_tiny.jsonl.gz"

pytestmark = pytest.mark.skipif(WHEEL is None, reason="ROLLSTORE_WHEEL names no wheel")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it asks for."""
    environment = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    install = [environment / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", str(WHEEL)]
    subprocess.run(install, check=True, timeout=300)
    return environment / "bin"


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_replays_a_run_that_is_killed(installed: Path, tmp_path: Path) -> None:
    def replay(*more: str) -> dict[str, object]:
        return json.loads(run(installed / "rollstore", "replay", TRACE, "--json", *more, cwd=tmp_path))

    through, killed = replay("--store", "through"), replay("--store", "killed", "--kill", "5")
    assert killed == through | {"kills": 5} and through["inserted"]


def test_the_library_works_where_nothing_else_is_installed(installed: Path, tmp_path: Path) -> None:
    program = """
import importlib.resources as files, numpy as np, rollstore
assert files.files("rollstore").joinpath("py.typed").is_file() and files.files("rollstore").joinpath("_rollstore.pyi").is_file()
with rollstore.RolloutStore.open("rollouts", window=8) as store:
    store.insert([1], 100, old_logps=[np.full(3, -0.5, np.float32)], old_version=0)
    print(store[1].old_logps.tolist())
"""
    assert run(installed / "python", "-c", program, cwd=tmp_path) == "[-0.5, -0.5, -0.5]\n"
    assert json.loads(run(installed / "rollstore", "stat", "rollouts", "--json", cwd=tmp_path))["live"] == 1
