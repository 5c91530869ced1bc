"""What `transfer_queue.init` runs once, before any client: it starts the owner and tells the controller what the store has."""

from __future__ import annotations

import logging
from typing import Any

from ._manager import CONTROLLER
from ._modules import module
from ._owner import NAMESPACE, start
from ._recovery import adopt
from ._settings import settings_of

ray = module("ray")

BACKEND = "Rollstore"
"""The name of the backend, and of its section in the configuration."""

_log = logging.getLogger(__name__)


def initialize(conf: Any) -> dict[str, Any]:
    """Starts the owner, and returns what keeps it alive.

    Raises :class:`rollstore.InvalidError`, a ``ValueError``, for settings that do not fit, and ``RuntimeError`` where the store
    cannot be opened.
    """
    section = conf.backend.get(BACKEND)
    settings = settings_of(section)
    actor, address = start(settings)
    if settings.recover:
        records = ray.get(actor.records.remote())
        controller = ray.get_actor(CONTROLLER, namespace=NAMESPACE)
        count = ray.get(controller.__ray_call__.remote(adopt, records)) if records else 0
        _log.info("%s: %d samples of an earlier run are served again", settings.path, count)
    else:
        _log.info("%s: %d rollouts of an earlier run are retired", settings.path, ray.get(actor.clear_all.remote()))
    section.owner = address
    return {"owner": actor}
