"""A weight update of a service: plans of all clients wait at the coordinator until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import Error
from ._calls import Calls

BEAT = 5.0
"""Seconds between two signs of life to the coordinator."""


class WeightUpdate:
    """Stands where the native half's does."""

    def __init__(self, calls: Calls, number: str, step: int, ended: Callable[[], None]) -> None:
        self._calls, self._number, self._step, self._ended = calls, number, step, ended
        self._stop = threading.Event()
        threading.Thread(target=self._beat, name="weight update", daemon=True).start()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                self._calls.coordinator("beat", self._number)
            except Error:
                return

    def finish(self) -> int:
        """Advances the ref version, and lets plans go on."""
        self._stop.set()
        self._ended()
        return self._calls.operate("end_update", self._step)
