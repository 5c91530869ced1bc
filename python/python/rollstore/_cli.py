"""The command ``rollstore``."""

from __future__ import annotations

import signal
import sys

from ._rollstore import run_cli


def main() -> None:
    """Runs the command line with this process's arguments and ends it with its exit code."""
    # The command runs outside of the interpreter, whose own handler would wait until it is done.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_cli([sys.executable, "-m", "rollstore"], ["rollstore", *sys.argv[1:]]))
