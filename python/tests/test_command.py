"""Goal: the package carries the command. Method: it is run as pip installs it, and as a module, on a real store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import tokens
from rollstore import RolloutStore

COMMANDS = {"script": [str(Path(sys.executable).parent / "rollstore")], "module": [sys.executable, "-m", "rollstore"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_looks_into_a_store_that_is_written(store: RolloutStore, command: str) -> None:
    store.insert([1, 2], 100, completion_ids=tokens(3, 2))
    run = subprocess.run([*COMMANDS[command], "stat", store.path, "--json"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stderr == ""
    assert json.loads(run.stdout)["live"] == 2


def test_exit_codes_are_those_of_the_program(tmp_path: Path) -> None:
    run = subprocess.run([*COMMANDS["module"], "stat", tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2 and "none" in run.stderr and run.stdout == ""
    assert subprocess.run([*COMMANDS["module"], "--version"], capture_output=True, timeout=60).returncode == 0
