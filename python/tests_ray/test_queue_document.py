"""What docs/verl.md shows is so: its Python runs, its commands print what stands there, and its settings are those that there are.

The blocks run in the order of the document, in one directory. Columns may differ in width, words may not.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from rollstore.transferqueue._settings import Settings
from transfer_queue.storage.bootstrap import StorageBootstrapProvider
from transfer_queue.storage.clients.base import StorageClientFactory
from transfer_queue.storage.managers.base import StorageManagerFactory

PACKAGE = Path(__file__).parents[1]
DOCUMENT = (PACKAGE.parent / "docs" / "verl.md").read_text()


def test_the_blocks_run_and_print_what_stands_there(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (console,) = re.findall(r"^```console\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    for command, shown in re.findall(r"^\$ rollstore (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        run = subprocess.run([sys.executable, "-m", "rollstore", *command.split()], cwd=tmp_path, capture_output=True, text=True)
        assert run.stdout.split() == shown.split(), run.stdout + run.stderr


def test_every_setting_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE))
    assert described == {field.name for field in fields(Settings)} - {"owner"}


def test_the_plugin_that_verl_loads_registers_the_backend() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    import_module(project["entry-points"]["verl.plugins"]["rollstore"])
    assert "RollstoreClient" in StorageClientFactory._registry
    assert "Rollstore" in StorageManagerFactory._registry
    assert StorageBootstrapProvider.get_provider("Rollstore") is not None
