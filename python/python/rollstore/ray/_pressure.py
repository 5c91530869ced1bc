"""Room for calls in flight: bounded in number and bytes, so that a fast client waits instead of filling the object store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Pressure:
    """What one client may have in flight."""

    def __init__(self, calls_max: int, bytes_max: int, waited: Callable[[], None]) -> None:
        self.calls_max, self.bytes_max = calls_max, bytes_max
        self._waited = waited
        self._changed = threading.Condition()
        self._calls = self._bytes = 0
        self.peak_calls = 0
        """The most calls that were in flight at a time."""
        self.peak_bytes = 0
        """The most bytes that were in flight at a time."""
        self.waits = 0
        """Calls that had to wait."""

    @contextmanager
    def room(self, calls: int, size: int) -> Generator[None, None, None]:
        """Waits until so much more fits, or nothing else is in flight: a call that is too large for the bounds goes alone."""
        with self._changed:
            if not self._fits(calls, size):
                self.waits += 1
                self._waited()
                self._changed.wait_for(lambda: self._fits(calls, size))
            self._calls += calls
            self._bytes += size
            self.peak_calls = max(self.peak_calls, self._calls)
            self.peak_bytes = max(self.peak_bytes, self._bytes)
        try:
            yield
        finally:
            with self._changed:
                self._calls -= calls
                self._bytes -= size
                self._changed.notify_all()

    def _fits(self, calls: int, size: int) -> bool:
        return self._calls == 0 or (self._calls + calls <= self.calls_max and self._bytes + size <= self.bytes_max)
