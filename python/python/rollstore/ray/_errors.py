"""What goes wrong with a service and cannot with one store."""

from __future__ import annotations

from ..errors import Error


class ShardUnavailableError(Error, TimeoutError):
    """An actor did not answer in time: its node is gone, or it restarts. Call again. What was not acknowledged may have happened."""

    kind = "unavailable"


class ShardLostError(Error, RuntimeError):
    """An actor's disk is empty and nothing can be brought back: restore a checkpoint of the whole service."""

    kind = "lost"
